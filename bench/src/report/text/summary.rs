//! What all reports together show, in one plain sentence.

use super::number::{ns, times};
use crate::report::{
    Domain, DomainRow, DomainsReport, GrainReport, Kind, LatencyReport, checks as targets,
    published,
};

/// One sentence; what was not measured is left out of it, or named where it matters.
pub fn summary(
    domains: Option<&DomainsReport>,
    latency: Option<&LatencyReport>,
    grain: Option<&GrainReport>,
) -> String {
    let clauses: Vec<_> = [
        latency.and_then(calls),
        latency.and_then(network),
        domains.and_then(finest),
        grain.and_then(grains),
    ]
    .into_iter()
    .flatten()
    .collect();
    match clauses.split_last() {
        None => "Nothing was measured from a guest, so there is nothing to say of it.".to_owned(),
        Some((only, [])) => format!("In short: {only}."),
        Some((last, others)) => format!("In short: {}, and {last}.", others.join(", ")),
    }
}

fn null_call(report: &LatencyReport, domain: Domain) -> Option<f64> {
    let mut rows = report.rows.iter().filter(|r| r.kind == Kind::NullCall && r.domain == domain);
    rows.find_map(|r| r.p50_ns)
}

fn calls(report: &LatencyReport) -> Option<String> {
    let row =
        report.rows.iter().find(|r| r.kind == Kind::NullCall && r.domain == Domain::GuestHost)?;
    let (call, floor) = (row.p50_ns?, targets::floor_of(report, row)?);
    Some(format!(
        "a program in the guest calls a function on its host in {}, {} times what two cache lines take there and back",
        ns(call),
        times(row.against_floor.unwrap_or(call / floor))
    ))
}

fn network(report: &LatencyReport) -> Option<String> {
    let (window, net) =
        (null_call(report, Domain::GuestHost)?, null_call(report, Domain::GuestNet)?);
    Some(format!("{} times as fast as over its network", times((net / window).round())))
}

fn finest(report: &DomainsReport) -> Option<String> {
    let rows = report.rows.iter().filter(|r| r.domain == Domain::GuestHost);
    let compared: Vec<_> = rows.filter_map(DomainRow::to_host_host).collect();
    let known: Vec<_> = compared.iter().filter_map(|c| c.high).collect();
    let what = "the published experiment takes";
    if known.len() < compared.len() {
        let (not, all) = (compared.len() - known.len(), compared.len());
        return Some(format!(
            "{what} a time from the guest that cannot be told in {not} of {all} instances (a quieter machine is needed)"
        ));
    }
    let worst = known.into_iter().max_by(f64::total_cmp)?;
    Some(format!(
        "{what} at most {} times as long from the guest as from the host (published: {} against native)",
        times(worst),
        published::WORST_SLOWDOWN
    ))
}

fn grains(report: &GrainReport) -> Option<String> {
    let finest = (*report.finest_grain_ns.get(&Domain::GuestHost)?)?;
    Some(format!("calling costs the guest at most 2.8 % from {} of work in a call", ns(finest)))
}
