//! The targets of network VFs.

use super::Check;
use crate::report::text::number::ns;
use crate::report::{NicsExperiment, NicsReport, NicsRow};
use vfun_leases::Policy;

/// A decision takes at most this, ns: with 10,000 VMs and 128 VFs.
pub const DECISION_NS: f64 = 10e6;
/// Processor time of `vfun-nics` with 100 VMs, as a part of one processor.
pub const DAEMON_SHARE: f64 = 0.005;
/// Memory that one more VM takes, bytes.
pub const VM_BYTES: f64 = 1e6;
/// Under `activity` the VMs save at least this part of what so many VFs can save.
pub const SAVED: f64 = 0.9;
/// Under `fair` each group's part of VF time is this near to the others'.
pub const FAIR_OFF: f64 = 0.1;
/// A server with a reserve may have so much less in the time that counts, which ends in the
/// middle of a turn.
pub const RESERVE_OFF: f64 = 0.01;
/// A liar may have so much more of the time than an honest VM of its rate: a VF is held in
/// whole tenures, so shares are not equal to the last digit.
pub const LIAR_OFF: f64 = 0.05;

/// Whether the report meets the targets of network VFs.
pub fn nics(report: &NicsReport) -> Vec<Check> {
    let mut checks = Vec::new();
    for case in report.cases(NicsExperiment::Groups) {
        checks.push(saved(report, case));
        checks.push(fair(report, case));
    }
    for case in report.cases(NicsExperiment::Starvation) {
        checks.extend(reserve(report, case));
    }
    for case in report.cases(NicsExperiment::Liar) {
        checks.push(liar(report, case));
    }
    checks.extend(tenure(report));
    let figure = |experiment, figure: fn(&NicsRow) -> Option<f64>, case: &str| {
        report.of(experiment).filter(|r| r.case.contains(case)).filter_map(figure).reduce(f64::max)
    };
    checks.push(below(
        "a decision, 10,000 VMs and 128 VFs, p99",
        DECISION_NS,
        figure(NicsExperiment::Decision, |r| r.p99_ns, "decision"),
        ns,
    ));
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    checks.push(below(
        "processor time of vfun-nics, 100 VMs",
        DAEMON_SHARE,
        figure(NicsExperiment::Daemon, |r| r.cpu_share, ""),
        percent,
    ));
    checks.push(below(
        "memory of vfun-nics, a VM",
        VM_BYTES,
        figure(NicsExperiment::Daemon, |r| r.vm_bytes, ""),
        |bytes| format!("{:.0} KB", bytes / 1e3),
    ));
    checks
}

fn below(what: &str, most: f64, figure: Option<f64>, words: impl Fn(f64) -> String) -> Check {
    let measured = figure.map_or_else(|| "no figure".to_owned(), &words);
    Check::new(what, format!("below {}", words(most)), measured, figure.map(|f| f < most))
}

fn of<'a>(
    report: &'a NicsReport,
    experiment: NicsExperiment,
    case: &str,
    policy: Policy,
) -> Vec<&'a NicsRow> {
    let same = |r: &&NicsRow| r.case == case && r.policy.as_deref() == Some(policy.name());
    report.of(experiment).filter(same).collect()
}

fn saved(report: &NicsReport, case: &str) -> Check {
    let all = report.saved(NicsExperiment::Groups, case);
    let part = all.iter().find(|(p, _)| *p == Policy::Activity.name()).map(|(_, saved)| *saved);
    Check::new(
        &format!("activity, {case}: of the time that the VFs can save, saved"),
        format!("{:.0} %", 100.0 * SAVED),
        part.map_or_else(|| "no figure".to_owned(), |p| format!("{:.1} %", 100.0 * p)),
        part.map(|p| p >= SAVED),
    )
}

fn fair(report: &NicsReport, case: &str) -> Check {
    let rows = of(report, NicsExperiment::Groups, case, Policy::Fair);
    let shares: Vec<f64> = rows.iter().filter_map(|r| r.vf_share).collect();
    let range = crate::report::stats::range(&shares);
    let off =
        range.filter(|(_, most)| *most > 0.0).map(|(least, most)| most / least.max(1e-9) - 1.0);
    Check::new(
        &format!("fair, {case}: the groups' parts of VF time"),
        format!("within {:.0} % of each other", 100.0 * FAIR_OFF),
        off.map_or_else(|| "no figure".to_owned(), |o| format!("{:.1} % apart", 100.0 * o)),
        off.map(|o| o <= FAIR_OFF),
    )
}

/// The server with a reserve has it, under the policy that starves it without.
fn reserve(report: &NicsReport, case: &str) -> Option<Check> {
    let rows = of(report, NicsExperiment::Starvation, case, Policy::Activity);
    let row = rows.iter().find(|r| r.group.as_deref().is_some_and(|g| g.contains('%')))?;
    let asked: f64 = row
        .group
        .as_deref()?
        .split_whitespace()
        .find_map(|w| w.trim_end_matches('%').parse().ok())?;
    let share = row.vf_share?;
    Some(Check::new(
        &format!("reserve, {case}: time that the server holds a VF"),
        format!("at least {asked:.0} %, within a point"),
        format!("{:.1} %", 100.0 * share),
        Some(share >= asked / 100.0 - RESERVE_OFF),
    ))
}

fn liar(report: &NicsReport, case: &str) -> Check {
    let rows = of(report, NicsExperiment::Liar, case, Policy::Activity);
    let share = |word: &str| {
        rows.iter().find(|r| r.group.as_deref() == Some(word)).and_then(|r| r.vf_share)
    };
    let both = share("liar").zip(share("honest"));
    Check::new(
        &format!("liar, {case}: time on a VF, beside an honest VM of the same rate"),
        format!("no more, within {:.0} points", 100.0 * LIAR_OFF),
        both.map_or_else(
            || "no figure".to_owned(),
            |(liar, honest)| format!("{:.1} to {:.1} %", 100.0 * liar, 100.0 * honest),
        ),
        both.map(|(liar, honest)| liar <= honest + LIAR_OFF),
    )
}

/// No VF moves more than once a tenure.
fn tenure(report: &NicsReport) -> Option<Check> {
    // Lots are drawn at fixed times: the hand-over comes off the time that follows.
    let timed = report.rows.iter().filter(|r| r.policy.as_deref() != Some(Policy::Random.name()));
    let over = timed.filter_map(|r| Some((r.least_s?, r.tenure_s?)));
    let worst = over.min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
    Some(Check::new(
        "simulated, but for random: a VF is kept",
        "for a tenure at least".to_owned(),
        format!("{:.1} s at least, of {:.0} s", worst.0, worst.1),
        Some(worst.0 >= worst.1),
    ))
}
