//! Finds ivshmem devices where Linux lists PCI devices.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use vfun_wire::PAGE;
use vfun_wire::ivshmem::{PCI_DEVICE, PCI_VENDOR};

/// Where Linux lists PCI devices.
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// An ivshmem device on this machine's PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Address on the PCI bus, such as `0000:00:05.0`.
    pub address: String,
    /// Its folder in sysfs.
    folder: PathBuf,
}

impl Device {
    /// The file by which the registers (BAR 0) can be mapped, and where in their
    /// page they begin: a BAR of 256 bytes may share its page with others.
    pub fn registers(&self) -> (PathBuf, usize) {
        let resources = std::fs::read_to_string(self.folder.join("resource")).unwrap_or_default();
        let start = resources.split_whitespace().next().and_then(|t| t.strip_prefix("0x"));
        let start = start.and_then(|t| usize::from_str_radix(t, 16).ok()).unwrap_or(0);
        (self.folder.join("resource0"), start % PAGE)
    }

    /// The driver that holds it, if any.
    pub fn driver(&self) -> Option<String> {
        let link = std::fs::read_link(self.folder.join("driver")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether it is no longer there.
    pub fn gone(&self) -> bool {
        !self.folder.exists()
    }

    /// The files by which BAR 2 can be mapped, best first. Write-combining
    /// (`resource2_wc`) maps ordinary cacheable memory in a VM; where a kernel
    /// does not offer it, `resource2` does the same.
    pub fn files(&self) -> [PathBuf; 2] {
        [self.folder.join("resource2_wc"), self.folder.join("resource2")]
    }
}

/// All ivshmem devices below `root`, in order of their addresses, or only the
/// one at `asked` (whole address, or without its domain).
pub(super) fn devices(root: &Path, asked: Option<&str>) -> Result<Vec<Device>> {
    let none = || Error::NoDevice(asked.map(str::to_string));
    let entries = std::fs::read_dir(root).map_err(|_| none())?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let address = entry.file_name().to_string_lossy().into_owned();
        let wanted = asked.is_none_or(|a| address == a || address == format!("0000:{a}"));
        let is = |file: &str, id: u16| {
            let id = format!("{id:#06x}");
            std::fs::read_to_string(entry.path().join(file)).is_ok_and(|text| text.trim() == id)
        };
        if wanted && is("vendor", PCI_VENDOR) && is("device", PCI_DEVICE) {
            found.push(Device { address, folder: entry.path() });
        }
    }
    if found.is_empty() {
        return Err(none());
    }
    found.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(found)
}
