//! Crowds of clients, run and simulated.

use super::caller::{Caller, How};
use super::lab::{Lab, Times};
use super::{Where, progress};
use crate::lab::{HOST_CLIENT, pin};
use crate::leases::{Crowd, Experience, Latencies, Pace, simulate};
use crate::report::{Experiment, LeasesReport, LeasesRow, Source, stats};
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{Preference, WaitMode};
use vfun_leases::Policy;

/// How often the manager is asked who is on a VF.
const LOOKS: Duration = Duration::from_millis(20);
/// Calls of the one client by which latencies are taken.
const CALIBRATION: u32 = 400;

fn times(crowd: &Crowd) -> Times {
    let l = crowd.latencies;
    Times {
        software: [l.software_ns, 0.0, l.unit_ns.0],
        hardware: [l.hardware_ns, 0.0, l.unit_ns.1],
    }
}

/// What a call takes one client alone: all that a simulation is told of the machine. It
/// calls as often as the crowd does: processors that rest for longer sleep more deeply,
/// and to wake them is a tenth of a call.
pub fn calibrate(at: &Where, crowd: &Crowd) -> Result<Latencies> {
    progress("crowds: one client alone");
    let lab = Lab::start(at, &[], 1, times(crowd))?;
    let one = |preference| -> Result<(f64, f64)> {
        let how =
            How { client: HOST_CLIENT, preference, bytes: 0, units: 0, wait: WaitMode::Sleep };
        let mut caller = Caller::open(&lab, &how)?;
        let (mut calls, mut drivers) = (vec![], vec![]);
        let (start, mut pace) = (Instant::now(), Pace::new(1, 1, crowd.per_s()));
        for _ in 0..CALIBRATION {
            std::thread::sleep(pace.due().saturating_sub(start.elapsed()));
            if let Some(answer) = caller.call() {
                calls.push(answer.ns as f64);
                drivers.push(answer.told.ns as f64);
            }
        }
        caller.close()?;
        let none = || BenchError::Manager("no call of the modelled device was answered".into());
        let driver = stats::median(&drivers).ok_or_else(none)?;
        Ok((driver, (stats::median(&calls).ok_or_else(none)? - driver).max(0.0)))
    };
    let (software_ns, soft_calling) = one(Preference::Software)?;
    let (hardware_ns, hard_calling) = one(Preference::Hardware)?;
    let calling_ns = (soft_calling, hard_calling);
    Ok(Latencies { software_ns, hardware_ns, calling_ns, ..crowd.latencies })
}

/// The same crowd in simulated time.
pub fn simulated(
    experiment: Experiment,
    crowd: &Crowd,
    policies: &[Policy],
    report: &mut LeasesReport,
) -> Result<()> {
    for &policy in policies {
        let seen = simulate(crowd, policy).map_err(BenchError::Options)?;
        report.rows.extend(LeasesRow::of_crowd(
            experiment,
            Source::Simulated,
            policy,
            crowd,
            &[seen],
        ));
    }
    Ok(())
}

/// With real clients and services.
pub fn run(
    at: &Where,
    experiment: Experiment,
    crowd: &Crowd,
    policies: &[Policy],
    repeats: u32,
    report: &mut LeasesReport,
) -> Result<()> {
    let names: Vec<String> = (0..crowd.clients()).map(|i| format!("bench-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Times are asked for as they were meant, not as one client saw them.
    let asked = times(crowd);
    let lab = Lab::start(at, &names, crowd.vfs, asked)?;
    let mut runs: Vec<Vec<Vec<Experience>>> = vec![vec![]; policies.len()];
    for repeat in 0..repeats {
        for (i, &policy) in policies.iter().enumerate() {
            progress(format_args!(
                "{experiment}: {} clients, {policy}, {} of {repeats}",
                names.len(),
                repeat + 1
            ));
            let crowd = Crowd { seed: crowd.seed + u64::from(repeat), ..crowd.clone() };
            runs[i].push(once(&lab, &names, &crowd, policy)?);
        }
    }
    for (&policy, runs) in policies.iter().zip(&runs) {
        let rows = LeasesRow::of_crowd(experiment, Source::Real, policy, crowd, runs);
        report.rows.extend(rows);
    }
    Ok(())
}

/// Where each client was, by looks at the manager.
#[derive(Clone, Copy, Default)]
struct Held {
    on: f64,
    without: f64,
    longest: f64,
    switches: (Option<u64>, u64),
}

fn once(lab: &Lab, names: &[&str], crowd: &Crowd, policy: Policy) -> Result<Vec<Experience>> {
    lab.lease(policy, crowd.interval_ms, crowd.hold_ms)?;
    let members = crowd.members();
    let open = |(client, group): (&&str, &usize)| {
        let units = crowd.groups[*group].units;
        let (preference, wait) = (Preference::Any, WaitMode::Sleep);
        Caller::open(lab, &How { client, preference, bytes: 0, units, wait })
    };
    let callers = names.iter().zip(&members).map(open).collect::<Result<Vec<_>>>()?;
    let warm = Duration::from_secs_f64(crowd.warm_s);
    let end = Duration::from_secs_f64(crowd.warm_s + crowd.seconds);
    let start = Instant::now();
    let (seen, held) = std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .into_iter()
            .enumerate()
            .map(|(i, caller)| {
                let group = members[i];
                let pace = Pace::new(crowd.seed, i as u64, crowd.groups[group].per_s);
                scope.spawn(move || {
                    pin::to(lab.pins.caller());
                    client(caller, group, pace, start, (warm, end))
                })
            })
            .collect();
        let held = look(lab, names, start, (warm, end));
        let seen: Vec<_> =
            threads.into_iter().map(|t| t.join().expect("a caller does not panic")).collect();
        (seen, held)
    });
    let held = held?;
    let both = seen.into_iter().zip(held).map(|(seen, held)| {
        let (caller, mut seen) = seen;
        seen.vf_s = held.on;
        seen.without_s = held.longest;
        seen.switches = held.switches.1 - held.switches.0.unwrap_or(held.switches.1);
        seen.trouble = caller.close()?;
        Ok(seen)
    });
    both.collect()
}

fn client(
    mut caller: Caller,
    group: usize,
    mut pace: Pace,
    start: Instant,
    (warm, end): (Duration, Duration),
) -> (Caller, Experience) {
    let mut seen = Experience { group, ..Experience::default() };
    loop {
        std::thread::sleep(pace.due().saturating_sub(start.elapsed()));
        let posted = start.elapsed();
        if posted >= end {
            return (caller, seen);
        }
        if let Some(answer) = caller.call().filter(|_| posted >= warm) {
            seen.times_ns.push(answer.ns);
            seen.on_vf += u64::from(answer.told.vf.is_some());
        }
    }
}

/// Asks who is on a VF until the end, and adds the times up.
fn look(
    lab: &Lab,
    names: &[&str],
    start: Instant,
    (warm, end): (Duration, Duration),
) -> Result<Vec<Held>> {
    let mut held = vec![Held::default(); names.len()];
    std::thread::sleep(warm.saturating_sub(start.elapsed()));
    let mut last = start.elapsed();
    while last < end {
        std::thread::sleep(LOOKS);
        let rows = lab.leases()?;
        let now = start.elapsed();
        let passed = (now.min(end) - last.min(end)).as_secs_f64();
        last = now;
        for (name, held) in names.iter().zip(&mut held) {
            let row = rows.iter().find(|r| r.client == *name);
            let on_vf = row.is_some_and(|r| r.vf.is_some() && r.location != "software");
            if let Some(row) = row {
                held.switches.0.get_or_insert(row.switches);
                held.switches.1 = row.switches;
            }
            match on_vf {
                true => {
                    held.on += passed;
                    held.without = 0.0;
                }
                false => {
                    held.without += passed;
                    held.longest = held.longest.max(held.without);
                }
            }
        }
    }
    Ok(held)
}
