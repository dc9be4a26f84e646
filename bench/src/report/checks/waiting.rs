//! The targets of the ways to wait.

use super::Check;
use crate::method::{Compared, Says};
use crate::report::text::number::{ns, percent, rate, times};
use crate::report::{Domain, Mode, Waiting, WaitingReport, WaitingRow};

/// Hybrid's null call takes at most this many times spin's.
pub const HYBRID_OVER_SPIN: f64 = 1.05;
/// Sleep's null call takes at most this many times a bare doorbell's trip.
pub const SLEEP_OVER_BARE: f64 = 1.3;
/// With too many callers hybrid's p99 is at most this many times sleep's.
pub const CROWD_P99: f64 = 2.0;
/// With too many callers the least served gets at least this part of the most served.
pub const CROWD_LEAST: f64 = 1.0 / 3.0;
/// A pair alone calls at least this many times as often in hybrid as in sleep mode.
pub const ALONE: f64 = 10.0;
/// Idle channels take less than this share of a processor, beyond what was taken before.
pub const IDLE: f64 = 0.002;

/// The targets, for each domain that was measured.
pub fn waiting(report: &WaitingReport) -> Vec<Check> {
    let mut domains: Vec<_> = report.rows.iter().map(|r| r.domain).collect();
    domains.sort();
    domains.dedup();
    domains.into_iter().flat_map(|domain| of(report, domain)).collect()
}

/// A target of two rows, of which the first was compared with the second in turns.
fn compare(
    what: String,
    target: String,
    (row, other): (Row<'_>, Row<'_>),
    (figure, words): (Figure, fn(f64) -> String),
    says: impl Fn(&Compared) -> Says,
) -> Check {
    let pair = both(row, other, figure);
    let figures = pair.map(|(a, b)| format!(" ({} over {})", words(a), words(b)));
    let figures = figures.unwrap_or_default();
    let compared = row.and_then(WaitingRow::compared).filter(|_| pair.is_some());
    Check::compared(&what, target, compared, says, |c| format!("{}{figures}", c.words()))
}

/// One figure of a row.
type Figure = fn(&WaitingRow) -> Option<f64>;

type Row<'a> = Option<&'a WaitingRow>;

fn both(a: Row<'_>, b: Row<'_>, f: Figure) -> Option<(f64, f64)> {
    Some((f(a?)?, f(b?)?))
}

fn of(report: &WaitingReport, domain: Domain) -> Vec<Check> {
    let mut checks = null_calls(report, domain);
    checks.extend(crowd(report, domain));
    checks.extend([pair_alone(report, domain), idle(report, domain)]);
    checks
}

const P50: Figure = |r| r.p50_ns;
const PER_S: Figure = |r| r.calls_per_s;

/// One call at a time.
fn null_calls(report: &WaitingReport, domain: Domain) -> Vec<Check> {
    let call = |mode| report.find(domain, Waiting::NullCall, Some(mode));
    let (hybrid, spin, sleep) = (call(Mode::Hybrid), call(Mode::Spin), call(Mode::Sleep));
    let bare = report.find(domain, Waiting::BareDoorbell, None);
    vec![
        compare(
            format!("null call, hybrid over spin, {domain}"),
            format!("at most {} ×", times(HYBRID_OVER_SPIN)),
            (hybrid, spin),
            (P50, ns),
            |c| c.at_most(HYBRID_OVER_SPIN),
        ),
        compare(
            format!("null call, sleep over a bare doorbell, {domain}"),
            format!("at most {} ×", times(SLEEP_OVER_BARE)),
            (sleep, bare),
            (P50, ns),
            |c| c.at_most(SLEEP_OVER_BARE),
        ),
    ]
}

/// One caller and one service, with a processor each.
fn pair_alone(report: &WaitingReport, domain: Domain) -> Check {
    let alone = |mode| report.find(domain, Waiting::Alone, Some(mode));
    compare(
        format!("a pair alone: calls, hybrid over sleep, {domain}"),
        format!("at least {} ×", times(ALONE)),
        (alone(Mode::Hybrid), alone(Mode::Sleep)),
        (PER_S, rate),
        |c| c.at_least(ALONE),
    )
}

/// More callers and services than processors.
fn crowd(report: &WaitingReport, domain: Domain) -> Vec<Check> {
    let crowd = |mode| report.find(domain, Waiting::Crowd, Some(mode));
    let (hybrid, sleep) = (crowd(Mode::Hybrid), crowd(Mode::Sleep));
    let many = hybrid.map_or(3, |r| r.count);
    let who = format!("{many} callers, {many} services on two processors, {domain}");
    let least = hybrid.and_then(|r| r.least_over_most);
    vec![
        compare(
            format!("{who}: calls, hybrid over sleep"),
            "at least 1 ×".to_owned(),
            (hybrid, sleep),
            (PER_S, rate),
            |c| c.at_least(1.0),
        ),
        worst(format!("{who}: p99, hybrid over sleep"), both(hybrid, sleep, |r| r.p99_ns)),
        Check::new(
            &format!("{who}: least over most served, hybrid"),
            format!("at least {}", times(CROWD_LEAST)),
            least.map_or_else(|| "no figure".to_owned(), times),
            least.map(|l| l >= CROWD_LEAST),
        ),
    ]
}

/// The slowest calls of many: a figure of each mode alone, as a turn has but one.
fn worst(what: String, pair: Option<(f64, f64)>) -> Check {
    let target = format!("at most {} ×", times(CROWD_P99));
    let measured = pair.map(|(a, b)| format!("{} × ({} over {})", times(a / b), ns(a), ns(b)));
    let measured = measured.unwrap_or_else(|| "one of the two is missing".to_owned());
    Check::new(&what, target, measured, pair.map(|(a, b)| a <= CROWD_P99 * b))
}

/// Processor time of channels that nobody uses.
fn idle(report: &WaitingReport, domain: Domain) -> Check {
    let row = |kind| report.find(domain, kind, None);
    let idle = row(Waiting::Idle).and_then(|r| Some((r.cpu_share?, r.count)));
    let before = row(Waiting::IdleBefore).and_then(|r| r.cpu_share).unwrap_or(0.0);
    Check::new(
        &format!("{} idle channels, all processes, {domain}", idle.map_or(100, |i| i.1)),
        format!("under {}", percent(IDLE)),
        idle.map_or_else(
            || "no figure".to_owned(),
            |(share, _)| format!("{} ({} without them)", percent(share), percent(before)),
        ),
        idle.map(|(share, _)| share - before < IDLE),
    )
}
