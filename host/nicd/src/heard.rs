//! What the threads tell the main loop.

use crate::ask::{Answer, Ask};
use crate::hands::{SaidByVm, WorkerId};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use vfun_admin::VmName;
use vfun_nics::event::PoolName;
use vfun_nics::relay::Packet;
use vfun_nics::{Event, VfFound, VfId};

/// Something that a thread heard.
#[derive(Debug)]
pub enum Heard {
    /// For the state machine as it is.
    Event(Event),
    /// What a VM said, by this thread.
    Vm(WorkerId, VmName, SaidByVm),
    /// All VFs that a pool has.
    Vfs(PoolName, Vec<VfFound>),
    /// Packets at VFs that count them.
    VfPackets(BTreeMap<VfId, u64>),
    /// Packets at the taps of VMs.
    TapPackets(BTreeMap<VmName, u64>),
    /// A word of the manager.
    FromManager(Packet),
    /// The manager is gone.
    ManagerGone,
    /// A question, and where its answer goes.
    Asked(Ask, SyncSender<Answer>),
}

/// Where the threads tell. A thread waits while too much has not been taken.
#[derive(Clone)]
pub struct Hearing(pub SyncSender<Heard>);

impl Hearing {
    /// False once nobody listens any more.
    pub fn tell(&self, heard: Heard) -> bool {
        self.0.send(heard).is_ok()
    }
}
