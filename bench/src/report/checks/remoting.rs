//! The targets of remoted APIs.

use super::Check;
use crate::method::{Compared, Says};
use crate::report::text::number::{bytes, times};
use crate::report::{RemotingExperiment, RemotingRatio, RemotingReport, RemotingRow};

/// A forwarded call over a null call, at most.
pub const FORWARDED: f64 = 1.5;
/// An answer of the guest's own over the native library's, at most.
pub const OWN_ANSWER: f64 = 5.0;
/// A call that nobody waits for over a null call, at most.
pub const RECORD: f64 = 0.3;
/// A short call of PKCS#11 over a null call, at most.
pub const SESSION_INFO: f64 = 2.0;
/// What a signature of PKCS#11, which is two calls, takes more than without a host, in null
/// calls, at most.
pub const SIGNATURE: f64 = 4.0;
/// An allocation over the native one, at most, at every size.
pub const ALLOCATION: f64 = 1.5;
/// The rate of transfers and bursts over the native one, at least.
pub const RATE: f64 = 0.98;
/// What a callback is later over a bare doorbell's one way, at most.
pub const CALLBACK: f64 = 1.3;

/// Whether the report meets the targets of remoted APIs.
pub fn remoting(report: &RemotingReport) -> Vec<Check> {
    use RemotingExperiment::{
        Allocation, Answers, Bursts, Calls, Completion, Pkcs11, Records, Transfers,
    };
    let mut checks = Vec::new();
    let mut add = |experiment, base: &str, words: &str, most: bool, limit: f64| {
        let rows = report.of(experiment).filter(|r| r.base == base);
        checks.extend(
            rows.filter(|r| !r.case.ends_with("native")).map(|r| one(r, words, most, limit)),
        );
    };
    add(Calls, "null call", "null calls", true, FORWARDED);
    add(Answers, "native", "× native", true, OWN_ANSWER);
    add(Records, "null call", "of a null call", true, RECORD);
    add(Allocation, "native", "× native", true, ALLOCATION);
    add(Transfers, "native", "of the native rate", false, RATE);
    add(Bursts, "native", "of the native rate", false, RATE);
    add(Completion, "bare doorbell", "bare doorbells later", true, CALLBACK);
    let pkcs11 = report.of(Pkcs11).filter(|r| r.base == "null call");
    checks.extend(pkcs11.map(|r| match r.ratio_of {
        RemotingRatio::Added => one(r, "null calls more", true, SIGNATURE),
        _ => one(r, "null calls", true, SESSION_INFO),
    }));
    checks.extend(report.of(Answers).map(no_crossing));
    checks
}

fn one(row: &RemotingRow, words: &str, most: bool, limit: f64) -> Check {
    let size = row.bytes.map_or_else(String::new, |n| format!(", {}", bytes(n)));
    let what = format!("{}: {}{size}", row.experiment, row.case);
    let bound = if most { "at most" } else { "at least" };
    let says = |c: &Compared| -> Says { if most { c.at_most(limit) } else { c.at_least(limit) } };
    let target = format!("{bound} {} {words}", times(limit));
    Check::compared(&what, target, Some(row.compared()), says, Compared::words)
}

fn no_crossing(row: &RemotingRow) -> Check {
    Check::new(
        &format!("{}: {}, crossings", row.experiment, row.case),
        "0".to_owned(),
        row.crossings.map_or_else(|| "not counted".to_owned(), times),
        row.crossings.map(|n| n == 0.0),
    )
}
