//! How small a call may be: slowdown against a plain function call as the work shrinks.

use super::in_turns::InTurns;
use super::{Bench, progress};
use crate::measure::{Job, Outcome};
use crate::method::SLICE;
use crate::report::{Domain, Function, GrainReport, GrainRow, stats};
use crate::{BenchError, Result};
use std::time::Duration;

/// Repetitions with which their time is taken.
const CALIBRATION: u64 = 20_000;
/// Turns of an amount of work in each repeat.
const TURNS: u32 = 9;
/// Most calls in a slice; and over a network, where a call takes a fraction of a
/// millisecond whatever its work.
const CALLS_MOST: u64 = 10_000;
const CALLS_NET: u64 = 10;

/// How it is run.
#[derive(Clone, Debug)]
pub struct GrainPlan {
    /// How often everything is repeated.
    pub repeats: u32,
    /// The function that is called.
    pub function: Function,
    /// Work in a call, nanoseconds; 0 is the least that the function can do.
    pub work_ns: Vec<f64>,
}

impl GrainPlan {
    /// The usual amounts of work, from 10 ms to nothing.
    pub fn new(repeats: u32) -> Self {
        let work_ns = vec![1e7, 3e6, 1e6, 3e5, 1e5, 5e4, 2e4, 1e4, 5e3, 2e3, 1e3, 3e2, 1e2, 0.0];
        GrainPlan { repeats, function: Function::Factorial, work_ns }
    }
}

/// Repetitions that take so long, at `ns_each`.
fn repetitions(work_ns: f64, ns_each: f64) -> u64 {
    ((work_ns / ns_each.max(0.01)).round() as u64).max(1)
}

fn calls(work_ns: f64, domain: Domain) -> u64 {
    let most = if domain == Domain::GuestNet { CALLS_NET } else { CALLS_MOST };
    ((SLICE.as_nanos() as f64 / work_ns.max(1.0)) as u64).clamp(1, most)
}

/// Nanoseconds that a call took; none if the outcome has no time.
fn ns_a_call(outcome: Outcome, calls: u64) -> Option<f64> {
    match outcome {
        Outcome::Seconds(s) => Some(s * 1e9 / calls as f64),
        _ => None,
    }
}

/// Runs it: each amount of work in process and in each domain in turns.
pub fn grain(bench: &mut Bench, plan: &GrainPlan) -> Result<GrainReport> {
    let Some(base) = bench.find(Domain::InProcess) else {
        return Err(BenchError::Options(
            "grain compares with in-process, for which the manager's drivers are needed: leave --endpoint out".into(),
        ));
    };
    let function = plan.function;
    let mut rows = Vec::new();
    {
        // In-process is the first.
        let others = (0..bench.len()).filter(|&p| p != base);
        let all = [base].into_iter().chain(others).collect();
        let mut places = InTurns::new(bench, "grain", all);
        let job = |repetitions, iterations| Job::Work { function, repetitions, iterations };
        let taken = places.once(0, &job(CALIBRATION, 5), Duration::ZERO);
        let ns_each = taken.and_then(|t| ns_a_call(t, 5)).map(|ns| ns / CALIBRATION as f64);
        let ns_each =
            ns_each.ok_or_else(|| BenchError::Options("in-process did not work".into()))?;
        for &wanted in &plan.work_ns {
            let n = repetitions(wanted, ns_each);
            let work = n as f64 * ns_each;
            progress(format_args!("grain: {work:.0} ns"));
            let domains: Vec<_> = (0..places.len()).map(|v| places.domain(v)).collect();
            let count = |variant: usize| calls(work, domains[variant]);
            let time = SLICE.max(Duration::from_nanos(work as u64));
            let turns = places.run(
                (plan.repeats * TURNS) as usize,
                |variant, _| (job(n, count(variant)), time),
                |variant, _, outcome| ns_a_call(outcome, count(variant)),
            )?;
            let work = stats::median(&turns.kept(0)).unwrap_or_default();
            for variant in 1..places.len() {
                let (domain, transport) = (places.domain(variant), places.transport(variant));
                let slowdown = turns.over(variant, 0, |ns| *ns);
                rows.push((variant, GrainRow::new(domain, &transport, work, slowdown)));
            }
        }
        rows.retain(|(variant, _)| !places.failed(*variant));
    }
    let mut report = GrainReport::new(bench.machine(), bench.settings(1.0, plan.repeats));
    report.settings = report.settings.with("function", function.as_str());
    report.rows = rows.into_iter().map(|(_, row)| row).collect();
    report.finish();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_becomes_repetitions_and_slices() {
        assert_eq!(repetitions(20e3, 18.0), 1111);
        assert_eq!(repetitions(0.0, 18.0), 1);
        assert_eq!(calls(1e7, Domain::HostHost), 1);
        assert_eq!(calls(20e3, Domain::HostHost), 200);
        assert_eq!(calls(18.0, Domain::HostHost), CALLS_MOST);
        assert_eq!(calls(18.0, Domain::GuestNet), CALLS_NET);
        let plan = GrainPlan::new(5);
        assert!(plan.work_ns.is_sorted_by(|a, b| a > b));
        assert!(plan.work_ns.contains(&crate::report::published::TARGET_GRAIN_NS));
    }
}
