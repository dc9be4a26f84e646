//! What the manager and the allocator process (`vfun-nics`) say to each other, over a
//! `SOCK_SEQPACKET` socket that is the allocator's standard input. Each packet is one
//! JSON object and says all that is known of one VM, so that a packet which was
//! overtaken by another need not be sent.

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
