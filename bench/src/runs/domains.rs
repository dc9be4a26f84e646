//! The published experiment. The calls of an instance are made in slices, in each domain in turns.

use super::in_turns::InTurns;
use super::{Bench, progress};
use crate::Result;
use crate::measure::{Job, Outcome};
use crate::method::{SLICE, Turns};
use crate::report::instances::PUBLISHED;
use crate::report::{Domain, DomainRow, DomainsReport, Function, Instance};
use std::time::Duration;

/// Repetitions with which their time is taken.
const CALIBRATION: u64 = 50_000;

/// How the published experiment is run.
#[derive(Clone, Debug)]
pub struct DomainsPlan {
    /// The part of the published work that each call does.
    pub scale: f64,
    /// How often everything is repeated.
    pub repeats: u32,
    /// The functions that are called.
    pub functions: Vec<Function>,
}

/// An instance's calls, cut into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    calls: u64,
    slices: u64,
}

impl Cut {
    /// Slices of about [`SLICE`], or of one call each if calls take longer.
    fn new(run: Instance, ns_each: f64) -> Self {
        let call = (run.repetitions as f64 * ns_each).max(1.0);
        let at_once = ((SLICE.as_nanos() as f64 / call) as u64).clamp(1, run.iterations);
        Cut { calls: run.iterations, slices: run.iterations.div_ceil(at_once) }
    }

    /// Calls of a slice: as many as in any other, or one more.
    fn calls_of(self, turn: usize) -> u64 {
        let i = turn as u64 % self.slices;
        (i + 1) * self.calls / self.slices - i * self.calls / self.slices
    }
}

pub fn domains(bench: &mut Bench, plan: &DomainsPlan) -> Result<DomainsReport> {
    let mut rows = Vec::new();
    {
        let all = (0..bench.len()).collect();
        let mut places = InTurns::new(bench, "domains", all);
        for &function in &plan.functions {
            let ns_each = calibrate(&mut places, function);
            for published in PUBLISHED {
                progress(format_args!("domains: {function}, {published}"));
                let run = published.scaled(plan.scale);
                let cut = Cut::new(run, ns_each);
                let turns = instance(&mut places, function, run, cut, (plan.repeats, ns_each))?;
                rows.extend(rows_of(&mut places, function, published, plan.scale, cut, &turns));
            }
        }
        rows.retain(|r: &DomainRow| {
            (0..places.len()).all(|v| !places.failed(v) || places.domain(v) != r.domain)
        });
    }
    let mut report = DomainsReport::new(bench.machine(), bench.settings(plan.scale, plan.repeats));
    rows.sort_by_key(|r| (r.function, r.iterations, r.domain));
    report.rows = rows;
    Ok(report)
}

/// What one computation takes, ns, by the first place that can tell.
fn calibrate(places: &mut InTurns, function: Function) -> f64 {
    let job = Job::Work { function, repetitions: CALIBRATION, iterations: 3 };
    let taken = (0..places.len()).find_map(|v| match places.once(v, &job, Duration::ZERO)? {
        Outcome::Seconds(s) => Some(s * 1e9 / (3 * CALIBRATION) as f64),
        _ => None,
    });
    taken.unwrap_or(10.0)
}

/// All its calls, so many times. A slice's figure is the seconds of a call in it.
fn instance(
    places: &mut InTurns,
    function: Function,
    run: Instance,
    cut: Cut,
    (repeats, ns_each): (u32, f64),
) -> Result<Turns<f64>> {
    let repetitions = run.repetitions;
    let job = |_: usize, turn: usize| {
        let iterations = cut.calls_of(turn);
        let work = Duration::from_nanos((repetitions as f64 * iterations as f64 * ns_each) as u64);
        (Job::Work { function, repetitions, iterations }, work)
    };
    places.run((cut.slices * u64::from(repeats)) as usize, job, |_, turn, outcome| match outcome {
        Outcome::Seconds(s) => Some(s / cut.calls_of(turn) as f64),
        _ => None,
    })
}

/// A row for each domain. Its seconds are of all slices, its ratios of those that nothing disturbed.
fn rows_of(
    places: &mut InTurns,
    function: Function,
    published: Instance,
    scale: f64,
    cut: Cut,
    turns: &Turns<f64>,
) -> Vec<DomainRow> {
    let (host, here) = (places.find(Domain::HostHost), places.find(Domain::InProcess));
    let count = places.len();
    let row = |variant: usize| {
        let (domain, transport) = (places.domain(variant), places.transport(variant));
        let figures = turns.figures(variant);
        let repeat = |slices: &[f64]| -> f64 {
            slices.iter().enumerate().map(|(i, s)| s * cut.calls_of(i) as f64).sum()
        };
        let seconds: Vec<_> = figures.chunks_exact(cut.slices as usize).map(repeat).collect();
        let row =
            DomainRow::from_repeats(function, domain, &transport, published, scale, &seconds)?;
        let compare = |base: Option<usize>| base.map(|b| turns.over(variant, b, |s| *s));
        Some(row.compared(compare(host), compare(here)))
    };
    (0..count).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_cut_into_slices_and_loses_no_call() {
        for (published, scale, ns_each, slices) in [
            (PUBLISHED[0], 1.0, 13.0, 1),
            (PUBLISHED[2], 0.2, 13.0, 100),
            // Of 0.65 ms: six in a slice.
            (PUBLISHED[4], 0.2, 13.0, 334),
            (PUBLISHED[4], 1e-9, 13.0, 1),
        ] {
            let run = published.scaled(scale);
            let cut = Cut::new(run, ns_each);
            assert_eq!(cut.slices, slices, "{published}");
            let calls: Vec<u64> = (0..slices as usize).map(|i| cut.calls_of(i)).collect();
            assert_eq!(calls.iter().sum::<u64>(), run.iterations);
            assert!(calls.iter().max().unwrap() - calls.iter().min().unwrap() <= 1);
            assert_eq!(cut.calls_of(slices as usize), calls[0], "the next repeat begins anew");
        }
    }
}
