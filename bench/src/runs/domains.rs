//! The published experiment. Within a repeat every instance is run in each domain right
//! after the other, in turns from either end, so that what drifts hits all alike.

use super::{Bench, progress};
use crate::Result;
use crate::measure::Job;
use crate::report::instances::PUBLISHED;
use crate::report::{Domain, DomainRow, DomainsReport, Function, Instance};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds of one computation, generously: for time limits only.
const COMPUTATION: f64 = 40e-9;

/// How the published experiment is run.
#[derive(Clone, Debug)]
pub struct DomainsPlan {
    /// The part of the published work that each call does.
    pub scale: f64,
    /// How often.
    pub repeats: u32,
    /// Which functions.
    pub functions: Vec<Function>,
}

/// Seconds of each repeat, by function, instance and place.
type Seconds = BTreeMap<(Function, Instance, usize), Vec<f64>>;

/// Runs it.
pub fn domains(bench: &mut Bench, plan: &DomainsPlan) -> Result<DomainsReport> {
    let mut seconds = Seconds::new();
    let mut failed = vec![false; bench.len()];
    for repeat in 0..plan.repeats {
        progress(format_args!("domains: repeat {} of {}", repeat + 1, plan.repeats));
        for &function in &plan.functions {
            for published in PUBLISHED {
                let mut order: Vec<_> = (0..bench.len()).collect();
                if repeat % 2 == 1 {
                    order.reverse();
                }
                for place in order.into_iter().filter(|&p| !failed[p]).collect::<Vec<_>>() {
                    match once(bench, place, function, published.scaled(plan.scale)) {
                        Ok(s) => seconds.entry((function, published, place)).or_default().push(s),
                        Err(e) => {
                            failed[place] = true;
                            let domain = bench.place(place).domain();
                            bench.miss(domain, "domains", &e);
                        }
                    }
                }
            }
        }
    }
    let mut report = DomainsReport::new(bench.machine(), bench.settings(plan.scale, plan.repeats));
    report.rows = rows(bench, plan, &seconds, &failed);
    report.finish();
    Ok(report)
}

fn once(bench: &mut Bench, place: usize, function: Function, run: Instance) -> Result<f64> {
    let Instance { repetitions, iterations } = run;
    let work = Duration::from_secs_f64(repetitions as f64 * iterations as f64 * COMPUTATION);
    bench.place(place).seconds(&Job::Work { function, repetitions, iterations }, work)
}

fn rows(
    bench: &mut Bench,
    plan: &DomainsPlan,
    seconds: &Seconds,
    failed: &[bool],
) -> Vec<DomainRow> {
    let host_host = bench.find(Domain::HostHost);
    let mut rows = Vec::new();
    for (&(function, published, place), repeats) in seconds.iter().filter(|(key, _)| !failed[key.2])
    {
        let (domain, transport) =
            (bench.place(place).domain(), bench.place(place).transport().to_owned());
        let row =
            DomainRow::from_repeats(function, domain, &transport, published, plan.scale, repeats);
        let Some(mut row) = row else { continue };
        if let Some(base) = host_host.and_then(|h| seconds.get(&(function, published, h))) {
            row = row.paired_with(repeats, base);
        }
        rows.push(row);
    }
    rows.sort_by_key(|r| (r.function, r.iterations, r.domain));
    rows
}
