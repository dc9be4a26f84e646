//! What a VF gains, by the rate and size of calls.

use super::caller::{Caller, How};
use super::lab::{Lab, Times};
use super::{LeasesPlan, Where, progress};
use crate::Result;
use crate::lab::HOST_CLIENT;
use crate::leases::{Pace, Trouble};
use crate::report::{Experiment, LeasesReport, LeasesRow, Source, stats};
use std::time::{Duration, Instant};
use vfun::{Preference, WaitMode};

/// Sizes, bytes. Software takes 2 µs and a nanosecond a byte, a VF 20 µs and a tenth of
/// that: small calls are better off in software.
const BYTES: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
const TIMES: Times = Times { software: [2e3, 1.0, 0.0], hardware: [20e3, 0.1, 0.0] };
/// Calls a second; `None`: one after the other.
const RATES: [Option<f64>; 3] = [Some(100.0), Some(1000.0), None];
/// Calls that do not count.
const WARM: u32 = 5;

pub fn gain(at: &Where, plan: &LeasesPlan, report: &mut LeasesReport) -> Result<()> {
    progress("gain: starting a manager");
    let lab = Lab::start(at, &[], 1, TIMES)?;
    let seconds = plan.seconds(0.4, 0.1);
    let least = if plan.scale < super::SHORT { 1 } else { 0 };
    for bytes in BYTES {
        progress(format_args!("gain: calls of {bytes} bytes"));
        let open = |preference| {
            let how = How {
                client: HOST_CLIENT,
                preference,
                bytes: bytes as usize,
                units: 0,
                wait: WaitMode::Hybrid,
            };
            Caller::open(&lab, &how)
        };
        let mut both = [open(Preference::Software)?, open(Preference::Hardware)?];
        // A short run leaves the lowest rate out: it would have a handful of calls.
        let first = report.rows.len();
        for rate in &RATES[least..] {
            let (mut soft, mut hard, mut boosts, mut calls) = (vec![], vec![], vec![], 0);
            for repeat in 0..plan.repeats {
                let [s, h] = &mut both;
                let mut medians = [0.0; 2];
                // In turns, so that neither is always the first.
                let turns = [(0, s), (1, h)];
                let turns: Vec<_> =
                    if repeat % 2 == 0 { turns.into() } else { turns.into_iter().rev().collect() };
                for (place, caller) in turns {
                    let times = paced(caller, *rate, seconds, plan.seed + u64::from(repeat));
                    calls += times.len() as u64;
                    medians[place] = stats::median(&times).unwrap_or(0.0);
                }
                soft.push(medians[0]);
                hard.push(medians[1]);
                if medians[0] > 0.0 {
                    boosts.push((medians[0] - medians[1]) / medians[0]);
                }
            }
            report.rows.push(LeasesRow {
                per_s: *rate,
                bytes: Some(bytes),
                calls,
                clients: Some(1),
                vfs: Some(1),
                soft_ns: stats::median(&soft),
                hard_ns: stats::median(&hard),
                boost: stats::median(&boosts),
                ..LeasesRow::new(Experiment::Gain, Source::Real)
            });
        }
        // What went wrong is of all rates of this size: it stands in the first row.
        let mut trouble = Trouble::default();
        for caller in both {
            trouble += caller.close()?;
        }
        for (i, row) in report.rows[first..].iter_mut().enumerate() {
            let of_row = if i == 0 { trouble } else { Trouble::default() };
            *row = row.clone().with_trouble(of_row);
        }
    }
    Ok(())
}

/// Times of calls, ns.
fn paced(caller: &mut Caller, rate: Option<f64>, seconds: f64, seed: u64) -> Vec<f64> {
    for _ in 0..WARM {
        caller.call();
    }
    let mut times = Vec::new();
    let (start, end) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut pace = rate.map(|rate| Pace::new(seed, 0, rate));
    while start.elapsed() < end {
        if let Some(pace) = &mut pace {
            std::thread::sleep(pace.due().saturating_sub(start.elapsed()));
        }
        times.extend(caller.call().map(|a| a.ns as f64));
    }
    times
}
