//! What happens, and what is to be done about it.

use crate::declared::{Pool, Vm};
use crate::notes::Notes;
use serde::{Deserialize, Serialize};
use std::fmt;
use vfun_admin::VmName;
use vfun_bond::{Order, Report};

/// A VF, by the name that its pool's provider gives it: a PCI address (`0000:01:10.0`),
/// or `POOL-N` where the VFs are emulated. Unique on the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VfId(pub String);

impl fmt::Display for VfId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A pool of VFs, by its name. A VM gets VFs of one pool.
pub type PoolName = String;

/// The number of something to do. Its result comes back with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(pub u64);

/// A connection of a VM's agent. Another agent, or the same one started anew, has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentId(pub u64);

/// A VF that a provider found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfFound {
    pub vf: VfId,
    /// Why it may not be given to a VM, in a sentence: another program or a driver uses it,
    /// it shares its IOMMU group, it is the uplink's.
    pub unusable: Option<String>,
    /// Whether the provider knows that nothing is left of its last owner. One that is not
    /// clean is reset before anybody gets it.
    pub clean: bool,
}

/// What the hypervisor says of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmFound {
    /// It runs (or is paused); these VFs are plugged in, or a plug or unplug of them is
    /// under way.
    Runs { plugged: Vec<VfId> },
    /// It does not run: it has no VF any more.
    Ended,
    /// That is not known: nobody answers. It keeps what it has.
    Unknown { why: String },
}

/// Something happened. The caller gives the time with it: ms of a clock that only goes
/// forward, the same one after a restart of the process.
///
/// What is said of one VM ([`Event::VmFound`], [`Event::Deleted`], and [`Event::Done`] of
/// its plugs and unplugs) comes in the order in which it came about: one worker a VM.
/// The core takes a VF for gone only by what was said after its last plug was answered.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time went on; at [`due_ms`](crate::Nics::due_ms) at the latest.
    Tick,
    /// A pool is declared, or declared again with other settings.
    PoolDeclared(PoolName, Pool),
    /// A pool is taken away: its VFs are taken from VMs first.
    PoolRemoved(PoolName),
    /// All VFs that a pool has now. One that is missing is gone.
    Vfs(PoolName, Vec<VfFound>),
    /// A VM is declared, or declared again with other settings.
    VmDeclared(VmName, Vm),
    /// A VM is taken away: its VF is taken from it first.
    VmRemoved(VmName),
    /// What the hypervisor says of a VM, asked by [`Op::Inspect`] or by itself. It is the
    /// answer to an inspection that is under way.
    VmFound(VmName, VmFound),
    /// QEMU said that a VF's device is gone from a VM (`DEVICE_DELETED`).
    Deleted(VmName, VfId),
    /// How the manager sees a VM's agent now: its whole state.
    Agent(VmName, Option<(AgentId, Option<Report>)>),
    /// Packets in both directions that the **host** counted for a VM since some moment that
    /// does not change: at the tap of its paravirtual NIC, and at its VF while it has one
    /// (`None`: this card does not count). A count that went back begins anew.
    Counted(VmName, HostCounts),
    /// What a VM's port enforces that a VF could not (filters, mirrors, rules of the
    /// switch), a sentence each; empty: nothing. A VM gets no VF before this was said once
    /// (unless it is declared with `bypass_filters`).
    Filters(VmName, Vec<String>),
    /// Something that was to be done is done, or was not possible.
    Done(OpId, Result<(), String>),
    /// An operator, or a program, asks that a VM gives back its VF and gets none until
    /// [`Event::MigrationEnded`]: it is going to be migrated.
    MigrationBegins(VmName),
    MigrationEnded(VmName),
}

/// See [`Event::Counted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    pub paravirtual: u64,
    pub vf: Option<u64>,
}

/// Something to do outside, in order. What is asked by [`Action::Do`] is answered by
/// [`Event::Done`] (and [`Event::VmFound`] for [`Op::Inspect`]), in any order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write these notes and wait until they are on disk, before anything after it is done.
    Note(Notes),
    Do(OpId, Op),
    /// Send an order to a VM's agent. It replaces the order before.
    Order(VmName, AgentId, Order),
    /// A line for the audit log and for people.
    Audit(Cause, String),
}

/// Who can cause a line of the audit log. The lines of each need a bound of their own, so
/// that one's many lines do not hide the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A VM: its agent came or went, or a VF came or went by what it did.
    Vm,
    /// The host: an operator's act, a card's change, a quarantine.
    Host,
}

/// One thing to do for a VF or a VM. An op of a VF is begun only when the one before it for
/// the same VF was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Make a VF ready for this owner on the host: its MAC address, VLAN and rate; spoof
    /// check on, trust off; its vfio driver.
    Prepare { vf: VfId, vm: VmName },
    /// Wait until the host's switch sends the packets for this VM, which has left the VF, to
    /// another port. An error: nobody knows whether it does.
    Relearn { vf: VfId, vm: VmName },
    /// Plug it in (`device_add`). Doing it again where it is plugged in already is no error.
    Plug { vf: VfId, vm: VmName },
    /// Ask the VM to let go of it (`device_del`). The answer says that the request was sent;
    /// [`Event::Deleted`] or [`Event::VmFound`] that the VF is gone.
    Unplug { vf: VfId, vm: VmName },
    /// Take everything away that its last owner left: reset it, and its MAC address, VLAN
    /// and rate.
    Reset { vf: VfId },
    /// Ask the hypervisor what is plugged in. Answered by [`Event::VmFound`], or by
    /// [`Event::Done`] with an error.
    Inspect { vm: VmName },
}
