//! The targets of queues.

use super::Check;
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
    let pair = row.p50_ns.zip(row.floor_p50_ns).zip(row.ratio);
    let measured = pair.map(|((a, b), r)| format!("{} × ({} over {})", times(r), ns(a), ns(b)));
    let measured = measured.unwrap_or_else(|| "no figure".to_owned());
    let target = format!("at most {} × the floor", times(OVER_FLOOR));
    Check::new(&what, target, measured, row.ratio.map(|r| r <= OVER_FLOOR))
}

fn entries(row: &QueuesRow, batch: u32) -> Check {
    let what = format!("entries of {ENTRY_BYTES} bytes, {batch} at a time");
    let pair = row.entries_per_s.zip(row.ring_per_s).zip(row.ratio);
    let measured = pair.map(|((a, b), r)| format!("{} ({} over {})", times(r), rate(a), rate(b)));
    let measured = measured.unwrap_or_else(|| "no figure".to_owned());
    let target = format!("at least {} of a bare ring's", times(OF_RING));
    Check::new(&what, target, measured, row.ratio.map(|r| r >= OF_RING))
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
