//! The ways to wait: what a call takes in each, what many callers get, what idling costs.

use super::{Domain, Machine, Mode, Settings, stats};
use crate::method::Compared;
use serde::{Deserialize, Serialize};

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// Two doorbells rung in turns by two threads that sleep: the floor of sleep mode.
    BareDoorbell,
    /// A call of a function that does nothing, one caller and one service.
    NullCall,
    /// How many of them a caller with a service and two processors to itself makes.
    Alone,
    /// The same of several callers and as many services on the same two processors, together.
    Crowd,
    /// Processor time of all processes before any channel is open.
    IdleBefore,
    /// Processor time of all processes with many active channels that nobody calls.
    Idle,
}

impl Waiting {
    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::BareDoorbell => "bare doorbell",
            Self::NullCall => "null call",
            Self::Alone => "a pair alone",
            Self::Crowd => "too many",
            Self::IdleBefore => "idle, no channel",
            Self::Idle => "idle channels",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<WaitingRow>,
}

impl WaitingReport {
    /// A report that waits for its rows.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new() }
    }

    /// The row of this domain, kind and mode, if it was measured.
    pub fn find(&self, domain: Domain, kind: Waiting, mode: Option<Mode>) -> Option<&WaitingRow> {
        self.rows.iter().find(|r| (r.domain, r.kind, r.mode) == (domain, kind, mode))
    }
}

/// One figure and what belongs to it; medians over the repeats. What does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingRow {
    /// Where the callers ran.
    pub domain: Domain,
    /// The transport in use.
    pub transport: String,
    /// What this row measured.
    pub kind: Waiting,
    /// How callers and services waited.
    pub mode: Option<Mode>,
    /// Callers, each with its service; or channels.
    pub count: u32,
    /// Half of the calls took no longer.
    pub p50_ns: Option<f64>,
    /// All but one in a hundred took no longer; of several callers the worst one's.
    pub p99_ns: Option<f64>,
    /// All callers' calls a second together.
    pub calls_per_s: Option<f64>,
    /// Calls of the caller that made fewest, over those of the one that made most.
    pub least_over_most: Option<f64>,
    /// Share of one processor, all processes together, 0 to 1.
    pub cpu_share: Option<f64>,
    /// The main figure over that of `against` beside it, at the median: of undisturbed pairs of slices for a null
    /// call, of turns for many callers. Null if it cannot be told, or is of nothing.
    pub ratio: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_high: Option<f64>,
    /// Pairs of slices that were run; dropped ones count.
    pub pairs: Option<u32>,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: Option<u32>,
    /// What `ratio` compares with.
    pub against: Option<String>,
    /// How often it was measured.
    pub repeats: u32,
    /// The lowest repeat's main figure: p50, calls a second, or the share.
    pub spread_min: Option<f64>,
    /// The same of the highest repeat.
    pub spread_max: Option<f64>,
}

impl WaitingRow {
    /// A row with nothing measured yet.
    pub fn new(domain: Domain, transport: &str, kind: Waiting, mode: Option<Mode>) -> Self {
        Self {
            domain,
            transport: transport.to_owned(),
            kind,
            mode,
            count: 1,
            p50_ns: None,
            p99_ns: None,
            calls_per_s: None,
            least_over_most: None,
            cpu_share: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            pairs: None,
            dropped: None,
            against: None,
            repeats: 0,
            spread_min: None,
            spread_max: None,
        }
    }

    fn spread(&mut self, repeats: &[f64]) -> Option<f64> {
        self.repeats = repeats.len() as u32;
        (self.spread_min, self.spread_max) = stats::range(repeats).unzip();
        stats::median(repeats)
    }

    /// With the times of each repeat: its p50 and p99.
    #[must_use]
    pub fn with_times(mut self, p50: &[f64], p99: &[f64]) -> Self {
        self.p50_ns = self.spread(p50);
        self.p99_ns = stats::median(p99);
        self
    }

    /// With the calls a second of each repeat, which are then the main figure.
    #[must_use]
    pub fn with_rates(mut self, count: u32, per_s: &[f64], least_over_most: &[f64]) -> Self {
        self.count = count;
        self.calls_per_s = self.spread(per_s);
        self.least_over_most = stats::median(least_over_most);
        self
    }

    /// With the share of each repeat.
    #[must_use]
    pub fn with_shares(mut self, count: u32, shares: &[f64]) -> Self {
        self.count = count;
        self.cpu_share = self.spread(shares);
        self
    }

    /// With its ratio to another row's figure.
    #[must_use]
    pub fn over(mut self, what: &str, compared: Compared) -> Self {
        self.ratio = compared.ratio;
        (self.ratio_low, self.ratio_high) = (compared.low, compared.high);
        (self.pairs, self.dropped) = (Some(compared.pairs), Some(compared.dropped));
        self.against = Some(what.to_owned());
        self
    }

    /// That ratio, if there is one.
    pub fn compared(&self) -> Option<Compared> {
        let (ratio, low, high) = (self.ratio, self.ratio_low, self.ratio_high);
        Some(Compared { ratio, low, high, pairs: self.pairs?, dropped: self.dropped? })
    }
}
