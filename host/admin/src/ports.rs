//! Ports of VMs, for people: what a manifest says of one, and how it is.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a manifest says of a port. What it leaves out follows from the port's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortLines {
    /// Its place in the VM's table of ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// The address of its interface in the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Bytes of the longest packet behind an Ethernet header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Bytes of each ring, as a manifest says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<String>,
    /// `tap`, or `dpdk`: a switch with DPDK has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// The host's end: a tap device, or a port of a switch with DPDK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tap: Option<String>,
    /// The bridge or switch in which that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Whether the host's kernel may complete checksums and cut long packets, where it is the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offloads: Option<bool>,
}

/// Ports of a client: by the VM's name, and by the port's.
pub type PortsOfClient = BTreeMap<String, BTreeMap<String, PortLines>>;

/// A port, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRow {
    pub client: String,
    pub vm: String,
    /// What its interface in the VM is called.
    pub port: String,
    /// Its place in the VM's table of ports.
    pub number: u16,
    pub mac: String,
    pub mtu: u16,
    /// Bytes of each ring.
    pub ring_bytes: u64,
    /// `tap`, or `dpdk`: a switch with DPDK has it.
    pub way: String,
    /// The host's end: a tap device, or a port of a switch with DPDK.
    pub tap: String,
    /// With `dpdk`: what the switch's driver is told, and whether one is connected.
    pub devargs: Option<String>,
    pub connected: Option<bool>,
    /// The bridge or switch that it is to be in; none: the manager puts it into none.
    pub switch: Option<String>,
    /// Whether the host's kernel may complete checksums and cut long packets: it is allowed, and the kernel is the
    /// switch, as far as is known now.
    #[serde(default)]
    pub offloads: bool,
    /// What is wrong on the host, and what to do.
    pub trouble: Option<String>,
    /// The VM's window is there.
    pub window: bool,
    /// The grant by which the VM has it, if it has it.
    pub grant: Option<String>,
    /// What that grant is: `active`, `broken` and the like.
    pub state: Option<String>,
    /// What its service counted since the channel was opened.
    pub counts: Option<PortCounts>,
}

/// Frames of a port, as its service counts them: at most some seconds old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounts {
    /// From the VM to the host.
    pub from_vm: u64,
    pub from_vm_bytes: u64,
    /// From the host to the VM.
    pub to_vm: u64,
    pub to_vm_bytes: u64,
    /// For the VM, and there was no room: the VM did not take earlier ones in time.
    pub full: u64,
    /// For the VM, and its interface was down, or takes none so long.
    pub away: u64,
    /// From the VM, and the host's interface did not take them.
    pub refused: u64,
    /// How often what the VM sent made no sense.
    pub bad: u64,
}
