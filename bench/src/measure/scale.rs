//! Calls of few among many channels.

use super::Clock;
use super::samples::{chain, percentiles, warm_up};
use crate::method::SLICE;
use crate::report::stats::Percentiles;
use crate::{BenchError, Result};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use vfun::Function;
use vfun_window::cycles;

const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(2);
/// Most calls of a slice.
const CALLS: u32 = 50_000;
/// Time of several callers at once.
const CALLS_FOR: Duration = Duration::from_millis(60);
/// Calls with pauses in a slice, and a pause: both sides are asleep by then.
const PACED: u32 = 5;
const PAUSE: Duration = Duration::from_millis(3);

fn null_call(function: &Function) -> Result<()> {
    Ok(function.call_into(&[], &mut []).map(|_| ())?)
}

/// Null calls of one function, one after the other.
///
/// # Errors
/// [`BenchError::Vfun`]: a call failed.
pub fn null_calls(clock: &Clock, function: &Function) -> Result<Percentiles> {
    warm_up(clock, WARM, WARM_FOR, || null_call(function))?;
    let samples = chain(clock, CALLS, SLICE, || null_call(function))?;
    Ok(percentiles(clock, samples))
}

/// Null calls of one function with pauses between them, so that each wakes the service.
///
/// # Errors
/// [`BenchError::Vfun`]: a call failed.
pub fn paced_calls(clock: &Clock, function: &Function) -> Result<Percentiles> {
    let mut samples = Vec::with_capacity(PACED as usize);
    for _ in 0..PACED {
        std::thread::sleep(PAUSE);
        let from = cycles();
        null_call(function)?;
        samples.push(cycles().wrapping_sub(from));
    }
    Ok(percentiles(clock, samples))
}

/// Null calls of several at once.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long each call took.
    pub of_calls: Percentiles,
    /// All of them together.
    pub calls_per_s: f64,
}

/// Each of these functions is called by a thread of its own, one call after the other,
/// all at once for [`CALLS_FOR`] or longer.
///
/// # Errors
/// [`BenchError::Vfun`]: a call failed.
pub fn busy_callers(clock: &Clock, functions: &[&Function]) -> Result<Times> {
    let start = Barrier::new(functions.len());
    let call = |function: &Function| -> Result<(Vec<u64>, f64)> {
        let warm = warm_up(clock, WARM, WARM_FOR, || null_call(function));
        // Whoever fails must not keep the others waiting.
        start.wait();
        warm?;
        let mut samples = Vec::with_capacity(CALLS as usize);
        let (from, mut last) = (Instant::now(), cycles());
        while from.elapsed() < 2 * CALLS_FOR {
            null_call(function)?;
            let now = cycles();
            samples.push(now.wrapping_sub(last));
            last = now;
        }
        let per_s = samples.len() as f64 / from.elapsed().as_secs_f64();
        Ok((samples, per_s))
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = functions.iter().map(|f| scope.spawn(|| call(f))).collect();
        let died = |_| Err(BenchError::Inside("a calling thread died".into()));
        threads.into_iter().map(|t| t.join().unwrap_or_else(died)).collect::<Result<Vec<_>>>()
    })?;
    let calls_per_s = all.iter().map(|(_, per_s)| per_s).sum();
    let samples = all.into_iter().flat_map(|(samples, _)| samples).collect();
    Ok(Times { of_calls: percentiles(clock, samples), calls_per_s })
}
