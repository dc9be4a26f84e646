//! In a guest: the window's device, before any library is asked.

use super::check::Check;
use super::module;
use crate::out;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_window::{Access, Mapping, ReadSpan};
use vfun_wire::PAGE;
use vfun_wire::header::{HOST_BEAT_OFF, HOST_STATE_OFF, MAGIC, WindowHeader, host_state};
use vfun_wire::names;
use vfun_wire::version::Features;
use zerocopy::FromBytes;

const PCI: &str = "/sys/bus/pci/devices";
/// How long the manager has to show that it looks: it does so every 5 ms.
const BEAT: Duration = Duration::from_millis(500);

/// Folders of the ivshmem devices of this machine.
pub fn devices() -> Vec<PathBuf> {
    let is = |folder: &Path, file: &str, id: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|t| t.trim() == id)
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir(PCI)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| is(p, "vendor", "0x1af4") && is(p, "device", "0x1110"))
        .collect();
    found.sort();
    found
}

/// Looks at each.
pub fn look() -> Vec<Check> {
    let devices = devices();
    if devices.is_empty() {
        return vec![Check::missing("device", format!("no ivshmem device (PCI 1af4:1110) in {PCI}")).mend(
            "on the host: `vfun client show NAME` prints what to give QEMU or libvirt; then start the VM anew",
        )];
    }
    let mut checks = module::look(!devices.is_empty());
    checks.extend(devices.iter().flat_map(|d| device(d)));
    checks
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
    checks.extend(window(&mapping.read(), bytes));
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

/// A window's header, and whether its manager lives.
pub fn window(span: &ReadSpan, bytes: u64) -> Vec<Check> {
    let magic = span.load(0, Ordering::Acquire);
    if magic != MAGIC {
        return vec![Check::missing("window", format!("the device holds no VirtFun window (magic {magic:#018x})"))
            .mend("start vfund on the host; then see that the VM's device is on the file that `vfun client show NAME` names")];
    }
    let mut raw = [0; size_of::<WindowHeader>()];
    if span.read(0, &mut raw).is_err() {
        return vec![Check::missing("window", "the window is shorter than its header")];
    }
    let Ok(header) = WindowHeader::read_from_bytes(&raw) else { return vec![] };
    let client = names::decode(&header.client).unwrap_or("(unreadable)");
    let mut checks = vec![];
    if let Err(e) = header.check(bytes) {
        checks
            .push(Check::missing("window", e.to_string()).mend("use a vfun of the host's version"));
        return checks;
    }
    checks.push(Check::ok(
        "window",
        format!(
            "of client {client} (id {}), generation {:#x}, protocol {} to {}, {}",
            header.client_id,
            header.generation,
            header.version_min,
            header.version_max,
            if header.vectors.get() == 0 {
                "no doorbell: sleepers look by the clock"
            } else {
                "with doorbell"
            },
        ),
    ));
    let beats = !Features(header.features.get()).has(Features::DOORBELL);
    checks.push(manager(span, beats));
    checks
}

/// `beats`: it looks by the clock and shows that it does; otherwise it sleeps
/// until it is rung, and only an answer (below) shows that it lives.
fn manager(span: &ReadSpan, beats: bool) -> Check {
    let load = |off: usize| span.load(off / 8, Ordering::Acquire);
    let state = load(HOST_STATE_OFF) as u32;
    let (before, start) = (load(HOST_BEAT_OFF), Instant::now());
    while beats && load(HOST_BEAT_OFF) == before && start.elapsed() < BEAT {
        std::thread::sleep(Duration::from_millis(1));
    }
    let moved = !beats || load(HOST_BEAT_OFF) != before;
    match (state, moved) {
        (host_state::ENDED, _) => {
            Check::missing("manager", "it has ended").mend("start vfund on the host")
        }
        (_, false) => Check::missing(
            "manager",
            format!("its beat has stood still for {}: it is gone", out::duration(BEAT)),
        )
        .mend("start vfund on the host; see its log for why it ended"),
        (host_state::DRAINING, true) => {
            Check::note("manager", "alive, but draining: it grants nothing new")
        }
        (_, true) if beats => Check::ok("manager", "alive: its beat moves"),
        (_, true) => Check::ok("manager", "serving, asleep until it is rung"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_nobody_laid_out_is_no_window() {
        let fd = vfun_window::memfd("doctor", 1 << 20).unwrap();
        let mapping = Mapping::new(&fd, 0, PAGE, Access::ReadWrite).unwrap();
        let checks = window(&mapping.read(), 1 << 20);
        assert!(checks[0].found.contains("no VirtFun window") && checks[0].mend.is_some());
        // With a beat that stands still the manager is gone.
        mapping.write().unwrap().store(HOST_STATE_OFF / 8, 1, Ordering::Release);
        assert!(manager(&mapping.read(), true).found.contains("stood still"));
        assert!(manager(&mapping.read(), false).found.contains("until it is rung"));
        mapping.write().unwrap().store(HOST_STATE_OFF / 8, 3, Ordering::Release);
        assert!(manager(&mapping.read(), true).found.contains("has ended"));
    }
}
