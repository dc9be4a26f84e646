//! The targets of leases.

use super::Check;
use crate::report::published;
use crate::report::text::number::ns;
use crate::report::{Experiment, LeasesReport, LeasesRow, Source};
use vfun_leases::Policy;

/// A switch adds at most this to the call that crosses it, at p99, ns.
pub const SWITCH_NS: f64 = 50e3;
/// Under `activity` the busiest group has at least this part of the VFs' time.
pub const TOP_SHARE: f64 = 0.9;
/// Under `fair` each client's part of VF time is this near to an equal one.
pub const FAIR_OFF: f64 = 0.1;

/// Whether the report meets the targets of leases.
pub fn leases(report: &LeasesReport) -> Vec<Check> {
    let mut checks = vec![switch(report)];
    let (calls, t) = report.trouble();
    checks.push(Check::new(
        "calls failed, wrong, lost or repeated",
        "none".to_owned(),
        format!("{}, {}, {}, {} of {calls}", t.failed, t.wrong, t.lost, t.repeated),
        (calls > 0).then_some(t == crate::leases::Trouble::default()),
    ));
    for (source, clients) in report.crowds(Experiment::Groups) {
        let of = |policy: Policy| -> Vec<&LeasesRow> {
            let same = move |r: &&LeasesRow| {
                r.source == source
                    && r.clients == Some(clients)
                    && r.policy.as_deref() == Some(policy.name())
            };
            report.of(Experiment::Groups).filter(same).collect()
        };
        checks.push(top(source, clients, &of(Policy::Activity)));
        checks.push(fair(source, clients, &of(Policy::Fair)));
    }
    for (source, clients) in report.crowds(Experiment::Worth) {
        let sums = report.in_calls(Experiment::Worth, source, clients);
        let of = |policy: Policy| sums.iter().find(|(p, _)| *p == policy.name()).map(|(_, s)| *s);
        let both = of(Policy::Gain).zip(of(Policy::Activity));
        checks.push(Check::new(
            &format!("gain beside activity, {source}: all clients' time in calls"),
            "no more".to_owned(),
            both.map_or_else(
                || "no figure".to_owned(),
                |(gain, activity)| {
                    format!("{:.0} to {:.0} ms a second", 1e3 * gain, 1e3 * activity)
                },
            ),
            both.map(|(gain, activity)| gain <= activity),
        ));
    }
    checks
}

fn switch(report: &LeasesReport) -> Check {
    let rows = || report.of(Experiment::Switch);
    let worst = rows().filter_map(|r| r.added_p99_ns).reduce(f64::max);
    let switches: u64 = rows().filter_map(|r| r.switches).sum();
    let (plug, unplug) = published::SWITCH_NS;
    Check::new(
        "a switch adds to the call that crosses it, p99",
        format!("at most {} (published: {} and {})", ns(SWITCH_NS), ns(plug), ns(unplug)),
        worst.map_or_else(
            || "no figure".to_owned(),
            |w| format!("{} over {switches} switches", ns(w)),
        ),
        worst.map(|w| w <= SWITCH_NS),
    )
}

/// The busiest group's part of all VF time, or of what it can use.
fn top(source: Source, clients: u32, rows: &[&LeasesRow]) -> Check {
    let busiest = rows
        .iter()
        .filter(|r| r.per_s.is_some())
        .max_by(|a, b| a.per_s.unwrap_or(0.0).total_cmp(&b.per_s.unwrap_or(0.0)));
    let part = busiest.and_then(|r| {
        let can = f64::from(r.members?).min(f64::from(r.vfs?));
        (can > 0.0).then_some(r.vf_share? * f64::from(r.members?) / can)
    });
    Check::new(
        &format!("activity, {clients} clients, {source}: the VFs are the busiest group's"),
        format!("{:.0} % of their time", 100.0 * TOP_SHARE),
        part.map_or_else(|| "no figure".to_owned(), |p| format!("{:.1} %", 100.0 * p)),
        part.map(|p| p >= TOP_SHARE),
    )
}

fn fair(source: Source, clients: u32, rows: &[&LeasesRow]) -> Check {
    let equal = rows.first().and_then(|r| Some(f64::from(r.vfs?) / f64::from(r.clients?)));
    let off = equal.filter(|e| *e > 0.0).and_then(|equal| {
        let off = |r: &&LeasesRow| Some((r.vf_share? / equal - 1.0).abs());
        rows.iter().filter_map(off).reduce(f64::max)
    });
    Check::new(
        &format!("fair, {clients} clients, {source}: each group's part of VF time"),
        format!("within {:.0} % of an equal one", 100.0 * FAIR_OFF),
        off.map_or_else(|| "no figure".to_owned(), |o| format!("{:.1} % off at most", 100.0 * o)),
        off.map(|o| o <= FAIR_OFF),
    )
}
