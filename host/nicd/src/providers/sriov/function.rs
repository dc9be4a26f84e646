//! One virtual function: who uses it, its driver, its reset.

use crate::child;
use crate::limits::IP_TIME;
use crate::places::Places;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Drivers with which a card's own VFs are ordinary interfaces of the host.
const CARDS_OWN: [&str; 8] =
    ["igbvf", "ixgbevf", "iavf", "mlx5_core", "mlx4_core", "bnxt_en", "fm10k", "be2net"];
const VFIO: &str = "vfio-pci";
/// How to have the driver vfio-pci. This program may load no module: that would be the right
/// to do anything.
pub const LOAD_VFIO: &str = "load it at boot: echo vfio-pci > /etc/modules-load.d/vfio-pci.conf, and now: modprobe vfio-pci";

/// A PCI function.
pub struct Function {
    address: String,
    /// Its folder in sysfs.
    folder: PathBuf,
    places: Places,
}

impl Function {
    pub fn new(address: String, places: &Places) -> Self {
        let folder = places.sys.join("bus/pci/devices").join(&address);
        Function { address, folder, places: places.clone() }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    fn link(&self, name: &str) -> Option<String> {
        let to = fs::read_link(self.folder.join(name)).ok()?;
        Some(to.file_name()?.to_str()?.to_owned())
    }

    fn driver(&self) -> Option<String> {
        self.link("driver")
    }

    /// Why it may be given to nobody.
    pub fn unusable(&self) -> Option<String> {
        self.of_others().or_else(|| self.shares_group())
    }

    fn of_others(&self) -> Option<String> {
        match self.driver()?.as_str() {
            VFIO if self.is_bound_by_us() => None,
            VFIO => Some(
                "another program bound it to vfio-pci; unbind it there to have it given out".into(),
            ),
            own if CARDS_OWN.contains(&own) => self.host_uses_it(own),
            other => Some(format!("the driver {other} uses it; unbind it to have it given out")),
        }
    }

    /// Whether the host uses it as an interface.
    fn host_uses_it(&self, driver: &str) -> Option<String> {
        let names: Vec<String> = fs::read_dir(self.folder.join("net"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        if names.is_empty() {
            return Some(format!(
                "its driver {driver} has no interface here: it may be in another network namespace"
            ));
        }
        names.iter().find_map(|name| self.uses(name))
    }

    fn uses(&self, name: &str) -> Option<String> {
        let folder = self.places.sys.join("class/net").join(name);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let files: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        if let Some(upper) = files.iter().find_map(|f| f.strip_prefix("upper_")) {
            return Some(format!("the host uses it: its interface {name} belongs to {upper}"));
        }
        match child::must("ip", &["-j", "addr", "show", "dev", name], "", IP_TIME) {
            Ok(text) if has_address(&text) => {
                Some(format!("the host uses it: its interface {name} has an address"))
            }
            Ok(_) => None,
            Err(why) => Some(format!("whether the host uses it is not known: {why}")),
        }
    }

    /// Whether a device that is no VF of ours shares its IOMMU group.
    fn shares_group(&self) -> Option<String> {
        if self.link("iommu_group").is_none() {
            return Some(
                "it has no IOMMU group: switch the IOMMU on (intel_iommu=on, or in the firmware)"
                    .into(),
            );
        }
        let devices = fs::read_dir(self.folder.join("iommu_group/devices"));
        let mut others = devices.into_iter().flatten().flatten().map(|e| e.file_name());
        let other = others.find(|name| *name != *self.address)?;
        Some(format!("it shares its IOMMU group with {}", other.to_string_lossy()))
    }

    /// Why it may not be touched now: a program has it open.
    pub fn in_use(&self) -> Option<String> {
        if self.driver().as_deref() != Some(VFIO) {
            return None;
        }
        let group = self.places.dev.join("vfio").join(self.link("iommu_group")?);
        // VFIO lets one program open a group.
        match fs::File::options().read(true).write(true).open(&group) {
            Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                Some("a program (a QEMU?) still has it open".into())
            }
            _ => None,
        }
    }

    /// A file that says that this program bound it, since this start of the system.
    fn mark(&self) -> PathBuf {
        self.places.own.join("bound").join(&self.address)
    }

    fn boot() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// Whether vfio-pci has it because of this program.
    pub fn is_bound_by_us(&self) -> bool {
        let vfio = self.driver().as_deref() == Some(VFIO);
        vfio && fs::read_to_string(self.mark()).is_ok_and(|boot| boot == Self::boot())
    }

    /// Gives it to vfio-pci.
    pub fn bind(&self) -> Result<(), String> {
        if self.driver().as_deref() == Some(VFIO) {
            return Ok(());
        }
        if !self.places.sys.join("bus/pci/drivers").join(VFIO).is_dir() {
            return Err(format!("the driver vfio-pci is not there; {LOAD_VFIO}"));
        }
        let mark = self.mark();
        let marked = mark.parent().map_or(Ok(()), fs::create_dir_all);
        marked
            .and_then(|()| fs::write(&mark, Self::boot()))
            .map_err(|e| format!("{} cannot be written: {e}", mark.display()))?;
        write(&self.folder.join("driver_override"), VFIO)?;
        if self.driver().is_some() {
            write(&self.folder.join("driver/unbind"), &self.address)?;
        }
        write(&self.places.sys.join("bus/pci/drivers_probe"), &self.address)?;
        match self.driver().as_deref() {
            Some(VFIO) => Ok(()),
            now => Err(format!(
                "vfio-pci did not take it; it has the driver {}",
                now.unwrap_or("none")
            )),
        }
    }

    /// Resets the device.
    pub fn reset(&self) -> Result<(), String> {
        let file = self.folder.join("reset");
        match write(&file, "1") {
            Err(_) if !file.exists() => {
                Err("the kernel knows no way to reset it, so it cannot go from one VM to another"
                    .into())
            }
            done => done,
        }
    }
}

/// Removes the marks of those of these VFs that vfio-pci does not have any more, and of
/// devices that are gone: whoever binds them next is another program. The marks of other
/// cards' VFs stay, as another thread may be about to bind them.
pub fn forget_old_marks<'a>(places: &Places, own: impl Iterator<Item = &'a Function>) {
    let let_go = own.filter(|f| f.driver().as_deref() != Some(VFIO)).map(Function::mark);
    let gone = |mark: &fs::DirEntry| {
        let device = places.sys.join("bus/pci/devices").join(mark.file_name());
        fs::symlink_metadata(device).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    };
    let marks = fs::read_dir(places.own.join("bound")).into_iter().flatten().flatten();
    let gone = marks.filter(gone).map(|mark| mark.path());
    for mark in let_go.chain(gone) {
        if let Err(e) = fs::remove_file(&mark)
            && e.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{} cannot be removed: {e}; remove it", mark.display());
        }
    }
}

/// Of what `ip -j addr show` says: an address that a person or program gave.
fn has_address(json: &str) -> bool {
    let all: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let addresses = all[0]["addr_info"].as_array().cloned().unwrap_or_default();
    addresses.iter().any(|a| a["scope"] != "link")
}

/// Writes a file of sysfs; it is never made.
fn write(file: &Path, text: &str) -> Result<(), String> {
    let written = fs::File::options()
        .write(true)
        .open(file)
        .and_then(|mut f| io::Write::write_all(&mut f, text.as_bytes()));
    written.map_err(|e| format!("{} cannot be written: {e}", file.display()))
}
