//! Further windows of VMs, for people and tools.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A further window that was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRow {
    pub name: String,
    /// What it is for: `data`, for buffers of one VM, or `link`, shared by two.
    pub role: String,
    pub bytes: u64,
    /// Bytes of a page of its file.
    pub page: u64,
    /// The file that the VM maps; empty where the manager made the window for direct links: then
    /// it has no name.
    pub file: PathBuf,
    /// The VM that it is for, or the two.
    pub peers: Vec<WindowPeer>,
    /// Buffers that lie in it.
    pub buffers: usize,
    /// Why it is not there.
    pub trouble: Option<String>,
}

/// A VM that a further window is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowPeer {
    /// The VM, as people write it.
    pub vm: String,
    /// The window's number in it; none while the window is not there.
    pub index: Option<u16>,
    /// Its control window names it.
    pub named: bool,
    /// It has it, as its kernel module said.
    pub here: bool,
}

impl WindowRow {
    /// The VMs that it is for, for people: `a`, or `a and b`.
    pub fn vms(&self) -> String {
        let vms: Vec<&str> = self.peers.iter().map(|p| p.vm.as_str()).collect();
        vms.join(" and ")
    }

    /// Whether the manager made it, for direct links, and takes it away by itself.
    pub fn is_made(&self) -> bool {
        is_made(&self.name)
    }

    /// How many VMs have it.
    pub fn here(&self) -> usize {
        self.peers.iter().filter(|p| p.here).count()
    }

    /// What its device and memory are called in QEMU and libvirt.
    pub fn device_id(&self) -> String {
        device_id(&self.name)
    }
}

/// What names of windows begin with that the manager makes for direct links. No window that
/// somebody declares can be called so.
const MADE: &str = "link:";

/// The name of a window that the manager makes for direct links.
pub fn made_name(number: u64) -> String {
    format!("{MADE}{number}")
}

/// Whether the manager made the window of this name for direct links.
pub fn is_made(name: &str) -> bool {
    name.starts_with(MADE)
}

/// What the device and memory of a further window are called in QEMU and libvirt. Those of
/// control windows begin with `virtfun-`.
pub fn device_id(name: &str) -> String {
    match name.strip_prefix(MADE) {
        Some(number) => format!("virtfun.link-{number}"),
        None => format!("virtfun_{name}"),
    }
}
