//! Hands: plug VFs into a VM and out of it, by its hypervisor.

mod libvirt;
mod qmp;
mod worker;

pub use libvirt::Libvirt;
pub use qmp::Qmp;
pub use worker::{HandsJob, HandsWorker, WorkerId};

use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;
use vfun_nics::{VfId, VmFound};

/// What is plugged in for a VF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub vf: VfId,
    #[serde(flatten)]
    pub kind: Kind,
    /// Its MAC address, as `02:00:00:00:00:01`.
    pub mac: String,
    pub vlan: Option<u16>,
    /// The bus in the VM; none: the hypervisor chooses.
    pub bus: Option<String>,
}

/// What kind of device a VF is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "device", rename_all = "kebab-case")]
pub enum Kind {
    /// A PCI device of the host, bound to vfio-pci; the VF's name is its address.
    Pci,
    /// A NIC that QEMU emulates, on this tap of the host.
    Emulated { tap: String, model: String },
    /// A paravirtual NIC whose packets a switch takes from the VM's memory. QEMU listens on
    /// this socket, and the switch connects.
    VhostUser { socket: PathBuf },
}

/// What a VM said by itself.
#[derive(Debug, PartialEq, Eq)]
pub enum SaidByVm {
    Deleted(VfId),
    Found(VmFound),
}

/// Hands of one VM. A thread of its own uses them; each call ends in bounded time.
pub trait Hands: Send {
    /// What is plugged in.
    fn inspect(&mut self) -> VmFound;
    /// Plugs in. A VF that is plugged in already is no error. After an error the VF may be
    /// plugged in all the same: [`Hands::inspect`] says whether it is.
    fn plug(&mut self, device: &Device) -> Result<(), String>;
    /// Asks the VM to let go of a VF.
    fn unplug(&mut self, vf: &VfId) -> Result<(), String>;
    /// Becomes readable when the VM says something.
    fn line(&self) -> Option<BorrowedFd<'_>>;
    /// What the VM has said meanwhile. Does not wait.
    fn hear(&mut self) -> Vec<SaidByVm>;
    /// How soon to inspect the VM, if nobody asks.
    fn look_again(&self) -> Duration;
}

/// Why a VF that is a port of Open vSwitch has no other hands.
pub const ONLY_QMP: &str = "VFs of Open vSwitch (vhost-user) are plugged in by QEMU's control socket only: declare the VM with --qmp, or in a pool of a card";

/// What begins the names of all devices of ours in a VM.
const PREFIX: &str = "vfun-vf-";

/// What the device of a VF is called in QEMU, and with `ua-` before it in libvirt. These
/// take letters, digits, `-` and `_`.
pub fn device_id(vf: &VfId) -> String {
    let mut id = String::from(PREFIX);
    for c in vf.0.chars() {
        match c {
            '_' => id.push_str("__"),
            ':' => id.push_str("_c"),
            '.' => id.push_str("_d"),
            c => id.push(c),
        }
    }
    id
}

/// The VF that a device is; none if it is no device of ours.
pub fn vf_of_device(id: &str) -> Option<VfId> {
    let mut letters = id.strip_prefix(PREFIX)?.chars();
    let mut name = String::new();
    while let Some(c) = letters.next() {
        name.push(match c {
            '_' => match letters.next()? {
                '_' => '_',
                'c' => ':',
                'd' => '.',
                _ => return None,
            },
            c => c,
        });
    }
    (!name.is_empty()).then_some(VfId(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_names_its_vf() {
        for name in ["0000:01:10.0", "pool-1", "a_b.c-7", "0000_c01", "x__d-1"] {
            let vf = VfId(name.into());
            let id = device_id(&vf);
            assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{id}");
            assert_eq!(vf_of_device(&id), Some(vf), "{id}");
        }
        for other in ["net0", "vfun-vf-", "vfun-vf-a_x", "vfun-vf-a_", "virtfun-web"] {
            assert_eq!(vf_of_device(other), None, "{other}");
        }
    }
}
