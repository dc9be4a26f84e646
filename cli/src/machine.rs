//! Which side of a window this machine is.

use std::path::{Path, PathBuf};

/// Where the kernel shows PCI devices.
pub const PCI: &str = "/sys/bus/pci/devices";

/// Folders of the ivshmem devices of this machine.
pub fn ivshmem_devices() -> Vec<PathBuf> {
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

/// Persistent memory that programs map: `/dev/daxN.M`.
pub fn pmem_devices() -> Vec<PathBuf> {
    let named = |e: &std::fs::DirEntry| {
        let name = e.file_name();
        let numbers = name.to_str().and_then(|n| n.strip_prefix("dax")?.split_once('.'));
        numbers.is_some_and(|(n, m)| n.parse::<u32>().is_ok() && m.parse::<u32>().is_ok())
    };
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.filter(named).map(|e| e.path()).collect();
    found.sort();
    found
}

/// Whether it is a guest and no host: it has a window's device, and the tree of no manager.
pub fn is_guest(root: &Path) -> bool {
    let window = || !ivshmem_devices().is_empty() || !pmem_devices().is_empty();
    !root.exists() && window()
}
