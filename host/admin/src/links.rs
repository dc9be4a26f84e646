//! Direct links between ports of VMs, for people.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One direction: from a port that a switch with DPDK has, to the port that gets its frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    pub from: LinkPort,
    /// None: nobody knows of a port that gets all frames.
    pub to: Option<LinkPort>,
    /// `switch`, `going`, `direct`, `back` or `over`.
    pub state: String,
    /// Why it is so, and what to do if there is something to do.
    pub why: String,
    /// How long it has been so, ms; none without a link.
    pub since_ms: Option<u64>,
    /// The link's number, if there is one.
    pub link: Option<u64>,
    /// The window of the two VMs that it lies in.
    pub window: Option<String>,
    /// How often frames were let past the switch.
    pub epoch: u64,
    /// The operator turned it off.
    pub off: bool,
    /// How often a VM did not answer, and a link ended by force.
    pub forced: u64,
    /// Frames that went past the switch, and their bytes, as the VM that received them says:
    /// over this link and those before it.
    pub frames: u64,
    pub bytes: u64,
    /// Why its frames are not counted for rules of the switch, if they are not.
    #[serde(default)]
    pub not_attributable: Option<String>,
}

/// What is asked of rules past which frames go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FlowsAsk {
    /// How many frames went past each rule.
    Sums {
        /// Of this bridge only.
        bridge: Option<String>,
    },
    /// Have the links of a bridge come back to the switch, and make none for so long.
    Hold { bridge: String, ms: u64 },
    /// The proxy of OpenFlow is in the path of a bridge, for the next few seconds.
    Proxy(ProxyRow),
}

/// What went past rules of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowsView {
    /// By bridge, table and priority.
    pub flows: Vec<FlowRow>,
    /// Proxies that correct what controllers see.
    pub proxies: Vec<ProxyRow>,
}

/// A rule that frames of a direct link would pass in the switch, and what went past it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    pub bridge: String,
    pub table: u8,
    pub priority: u16,
    pub cookie: u64,
    /// All that it matches; nothing: all frames.
    pub in_port: Option<u32>,
    /// When it was made, ms of the host's clock that runs since it was started: not before the one,
    /// not after the other.
    pub made: (u64, u64),
    /// What VMs sent past it, since it was made.
    pub frames: u64,
    pub bytes: u64,
    /// Ports that send past it now, by their names on the host.
    pub ports: Vec<String>,
}

impl FlowRow {
    /// What it matches, as `ovs-ofctl` writes it.
    pub fn matches(&self) -> String {
        self.in_port.map_or_else(|| "any".into(), |port| format!("in_port={port}"))
    }
}

/// A proxy of OpenFlow between a bridge and its controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRow {
    pub bridge: String,
    /// Connections of the switch that pass it.
    pub connections: u32,
    /// Messages to controllers whose counts it corrected.
    pub corrected: u64,
    /// Messages whose counts it could not correct.
    pub uncorrected: u64,
    /// It holds changes of rules until links have come back; how many it held, and how many
    /// of these it let go before that.
    pub strict: bool,
    pub held: u64,
    pub let_go: u64,
}

/// How the manager is set up to make direct links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// How long a VM may be silent when frames are to turn, ms: then its link ends by force.
    pub silence_ms: u64,
    /// How long two VMs keep a window that was made for their links, without one, ms.
    pub idle_ms: u64,
}

/// How the QEMU of a VM is reached, to plug windows in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VmmAt {
    /// By its control socket (QMP).
    Qmp(PathBuf),
    /// By libvirt, which has this domain.
    Libvirt(String),
}

/// What a client's manifest says of direct links. Where it says nothing, they are among its own
/// ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinksOfClient {
    /// Its ports have none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub off: bool,
    /// Clients with whose ports they may be, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
}

/// A port of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPort {
    pub client: String,
    pub vm: String,
    /// What its interface in the VM is called.
    pub port: String,
    /// Its name on the host.
    pub tap: String,
}
