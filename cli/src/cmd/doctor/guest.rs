//! In a guest: the window's device, before any library is asked.

use super::check::Check;
use super::{module, nics_guest, rdma, window};
use crate::machine::{PCI, ivshmem_devices, pmem_devices};
use crate::out;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};
use vfun_window::{Access, Mapping};
use vfun_wire::PAGE;

/// Looks at each window that this machine has, and at its bond.
pub fn look() -> Vec<Check> {
    let mut checks = windows();
    checks.extend(nics_guest::look());
    checks.extend(rdma::guest());
    checks
}

fn windows() -> Vec<Check> {
    let devices = ivshmem_devices();
    let memories = pmem_devices();
    if !memories.is_empty() && devices.is_empty() {
        return memories.iter().flat_map(|path| pmem(path, true)).collect();
    }
    if devices.is_empty() {
        return vec![Check::missing("device", format!("no ivshmem device (PCI 1af4:1110) in {PCI}, and no persistent memory (/dev/daxN.M)")).mend(
            "on the host: `vfun client show NAME` prints what to give QEMU or libvirt; then start the VM again",
        )];
    }
    let mut checks = module::look(!devices.is_empty());
    checks.extend(memories.iter().flat_map(|path| pmem(path, false)));
    checks.extend(devices.iter().flat_map(|d| device(d)));
    checks
}

/// A device of persistent memory, and the window in it. `needed`: there is no other
/// device.
fn pmem(path: &Path, needed: bool) -> Vec<Check> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let size = std::fs::read_to_string(format!("/sys/bus/dax/devices/{name}/size"));
    let bytes = size.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let shown = format!("{} of {}", path.display(), out::bytes(bytes));
    // As the library does: it must be writable too.
    let opened = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(io::Error::from);
    match opened.and_then(|f| Mapping::new(&f, 0, PAGE, Access::Read).map_err(io::Error::other)) {
        Ok(mapping) => {
            let mut checks = vec![Check::ok("device", shown)];
            checks.extend(window::look(&mapping.read(), bytes));
            checks
        }
        Err(e) => {
            let found = format!("{shown} cannot be mapped: {e}");
            let check = match needed {
                true => Check::missing("device", found),
                false => Check::note("device", found),
            };
            vec![check.mend("run as root, or let this user open the device (a udev rule)")]
        }
    }
}

fn device(folder: &Path) -> Vec<Check> {
    let address = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let driver = std::fs::read_link(folder.join("driver")).ok();
    let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    match driver.as_deref() {
        // Linux lets nobody else map what a driver holds; the module's own device was looked at.
        Some("vfun") => {
            return vec![Check::ok("device", format!("{address}: held by the kernel module"))];
        }
        Some(other) => {
            return vec![
                Check::missing("device", format!("{address}: held by the driver '{other}'"))
                    .mend(format!("unbind it (echo {address} > {}/driver/unbind), then load the kernel module", folder.display())),
            ];
        }
        None => {}
    }
    let mut checks = vec![];
    let (file, mapping) = match map(folder) {
        Ok(found) => found,
        Err((file, e)) => {
            let mend: &str = match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    "load the kernel module (modprobe vfun), which is for any user of the group vfun; or run as root"
                }
                _ => "see whether it was unplugged",
            };
            return vec![
                Check::missing(
                    "device",
                    format!("{address}: {} cannot be mapped: {e}", file.display()),
                )
                .mend(mend),
            ];
        }
    };
    let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
    checks.push(Check::ok(
        "device",
        format!("{address}: {} of {}", file.display(), out::bytes(bytes)),
    ));
    checks.extend(window::look(&mapping.read(), bytes));
    checks
}

fn map(folder: &Path) -> Result<(PathBuf, std::sync::Arc<Mapping>), (PathBuf, io::Error)> {
    let mut first = None;
    for name in ["resource2_wc", "resource2"] {
        let path = folder.join(name);
        // As the library does: it must be writable too.
        let opened = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from);
        match opened.and_then(|f| Mapping::new(&f, 0, PAGE, Access::Read).map_err(io::Error::other))
        {
            Ok(mapping) => return Ok((path, mapping)),
            Err(e) if e.kind() == io::ErrorKind::NotFound && first.is_some() => {}
            Err(e) => first = first.or(Some((path, e))),
        }
    }
    Err(first.unwrap_or_else(|| (folder.join("resource2"), io::ErrorKind::NotFound.into())))
}
