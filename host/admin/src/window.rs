//! Further windows of VMs, for people and tools.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A further window that was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRow {
    pub name: String,
    /// Its VM, as people write it.
    pub vm: String,
    /// What it is for: `data`.
    pub role: String,
    pub bytes: u64,
    /// Bytes of a page of its file.
    pub page: u64,
    /// The file that the VM maps.
    pub file: PathBuf,
    /// Its number in the VM; none while it is not there.
    pub index: Option<u16>,
    /// The VM's control window names it.
    pub named: bool,
    /// The VM has it, as its kernel module said.
    pub here: bool,
    /// Buffers that lie in it.
    pub buffers: usize,
    /// Why it is not there.
    pub trouble: Option<String>,
}

impl WindowRow {
    /// What its device and memory are called in QEMU and libvirt.
    pub fn device_id(&self) -> String {
        device_id(&self.name)
    }
}

/// What the device and memory of a further window are called in QEMU and libvirt. Those of
/// control windows begin with `virtfun-`.
pub fn device_id(name: &str) -> String {
    format!("virtfun_{name}")
}
