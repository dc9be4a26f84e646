//! What the system costs beside its calls: starting a function, memory, idling.

use super::{Domain, Machine, Settings, stats};
use serde::{Deserialize, Serialize};

/// What a footprint row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Footprint {
    /// Negotiate and activate, with the service's start.
    ActivationWithStart,
    /// Negotiate and activate while the service runs for another grant.
    Activation,
    /// Resident memory of a process.
    Resident,
    /// Processor time of a process while nothing is called.
    Idle,
}

impl Footprint {
    /// The name as people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ActivationWithStart => "activation with the service's start",
            Self::Activation => "activation, service running",
            Self::Resident => "resident memory",
            Self::Idle => "processor time while idle",
        }
    }
}

/// Starting, memory and idling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FootprintReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<FootprintRow>,
}

impl FootprintReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new() }
    }
}

/// One figure. What does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FootprintRow {
    /// Where the caller ran.
    pub domain: Domain,
    /// The transport in use.
    pub transport: String,
    /// What this row measured.
    pub kind: Footprint,
    /// Of which process: "manager", "service" or, for activations, "app".
    pub process: String,
    /// Whether the transport has a doorbell.
    pub doorbell: bool,
    /// Half of the activations took no longer.
    pub p50_ns: Option<f64>,
    /// The slowest activation, ns.
    pub max_ns: Option<f64>,
    /// Memory of that process.
    pub bytes: Option<u64>,
    /// Share of one processor, 0 to 1.
    pub cpu_share: Option<f64>,
    /// How many activations, or repeats, were measured.
    pub repeats: u32,
}

impl FootprintRow {
    /// A row with nothing measured yet.
    pub fn new(
        domain: Domain,
        transport: &str,
        doorbell: bool,
        kind: Footprint,
        process: &str,
    ) -> Self {
        Self {
            domain,
            transport: transport.to_owned(),
            kind,
            process: process.to_owned(),
            doorbell,
            p50_ns: None,
            max_ns: None,
            bytes: None,
            cpu_share: None,
            repeats: 1,
        }
    }

    /// With the times of activations, in nanoseconds; `None` without any.
    pub fn with_times(mut self, ns: &[f64]) -> Option<Self> {
        self.p50_ns = Some(stats::median(ns)?);
        self.max_ns = stats::range(ns).map(|(_, most)| most);
        self.repeats = ns.len() as u32;
        Some(self)
    }

    /// With resident memory in bytes.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// With the share of a processor.
    #[must_use]
    pub fn with_cpu_share(mut self, share: f64) -> Self {
        self.cpu_share = Some(share);
        self
    }
}
