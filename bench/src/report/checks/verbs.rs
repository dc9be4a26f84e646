//! The targets of verbs.

use super::Check;
use crate::method::Compared;
use crate::report::text::number::{ns, times};
use crate::report::{VerbsFigure, VerbsReport, VerbsRow};

/// A figure is at most this many times its floor.
const WRITE: f64 = 1.5;
const IN_FLIGHT: f64 = 0.35;
const EVENT: f64 = 1.3;
const MANY: f64 = 1.1;
const REGISTER: f64 = 10.0;
/// Nanoseconds, whatever the size.
const REGISTER_AGAIN: f64 = 20_000.0;
/// At least this part of memcpy.
const BANDWIDTH: f64 = 0.9;

fn check(row: &VerbsRow) -> Check {
    let (what, most) = match row.figure {
        VerbsFigure::Write => ("a write of 8 bytes, from posting to its completion", WRITE),
        VerbsFigure::InFlight => ("64 writes of 8 bytes under way, each", IN_FLIGHT),
        VerbsFigure::Event => ("an event of a completion, for a program that sleeps", EVENT),
        VerbsFigure::Many => ("16 queue pairs at work among 1000", MANY),
        VerbsFigure::Register => ("memory that is registered the first time", REGISTER),
        VerbsFigure::RegisterAgain => return again(row),
        VerbsFigure::Bandwidth => return bandwidth(row),
    };
    let target = format!("at most {} × its floor", times(most));
    Check::compared(what, target, Some(row.compared()), |c| c.at_most(most), Compared::words)
}

fn bandwidth(row: &VerbsRow) -> Check {
    let what = format!("writes of {} KiB", row.bytes >> 10);
    let target = format!("at least {} × memcpy", times(BANDWIDTH));
    Check::compared(&what, target, Some(row.compared()), |c| c.at_least(BANDWIDTH), Compared::words)
}

/// It has a bound in time, not beside its floor.
fn again(row: &VerbsRow) -> Check {
    let what = format!("memory of {} KiB that is registered again", row.bytes >> 10);
    let measured = row.p50_ns.map_or_else(|| "not measured".into(), ns);
    Check::new(
        &what,
        format!("at most {}", ns(REGISTER_AGAIN)),
        measured,
        row.p50_ns.map(|p50| p50 <= REGISTER_AGAIN),
    )
}

/// Each row has its target.
pub fn verbs(report: &VerbsReport) -> Vec<Check> {
    report.rows.iter().map(check).collect()
}
