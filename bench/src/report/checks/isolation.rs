//! The targets of isolation.

use super::Check;
use crate::method::Compared;
use crate::report::IsolationReport;
use crate::report::text::number::times;

/// The innocent client's p99 under each attack is at most this many times that
/// beside an idle neighbour.
pub const OVER_IDLE: f64 = 1.5;

/// One target an attack, and one for all results.
pub fn isolation(report: &IsolationReport) -> Vec<Check> {
    let mut checks: Vec<Check> = report
        .rows
        .iter()
        .map(|row| {
            Check::compared(
                &format!("p99 under {}", row.attack),
                format!("at most {} × idle", times(OVER_IDLE)),
                Some(row.compared()),
                |c| c.at_most(OVER_IDLE),
                Compared::words,
            )
        })
        .collect();
    let (calls, errors) = report.rows.iter().fold((0, 0), |(c, e), r| (c + r.calls, e + r.errors));
    checks.push(Check::new(
        "the innocent client's errors",
        "none".to_owned(),
        format!("{errors} of {calls} calls"),
        (calls > 0).then_some(errors == 0),
    ));
    checks
}
