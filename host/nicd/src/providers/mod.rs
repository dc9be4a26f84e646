//! Providers: where a pool's VFs come from, and what is done to them on the host.

mod emulated;
mod names;
mod sriov;
mod vhost_user;
mod worker;

pub use emulated::Emulated;
pub use names::port_name;
pub use sriov::{LOAD_VFIO, Sriov};
pub use vhost_user::{VhostUser, vhost_socket};
pub use worker::{ProviderJob, ProviderWorker};

use crate::places::Places;
use crate::switch::Switch;
use std::collections::BTreeMap;
use vfun_nics::declared::Source;
use vfun_nics::{PoolName, VfFound, VfId};

/// What a VF is made ready for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfOwner {
    pub mac: String,
    pub bridge: String,
    pub vlan: Option<u16>,
    pub rate_mbit: Option<u32>,
    /// The user that QEMU runs as, where that is known.
    pub user: Option<u32>,
}

/// One pool's VFs. A thread of its own uses it; each call ends in bounded time.
pub trait Provider: Send {
    /// All VFs there are.
    fn list(&mut self) -> Result<Vec<VfFound>, String>;
    /// Makes a VF ready for an owner: all its settings are written, whatever they were.
    fn prepare(&mut self, vf: &VfId, owner: &VfOwner) -> Result<(), String>;
    /// Waits until the host's switch sends the packets for this owner, which has left the VF,
    /// to another port. Most switches learn from the owner's first packet.
    fn relearn(&mut self, _vf: &VfId, _owner: &VfOwner) -> Result<(), String> {
        Ok(())
    }
    /// Takes away what the last owner left.
    fn reset(&mut self, vf: &VfId) -> Result<(), String>;
    /// Packets in both directions at each VF that counts them.
    fn packets(&mut self) -> BTreeMap<VfId, u64>;
}

/// The provider of a pool.
pub fn provider(name: &PoolName, source: &Source, places: &Places) -> Box<dyn Provider> {
    match source {
        Source::Sriov { pf } => Box::new(Sriov::new(pf.clone(), places.clone())),
        Source::Emulated { vfs, .. } => {
            Box::new(Emulated::new(name.clone(), *vfs, places.sys.clone()))
        }
        Source::VhostUser { vfs, switch } => {
            Box::new(VhostUser::new(name.clone(), *vfs, Switch::new(switch.clone()), places))
        }
    }
}
