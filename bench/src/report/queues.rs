//! Queues: how soon an entry is there, and how many go through.

use super::{Machine, Settings, stats};
use serde::{Deserialize, Serialize};

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuesReport {
    /// Where it was measured.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// The rows.
    pub rows: Vec<QueuesRow>,
}

/// One shape; medians over the repeats. What does not apply is null.
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
    /// Entries a second.
    pub entries_per_s: Option<f64>,
    /// Entries a second of a ring at the speed of memcpy.
    pub ring_per_s: Option<f64>,
    /// Of each repeat, the time over the floor's, or the entries over the ring's,
    /// at the median.
    pub ratio: Option<f64>,
    /// The lowest repeat's ratio.
    pub ratio_min: Option<f64>,
    /// The highest repeat's.
    pub ratio_max: Option<f64>,
    /// The lowest repeat's p50 or entries a second.
    pub spread_min: Option<f64>,
    /// The highest repeat's.
    pub spread_max: Option<f64>,
    /// How often it was measured.
    pub repeats: u32,
}

impl QueuesRow {
    fn new(entry_bytes: u32, batch: Option<u32>, figures: &[f64], others: &[f64]) -> Self {
        let ratios: Vec<_> = figures.iter().zip(others).map(|(a, b)| a / b).collect();
        let (ratio_min, ratio_max) = stats::range(&ratios).unzip();
        let (spread_min, spread_max) = stats::range(figures).unzip();
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
            ratio: stats::median(&ratios),
            ratio_min,
            ratio_max,
            spread_min,
            spread_max,
            repeats: figures.len() as u32,
        }
    }

    /// From each repeat's p50 and p99, one way: of the queue and of the floor; and
    /// the p50 of the ring.
    pub fn latency(
        entry_bytes: u32,
        queue: &(Vec<f64>, Vec<f64>),
        floor: &(Vec<f64>, Vec<f64>),
        ring: &[f64],
    ) -> Self {
        QueuesRow {
            p50_ns: stats::median(&queue.0),
            p99_ns: stats::median(&queue.1),
            floor_p50_ns: stats::median(&floor.0),
            floor_p99_ns: stats::median(&floor.1),
            ring_p50_ns: stats::median(ring),
            ..Self::new(entry_bytes, None, &queue.0, &floor.0)
        }
    }

    /// From each repeat's entries a second, of the queue and of the ring.
    pub fn rate(entry_bytes: u32, batch: u32, queue: &[f64], ring: &[f64]) -> Self {
        QueuesRow {
            entries_per_s: stats::median(queue),
            ring_per_s: stats::median(ring),
            ..Self::new(entry_bytes, Some(batch), queue, ring)
        }
    }
}
