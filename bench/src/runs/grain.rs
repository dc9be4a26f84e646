//! How small a call may be: slowdown against a plain function call as the work shrinks.

use super::{Bench, progress};
use crate::measure::Job;
use crate::report::{Domain, Function, GrainReport, GrainRow, stats};
use crate::{BenchError, Result};
use std::time::Duration;

/// Repetitions with which their time is taken.
const CALIBRATION: u64 = 20_000;
/// Time of a batch of calls, ns: long enough for the clock, short enough that most
/// batches see no interruption.
const BATCH_NS: f64 = 3e6;
/// Batches of which the median counts.
const BATCHES: u32 = 9;
/// Most calls in a batch; and over a network, where a call takes a fraction of a
/// millisecond whatever its work.
const CALLS_MOST: u64 = 10_000;
const CALLS_NET: u64 = 10;

/// How it is run.
#[derive(Clone, Debug)]
pub struct GrainPlan {
    /// How often.
    pub repeats: u32,
    /// What computes.
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
    ((BATCH_NS / work_ns.max(1.0)) as u64).clamp(1, most)
}

/// Runs it. In each repeat every amount of work is done in process and then in each
/// domain, so that each slowdown is of two measurements next to each other.
pub fn grain(bench: &mut Bench, plan: &GrainPlan) -> Result<GrainReport> {
    let Some(base) = bench.find(Domain::InProcess) else {
        return Err(BenchError::Options(
            "grain compares with in-process, for which the manager's drivers are needed: leave --endpoint out".into(),
        ));
    };
    let others: Vec<_> = (0..bench.len()).filter(|&p| p != base).collect();
    let job = |repetitions, calls| Job::Grain {
        function: plan.function,
        repetitions,
        calls,
        batches: BATCHES,
    };
    let ns_each =
        bench.place(base).ns_per_call(&job(CALIBRATION, 5), Duration::ZERO)? / CALIBRATION as f64;
    let mut failed = vec![false; bench.len()];
    let mut works = vec![Vec::new(); plan.work_ns.len()];
    let mut slowdowns = vec![vec![Vec::new(); plan.work_ns.len()]; bench.len()];
    for repeat in 0..plan.repeats {
        progress(format_args!("grain: repeat {} of {}", repeat + 1, plan.repeats));
        for (i, &wanted) in plan.work_ns.iter().enumerate() {
            let n = repetitions(wanted, ns_each);
            let job = |domain| job(n, calls(wanted.max(n as f64 * ns_each), domain));
            let time = Duration::from_nanos((BATCH_NS.max(wanted) * f64::from(BATCHES)) as u64);
            let work = bench.place(base).ns_per_call(&job(Domain::InProcess), time)?;
            works[i].push(work);
            for &place in &others {
                if failed[place] {
                    continue;
                }
                let domain = bench.place(place).domain();
                match bench.place(place).ns_per_call(&job(domain), time) {
                    Ok(ns) => slowdowns[place][i].push(ns / work),
                    Err(e) => {
                        failed[place] = true;
                        bench.miss(domain, "grain", &e);
                    }
                }
            }
        }
    }
    let mut report = GrainReport::new(bench.machine(), bench.settings(1.0, plan.repeats));
    report.settings = report.settings.with("function", plan.function.as_str());
    for place in others.into_iter().filter(|&p| !failed[p]) {
        let (domain, transport) =
            (bench.place(place).domain(), bench.place(place).transport().to_owned());
        for (i, slow) in slowdowns[place].iter().enumerate() {
            let work = stats::median(&works[i]).unwrap_or_default();
            report.rows.extend(GrainRow::from_repeats(domain, &transport, work, slow));
        }
    }
    report.finish();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_becomes_repetitions_and_batches() {
        assert_eq!(repetitions(20e3, 18.0), 1111);
        assert_eq!(repetitions(0.0, 18.0), 1);
        assert_eq!(calls(1e7, Domain::HostHost), 1);
        assert_eq!(calls(20e3, Domain::HostHost), 150);
        assert_eq!(calls(18.0, Domain::HostHost), CALLS_MOST);
        assert_eq!(calls(18.0, Domain::GuestNet), CALLS_NET);
        let plan = GrainPlan::new(5);
        assert!(plan.work_ns.is_sorted_by(|a, b| a > b));
        assert!(plan.work_ns.contains(&crate::report::published::TARGET_GRAIN_NS));
    }
}
