//! What an operator declares.

mod fields;

pub use fields::{TAP_PREFIX, WrongField, is_interface};

use crate::event::PoolName;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vfun_leases::Policy;

/// Where a pool's VFs come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// The virtual functions of a card, by its interface on the host (`eth2`).
    Sriov { pf: String },
    /// NICs that QEMU emulates, on a bridge of the host. No faster than the paravirtual
    /// NIC: for tests, and to try things out.
    Emulated {
        /// How many.
        vfs: u16,
        /// QEMU's device model (`virtio-net-pci`, `igb`, `e1000e`).
        model: String,
    },
    /// Ports of an Open vSwitch with DPDK, which takes their packets from the memory of the VMs
    /// (vhost-user): a fast path without a card.
    VhostUser {
        /// How many.
        vfs: u16,
        /// The folder in which Open vSwitch has its sockets.
        switch: PathBuf,
    },
}

/// Where Open vSwitch has its sockets, unless somebody moved them.
pub const SWITCH: &str = "/run/openvswitch";

/// A pool of VFs and how they are given out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub source: Source,
    /// Who gets a VF: fair, activity, gain, first, random or none.
    pub policy: Policy,
    /// Time between two decisions, ms.
    pub interval_ms: u64,
    /// Least time that a VM keeps a VF, ms.
    pub tenure_ms: u64,
    /// A challenger must be better by this fraction, at two decisions in a row.
    pub hysteresis: f64,
}

impl Pool {
    /// A pool with the usual settings. A hand-over leaves a VF idle for 1.2 s: with a
    /// tenure of 30 s that is 4 % of its time (docs/nics.md).
    pub fn new(source: Source) -> Self {
        Pool {
            source,
            policy: Policy::Activity,
            interval_ms: 10_000,
            tenure_ms: 30_000,
            hysteresis: 0.25,
        }
    }
}

/// How to reach a VM's hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Hypervisor {
    /// QEMU's control socket (QMP), one that nobody else uses.
    Qmp { socket: PathBuf },
    /// A domain of libvirt, by its UUID or name.
    Libvirt { domain: String },
    /// A program of others (a compute agent) plugs and unplugs. It asks for its orders with
    /// `vfun nics orders`.
    External,
}

/// What holds for a VM beyond its pool's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// It competes.
    #[default]
    None,
    /// It holds a VF as long as it can.
    Pinned,
    /// It gets no VF.
    Banned,
}

/// A VM that competes for VFs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    pub pool: PoolName,
    pub hypervisor: Hypervisor,
    /// The MAC address of its paravirtual NIC, and so of its VF, as `02:00:00:00:00:01`.
    pub mac: String,
    /// The bridge of its paravirtual NIC.
    pub bridge: String,
    /// The tap of its paravirtual NIC on the host, where packets are counted.
    pub tap: String,
    /// The bus in the VM that VFs are plugged into (a `pcie-root-port`); none: QEMU chooses.
    #[serde(default)]
    pub bus: Option<String>,
    #[serde(default)]
    pub vlan: Option<u16>,
    /// Most that it may send, Mbit/s; none for no bound.
    #[serde(default)]
    pub rate_mbit: Option<u32>,
    #[serde(default)]
    pub rule: Rule,
    /// Percent of the time that it holds a VF at least, however little it sends.
    #[serde(default)]
    pub reserve_percent: u8,
    /// Most percent of the time that it holds a VF; 100 for no bound.
    #[serde(default = "whole")]
    pub cap_percent: u8,
    /// It gets a VF although its port has filters that a VF passes by.
    #[serde(default)]
    pub bypass_filters: bool,
}

impl Vm {
    /// A VM with the usual settings.
    pub fn new(
        pool: impl Into<PoolName>,
        hypervisor: Hypervisor,
        mac: impl Into<String>,
        bridge: impl Into<String>,
        tap: impl Into<String>,
    ) -> Self {
        Vm {
            pool: pool.into(),
            hypervisor,
            mac: mac.into(),
            bridge: bridge.into(),
            tap: tap.into(),
            bus: None,
            vlan: None,
            rate_mbit: None,
            rule: Rule::None,
            reserve_percent: 0,
            cap_percent: whole(),
            bypass_filters: false,
        }
    }
}

fn whole() -> u8 {
    100
}
