//! The targets of starting, memory and idling.

use super::Check;
use crate::report::text::number::{megabytes, ns, percent, round_ns};
use crate::report::{Footprint, FootprintReport, FootprintRow};

/// Negotiate and activate, at the median.
pub const ACTIVATION_NS: f64 = 20e6;
/// Resident memory of the manager, and of an idle service.
pub const RESIDENT_BYTES: u64 = 15_000_000;
/// Share of a processor while idle, where there is no doorbell.
pub const IDLE_SHARE: f64 = 0.01;
/// What counts as no measurable share: a tenth of a percent, less than a clock that is
/// read once a millisecond takes.
pub const NO_SHARE: f64 = 0.001;

/// One target for each row.
pub fn footprint(report: &FootprintReport) -> Vec<Check> {
    let mut rows: Vec<_> = report.rows.iter().collect();
    rows.sort_by_key(|r| (r.kind, r.domain, r.process.as_str()));
    rows.into_iter().map(check).collect()
}

fn check(row: &FootprintRow) -> Check {
    let what = format!("{}, {} ({}, {})", row.kind.words(), row.process, row.domain, row.transport);
    let (target, value) = match row.kind {
        Footprint::ActivationWithStart | Footprint::Activation => {
            let value = row.p50_ns.map(|p50| (ns(p50), p50 < ACTIVATION_NS));
            (format!("under {} at p50", round_ns(ACTIVATION_NS)), value)
        }
        Footprint::Resident => {
            let value = row.bytes.map(|b| (megabytes(b), b < RESIDENT_BYTES));
            (format!("under {}", megabytes(RESIDENT_BYTES)), value)
        }
        Footprint::Idle if row.doorbell => {
            let value = row.cpu_share.map(|s| (percent(s), s < NO_SHARE));
            (format!("not measurable (under {})", percent(NO_SHARE)), value)
        }
        Footprint::Idle => {
            let value = row.cpu_share.map(|s| (percent(s), s < IDLE_SHARE));
            (format!("under {}", percent(IDLE_SHARE)), value)
        }
    };
    let (measured, reached) = value.unzip();
    Check::new(&what, target, measured.unwrap_or_else(|| "no figure".to_owned()), reached)
}
