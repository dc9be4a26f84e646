//! Queues: how soon an entry is there, and how many go through.

use super::stats::{self, Percentiles};
use super::{Machine, Settings};
use crate::method::{Compared, Turns};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuesReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    pub rows: Vec<QueuesRow>,
}

/// One shape; medians of undisturbed slices. What does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuesRow {
    /// Bytes of an entry.
    pub entry_bytes: u32,
    /// Entries at a time, where they are counted; null where one goes alone, to
    /// and fro.
    pub batch: Option<u32>,
    /// Half of the entries were there no later: half of a round trip.
    pub p50_ns: Option<f64>,
    /// 99 of 100 were there no later.
    pub p99_ns: Option<f64>,
    /// The p50 of a bare line, one way.
    pub floor_p50_ns: Option<f64>,
    /// The p99 of a bare line, one way.
    pub floor_p99_ns: Option<f64>,
    /// The p50 of an entry in a ring at the speed of memcpy, one way.
    pub ring_p50_ns: Option<f64>,
    pub entries_per_s: Option<f64>,
    /// Entries a second of a ring at the speed of memcpy.
    pub ring_per_s: Option<f64>,
    /// The time over the floor's, or the entries over the ring's, in the slice beside it, at the median of
    /// undisturbed pairs; null if more than half of the pairs were disturbed.
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

/// Half of a round trip is one way.
fn one_way(trips: &[Percentiles], by: fn(&Percentiles) -> u64) -> Option<f64> {
    stats::median(&trips.iter().map(|p| by(p) as f64 / 2.0).collect::<Vec<_>>())
}

impl QueuesRow {
    fn new(entry_bytes: u32, batch: Option<u32>, ratio: Compared) -> Self {
        QueuesRow {
            entry_bytes,
            batch,
            p50_ns: None,
            p99_ns: None,
            floor_p50_ns: None,
            floor_p99_ns: None,
            ring_p50_ns: None,
            entries_per_s: None,
            ring_per_s: None,
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

    /// From round trips in turns: the queue's, the floor's, the ring's.
    pub fn latency(entry_bytes: u32, turns: &Turns<Percentiles>) -> Self {
        let (queue, floor, ring) = (turns.kept(0), turns.kept(1), turns.kept(2));
        QueuesRow {
            p50_ns: one_way(&queue, |p| p.p50),
            p99_ns: one_way(&queue, |p| p.p99),
            floor_p50_ns: one_way(&floor, |p| p.p50),
            floor_p99_ns: one_way(&floor, |p| p.p99),
            ring_p50_ns: one_way(&ring, |p| p.p50),
            ..Self::new(entry_bytes, None, turns.over(0, 1, |p| p.p50 as f64))
        }
    }

    /// From entries a second in turns: the queue's and the ring's.
    pub fn rate(entry_bytes: u32, batch: u32, turns: &Turns<f64>) -> Self {
        QueuesRow {
            entries_per_s: stats::median(&turns.kept(0)),
            ring_per_s: stats::median(&turns.kept(1)),
            ..Self::new(entry_bytes, Some(batch), turns.over(0, 1, |per_s| *per_s))
        }
    }
}
