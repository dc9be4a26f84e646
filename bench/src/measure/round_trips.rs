//! Round trips of nothing: the null call, and the floor beside it.

use super::samples::{chain, percentiles, warm_up};
use super::{Calls, Floor};
use crate::Result;
use crate::report::stats::Percentiles;
use crate::report::{Kind, LatencyRow};
use std::time::Duration;

/// Trips before the first that counts.
const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(20);

/// Rows of the null call and, where memory is shared, of the floor: percentiles of
/// single round trips, both in each round, so that both see the same machine.
pub fn round_trips(
    calls: &mut Calls,
    rounds: u32,
    samples: u32,
    limit: Duration,
) -> Result<Vec<LatencyRow>> {
    let echo = calls.function("echo")?;
    let clock = *calls.clock();
    let (mut floors, mut nulls) = (Vec::new(), Vec::new());
    let mut call = || Ok(echo.call_into(&[], &mut []).map(|_| ())?);
    for _ in 0..rounds {
        if calls.shares_memory() {
            let mut floor = Floor::open(calls.session(), 1)?;
            warm_up(&clock, WARM, WARM_FOR, || floor.trip())?;
            floors.push(percentiles(&clock, chain(&clock, samples, limit, || floor.trip())?));
            // Dropped here: its service no longer spins while calls are timed.
        }
        warm_up(&clock, WARM, WARM_FOR, &mut call)?;
        nulls.push(percentiles(&clock, chain(&clock, samples, limit, &mut call)?));
    }
    let row = |kind| LatencyRow::new(calls.domain(), calls.transport(), kind);
    let p50 = |rounds: &[Percentiles]| rounds.iter().map(|p| p.p50 as f64).collect::<Vec<_>>();
    let null = row(Kind::NullCall).with_percentiles(&nulls);
    let mut rows = vec![null.against(&p50(&nulls), &p50(&floors))];
    if !floors.is_empty() {
        rows.push(row(Kind::Floor).with_percentiles(&floors));
    }
    for row in &mut rows {
        row.calls_per_s = row.p50_ns.filter(|&ns| ns > 0.0).map(|ns| 1e9 / ns);
        row.in_flight = Some(1);
    }
    Ok(rows)
}
