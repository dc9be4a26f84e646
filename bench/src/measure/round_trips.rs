//! Round trips of nothing: the null call, and what it stands on.

use super::samples::{chain, percentiles, warm_up};
use super::{Calls, Floor, Trip, bells, waiting};
use crate::Result;
use crate::report::stats::Percentiles;
use std::time::Duration;

/// Trips before the first that counts.
const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(3);

/// Percentiles of single round trips, as many as the time allows.
pub fn trips(calls: &mut Calls, of: &Trip, samples: u32, limit: Duration) -> Result<Percentiles> {
    let clock = *calls.clock();
    let timed = |trip: &mut dyn FnMut() -> Result<()>| -> Result<Percentiles> {
        warm_up(&clock, WARM, WARM_FOR, &mut *trip)?;
        Ok(percentiles(&clock, chain(&clock, samples, limit, trip)?))
    };
    match of {
        // Dropped before a call is timed: its service no longer spins then.
        Trip::Floor => {
            let mut floor = Floor::open(calls.session(), 1)?;
            timed(&mut || floor.trip())
        }
        Trip::Null => {
            let echo = calls.function("echo")?;
            timed(&mut || Ok(echo.call_into(&[], &mut []).map(|_| ())?))
        }
        Trip::Mode(mode) => {
            let null = waiting::Null::open(calls, *mode)?;
            timed(&mut || null.call())
        }
        Trip::Bell(device) => {
            let mut bell = bells::Trips::open(device.as_ref())?;
            timed(&mut || bell.trip())
        }
    }
}
