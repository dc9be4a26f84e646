//! Finds ivshmem devices where Linux lists PCI devices.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Where Linux lists PCI devices.
pub(crate) const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// Red Hat, inter-VM shared memory.
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";

/// An ivshmem device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Its PCI address.
    pub address: String,
    /// Its folder.
    folder: PathBuf,
}

impl Device {
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
        let is = |file: &str, id: &str| {
            std::fs::read_to_string(entry.path().join(file)).is_ok_and(|text| text.trim() == id)
        };
        if wanted && is("vendor", VENDOR) && is("device", DEVICE) {
            found.push(Device { address, folder: entry.path() });
        }
    }
    if found.is_empty() {
        return Err(none());
    }
    found.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(found)
}
