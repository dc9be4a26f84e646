//! What the manager and the allocator process (`vfun-nics`) say to each other, over a
//! `SOCK_SEQPACKET` socket that is the allocator's standard input. Each packet is one
//! JSON object and says all that is known of one VM, so that a packet which was
//! overtaken by another need not be sent.

use crate::declared::Vm;
use crate::event::AgentId;
use serde::{Deserialize, Serialize};
use vfun_admin::VmName;
use vfun_bond::{Order, Report};

/// Longest packet, bytes.
pub const PACKET_BYTES: usize = 8 << 10;

/// What the manager says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToNics {
    pub vm: VmName,
    /// The VM's agent, if one is there.
    pub agent: Option<Agent>,
    /// How it competes, by its client's manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Vm>,
}

/// A packet of the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Packet {
    /// All that is known of one VM.
    Vm(Box<ToNics>),
    AllTold(AllTold),
}

/// The process that lends VFs has been told once of every VM that there is, since it began.
/// A VM of which it was not told is in no manifest any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllTold {
    /// How many.
    pub vms: usize,
}

/// An agent, as the manager sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    /// What it said last. It is the VM's own word.
    pub report: Option<Report>,
}

/// What the allocator says: the order for an agent. The manager keeps the last one of each
/// agent, and forgets it with the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToManager {
    pub vm: VmName,
    pub agent: AgentId,
    pub order: Order,
}
