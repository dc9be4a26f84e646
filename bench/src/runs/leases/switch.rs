//! A live switch in the middle of a running load.

use super::caller::{Answer, Caller, How};
use super::lab::{Lab, Times};
use super::{LeasesPlan, Where, progress};
use crate::lab::{HOST_CLIENT, pin};
use crate::leases::Trouble;
use crate::report::leases::{Point, Timeline};
use crate::report::{Experiment, LeasesReport, LeasesRow, Source, stats};
use crate::{BenchError, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfun::{Preference, WaitMode};
use vfun_leases::Policy;

const TIMES: Times = Times { software: [60e3, 0.0, 0.0], hardware: [15e3, 0.0, 0.0] };
/// Switches at full scale, and at least.
const SWITCHES: f64 = 10_000.0;
const SWITCHES_LEAST: f64 = 100.0;
/// The engine's shortest interval, ms.
const INTERVAL_MS: u64 = 10;
/// How often the moment for the next one is looked for.
const LOOKS: Duration = Duration::from_millis(2);
/// A switch that does not come for so long does not come.
const PATIENCE: Duration = Duration::from_secs(5);
/// The part that is drawn: how long, and how long the lease stays as it is.
const DRAWN: Duration = Duration::from_millis(2_000);
const STAYS: Duration = Duration::from_millis(330);
/// Calls behind a switch that say what is usual there.
const AFTER: usize = 64;
/// Moments of the drawing.
const MOMENTS: u32 = 500;

/// A call: when, how long, where, whether it crossed a switch.
struct Seen {
    at: Duration,
    answer: Answer,
}

pub fn switch(at: &Where, plan: &LeasesPlan, report: &mut LeasesReport) -> Result<()> {
    let wanted = (SWITCHES * plan.scale).max(SWITCHES_LEAST) as u64;
    progress(format_args!("switch: {wanted} under load"));
    let lab = Lab::start(at, &[], 1, TIMES)?;
    lab.lease(Policy::None, INTERVAL_MS, 0)?;
    let how = How {
        client: HOST_CLIENT,
        preference: Preference::Any,
        bytes: 0,
        units: 0,
        wait: WaitMode::Hybrid,
    };
    let mut caller = Caller::open(&lab, &how)?;
    let (stop, switches) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let (seen, caller, moved) = std::thread::scope(|scope| {
        // Who asks for switches is of the host's side, and not in the caller's way.
        let _there = pin::Pinned::to(lab.pins.service());
        let thread = scope.spawn(|| {
            pin::to(lab.pins.caller());
            let mut seen = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let at = start.elapsed();
                let Some(answer) = caller.call() else { continue };
                switches.fetch_add(u64::from(answer.crossed), Ordering::Relaxed);
                seen.push(Seen { at, answer });
            }
            (seen, caller)
        });
        let moved = moves(&lab, &switches, wanted, start);
        stop.store(true, Ordering::Relaxed);
        let (seen, caller) = thread.join().expect("a caller does not panic");
        (seen, caller, moved)
    });
    moved?;
    let trouble = caller.close()?;
    report.timeline = timeline(&seen);
    report.rows.extend(rows(&seen, trouble));
    Ok(())
}

/// Gives the lease and takes it back until it has moved often enough.
fn moves(lab: &Lab, switches: &AtomicU64, wanted: u64, start: Instant) -> Result<()> {
    let mut on_vf = false;
    let mut turn = || {
        on_vf = !on_vf;
        lab.lease(if on_vf { Policy::First } else { Policy::None }, INTERVAL_MS, 0)
    };
    while start.elapsed() < DRAWN {
        std::thread::sleep(STAYS.min(DRAWN.saturating_sub(start.elapsed())));
        turn()?;
    }
    // The last turn is taken before the next one is asked for.
    std::thread::sleep(STAYS);
    let mut done = switches.load(Ordering::Relaxed);
    let (until, mut told) = (done + wanted, done);
    while done < until {
        turn()?;
        let asked = Instant::now();
        let before = done;
        while done == before {
            if asked.elapsed() > PATIENCE {
                return Err(BenchError::Manager(format!(
                    "a lease did not move within {PATIENCE:?}, after {done} times"
                )));
            }
            std::thread::sleep(LOOKS);
            done = switches.load(Ordering::Relaxed);
        }
        if done >= told + 1000 {
            told = done;
            progress(format_args!("switch: {done} of {until}"));
        }
    }
    Ok(())
}

/// The calls of the first part, moment by moment.
fn timeline(seen: &[Seen]) -> Timeline {
    let moment = DRAWN / MOMENTS;
    let mut points = Vec::new();
    let drawn = seen.iter().take_while(|s| s.at < DRAWN).count();
    let of = |s: &Seen| (s.at.as_nanos() / moment.as_nanos()) as u32;
    for calls in seen[..drawn].chunk_by(|a, b| of(a) == of(b)) {
        let times: Vec<f64> = calls.iter().map(|s| s.answer.ns as f64).collect();
        let (Some(p50_ns), Some((_, max_ns))) = (stats::median(&times), stats::range(&times))
        else {
            continue;
        };
        let at_s = (f64::from(of(&calls[0])) + 0.5) * moment.as_secs_f64();
        let on_vf = calls[calls.len() - 1].answer.told.vf.is_some();
        points.push(Point { at_s, p50_ns, max_ns, on_vf });
    }
    let crossed = seen[..drawn].iter().filter(|s| s.answer.crossed);
    Timeline { points, switches_s: crossed.map(|s| s.at.as_secs_f64()).collect() }
}

/// What a call takes in the place that was just come to: the median of the next ones.
fn usual(next: &[Seen]) -> Option<u64> {
    let mut times: Vec<u64> =
        next.iter().take(AFTER).take_while(|s| !s.answer.crossed).map(|s| s.answer.ns).collect();
    times.sort_unstable();
    stats::percentile(&times, 500)
}

/// A row for each way.
fn rows(seen: &[Seen], trouble: Trouble) -> Vec<LeasesRow> {
    let one = |on_vf: bool| {
        let of = || seen.iter().filter(move |s| s.answer.told.vf.is_some() == on_vf);
        let ordinary = of().filter(|s| !s.answer.crossed).map(|s| s.answer.ns);
        let mut ordinary: Vec<u64> = ordinary.collect();
        ordinary.sort_unstable();
        let p50 = stats::percentile(&ordinary, 500).unwrap_or(0);
        let crossed = (0..seen.len()).filter(|&i| {
            let a = seen[i].answer;
            a.crossed && a.told.vf.is_some() == on_vf
        });
        let mut added: Vec<u64> = crossed
            .map(|i| seen[i].answer.ns.saturating_sub(usual(&seen[i + 1..]).unwrap_or(p50)))
            .collect();
        added.sort_unstable();
        let at = |thousandths| stats::percentile(&added, thousandths).map(|ns| ns as f64);
        let p99 = stats::percentile(&ordinary, 990).map(|p99| p99.saturating_sub(p50) as f64);
        let mut times: Vec<u64> = of().map(|s| s.answer.ns).collect();
        // What went wrong is of both ways: it stands in one row.
        let of_row = if on_vf { trouble } else { Trouble::default() };
        LeasesRow {
            group: Some(if on_vf { "to a VF" } else { "to software" }.to_owned()),
            clients: Some(1),
            vfs: Some(1),
            switches: Some(added.len() as u64),
            added_p50_ns: at(500),
            added_p99_ns: at(990),
            added_max_ns: at(1000),
            ordinary_p99_ns: p99,
            ..LeasesRow::new(Experiment::Switch, Source::Real)
                .with_times(&mut times)
                .with_trouble(of_row)
        }
    };
    vec![one(true), one(false)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_modeldevice::Told;

    fn seen(at_us: u64, ns: u64, on_vf: bool, crossed: bool) -> Seen {
        let told = Told { vf: on_vf.then_some(0), calls: 1, ns };
        Seen { at: Duration::from_micros(at_us), answer: Answer { ns, told, crossed } }
    }

    #[test]
    fn what_a_switch_adds_is_beyond_the_new_places_median() {
        let mut all: Vec<_> = (0..100).map(|i| seen(i * 100, 60_000, false, false)).collect();
        all.push(seen(10_000, 45_000, true, true));
        all.extend((0..100).map(|i| seen(20_000 + i * 100, 15_000 + i, true, false)));
        all.push(seen(3_000_000, 100_000, false, true));
        let trouble = Trouble { lost: 1, ..Trouble::default() };
        let [to_vf, to_software] = rows(&all, trouble).try_into().unwrap();
        assert_eq!((to_vf.added_p50_ns, to_vf.added_max_ns), (Some(29_969.0), Some(29_969.0)));
        assert_eq!(to_software.added_p99_ns, Some(40_000.0));
        assert_eq!((to_vf.lost, to_software.lost), (Some(1), Some(0)));
        assert_eq!((to_vf.ordinary_p99_ns, to_software.calls), (Some(49.0), 101));
        let t = timeline(&all);
        // 4 ms a moment: the last call is not drawn.
        assert_eq!((t.points.len(), t.switches_s), (6, vec![0.01]));
        assert_eq!((t.points[0].p50_ns, t.points[0].on_vf), (60_000.0, false));
        assert_eq!((t.points[2].max_ns, t.points[2].on_vf), (60_000.0, true));
    }
}
