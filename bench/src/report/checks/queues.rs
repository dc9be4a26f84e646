//! The targets of queues.

use super::Check;
use crate::method::Compared;
use crate::report::text::number::{ns, rate, times};
use crate::report::{QueuesReport, QueuesRow};

/// An entry is there after at most this many times the floor, one way.
pub const OVER_FLOOR: f64 = 1.15;
/// At least this part of the entries of a ring at the speed of memcpy.
pub const OF_RING: f64 = 0.5;
/// The size that the targets are for.
pub const ENTRY_BYTES: u32 = 64;

fn one_way(row: &QueuesRow) -> Check {
    let what = format!("an entry of {ENTRY_BYTES} bytes, one way");
    let pair = row.p50_ns.zip(row.floor_p50_ns);
    let figures = pair.map(|(a, b)| format!(" ({} over {})", ns(a), ns(b))).unwrap_or_default();
    let target = format!("at most {} × the floor", times(OVER_FLOOR));
    let words = |c: &Compared| format!("{}{figures}", c.words());
    Check::compared(&what, target, Some(row.compared()), |c| c.at_most(OVER_FLOOR), words)
}

fn entries(row: &QueuesRow, batch: u32) -> Check {
    let what = format!("entries of {ENTRY_BYTES} bytes, {batch} at a time");
    let pair = row.entries_per_s.zip(row.ring_per_s);
    let figures = pair.map(|(a, b)| format!(" ({} over {})", rate(a), rate(b))).unwrap_or_default();
    let target = format!("at least {} × a bare ring's", times(OF_RING));
    let words = |c: &Compared| format!("{}{figures}", c.words());
    Check::compared(&what, target, Some(row.compared()), |c| c.at_least(OF_RING), words)
}

/// The targets, for the rows of 64 bytes.
pub fn queues(report: &QueuesReport) -> Vec<Check> {
    let rows = report.rows.iter().filter(|r| r.entry_bytes == ENTRY_BYTES);
    let check = |row: &QueuesRow| match row.batch {
        None => one_way(row),
        Some(batch) => entries(row, batch),
    };
    rows.map(check).collect()
}
