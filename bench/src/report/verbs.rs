//! Verbs by the software NIC of the host, each figure beside its floor.

use super::stats::{self, Percentiles};
use super::{Machine, Settings};
use crate::method::{Compared, Turns};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    pub rows: Vec<VerbsRow>,
}

/// What is measured, and beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerbsFigure {
    /// A write from posting to its completion, beside a line that goes to another thread and back.
    Write,
    /// 64 writes under way: the time of each, beside the same.
    InFlight,
    /// Writes of many bytes, beside memcpy of the same memory in the program.
    Bandwidth,
    /// A write whose program sleeps until its completion comes, beside two bare doorbells.
    Event,
    /// 16 queue pairs at work among 1000, beside 16 alone.
    Many,
    /// Registering memory that was never registered, beside memcpy of it.
    Register,
    /// Registering memory that is in the window already, beside a small control call.
    RegisterAgain,
}

/// One figure; medians of undisturbed slices. What does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerbsRow {
    pub figure: VerbsFigure,
    /// Bytes of a write.
    pub bytes: u64,
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub floor_p50_ns: Option<f64>,
    pub floor_p99_ns: Option<f64>,
    pub bytes_per_s: Option<f64>,
    pub floor_bytes_per_s: Option<f64>,
    /// Threads that looked without a pause while it was measured. Where there are fewer processors, times mean
    /// little.
    pub spinning: u32,
    /// The figure over its floor, at the median of undisturbed pairs of slices; null if more than half of the pairs
    /// were disturbed.
    pub ratio: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null without 6 undisturbed pairs.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval above.
    pub ratio_high: Option<f64>,
    /// Pairs of slices that ran.
    pub pairs: u32,
    /// Pairs of these that were dropped: the kernel counted a disturbance in a slice.
    pub dropped: u32,
}

/// The program and the NIC.
const SPINNING: u32 = 2;

fn median(of: &[Percentiles], by: fn(&Percentiles) -> u64) -> Option<f64> {
    stats::median(&of.iter().map(|p| by(p) as f64).collect::<Vec<_>>())
}

impl VerbsRow {
    fn new(figure: VerbsFigure, bytes: u64, ratio: Compared) -> Self {
        VerbsRow {
            figure,
            bytes,
            p50_ns: None,
            p99_ns: None,
            floor_p50_ns: None,
            floor_p99_ns: None,
            bytes_per_s: None,
            floor_bytes_per_s: None,
            spinning: match figure {
                VerbsFigure::Event | VerbsFigure::Register | VerbsFigure::RegisterAgain => 0,
                _ => SPINNING,
            },
            ratio: ratio.ratio,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            pairs: ratio.pairs,
            dropped: ratio.dropped,
        }
    }

    /// Ratio and interval together.
    pub fn compared(&self) -> Compared {
        Compared {
            ratio: self.ratio,
            low: self.ratio_low,
            high: self.ratio_high,
            pairs: self.pairs,
            dropped: self.dropped,
        }
    }

    /// From round trips in turns: the figure's, a pause, its floor's.
    pub fn trips(figure: VerbsFigure, bytes: u64, turns: &Turns<Percentiles>) -> Self {
        let (own, floor) = (turns.kept(0), turns.kept(2));
        VerbsRow {
            p50_ns: median(&own, |p| p.p50),
            p99_ns: median(&own, |p| p.p99),
            floor_p50_ns: median(&floor, |p| p.p50),
            floor_p99_ns: median(&floor, |p| p.p99),
            ..Self::new(figure, bytes, turns.over(0, 2, |p| p.p50 as f64))
        }
    }

    /// From times of one write, ns.
    pub fn times(figure: VerbsFigure, bytes: u64, turns: &Turns<f64>) -> Self {
        VerbsRow {
            p50_ns: stats::median(&turns.kept(0)),
            floor_p50_ns: stats::median(&turns.kept(2)),
            ..Self::new(figure, bytes, turns.over(0, 2, |ns| *ns))
        }
    }

    /// From bytes a second.
    pub fn rates(figure: VerbsFigure, bytes: u64, turns: &Turns<f64>) -> Self {
        VerbsRow {
            bytes_per_s: stats::median(&turns.kept(0)),
            floor_bytes_per_s: stats::median(&turns.kept(2)),
            ..Self::new(figure, bytes, turns.over(0, 2, |per_s| *per_s))
        }
    }
}
