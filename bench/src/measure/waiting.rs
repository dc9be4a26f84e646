//! Null calls in each way to wait.

use super::samples::warm_up;
use super::{Calls, Load, open};
use crate::error::Doing;
use crate::lab::{GO, READY};
use crate::report::Mode;
use crate::{BenchError, Result};
use std::path::Path;
use std::time::{Duration, Instant};
use vfun::{Function, FunctionRequest, Session};
use vfun_window::cycles;

const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(50);
/// Channels of one session: the kernel module lets a file have 64.
const SESSION_CHANNELS: u32 = 50;
/// How long a caller waits for the others.
const TOGETHER: Duration = Duration::from_secs(60);

/// A function of its own session; dropped in this order.
pub(super) struct Null {
    function: Function,
    _session: Session,
}

impl Null {
    pub(super) fn open(calls: &Calls, mode: Mode) -> Result<Self> {
        let session = calls.again(mode.into())?;
        let request = FunctionRequest::new("echo").depth(4).cell_bytes(0);
        Ok(Null { function: open(&session, &request)?, _session: session })
    }

    pub(super) fn call(&self) -> Result<()> {
        Ok(self.function.call_into(&[], &mut []).map(|_| ())?)
    }
}

/// Null calls one after the other for a while.
pub fn load(calls: &mut Calls, mode: Mode, time: Duration, together: bool) -> Result<Load> {
    let clock = *calls.clock();
    let null = Null::open(calls, mode)?;
    warm_up(&clock, WARM, WARM_FOR, || null.call())?;
    if together {
        begin_together()?;
    }
    let mut times = Times::default();
    let (least, from) = (clock.cycles(time), cycles());
    let mut last = from;
    while last.wrapping_sub(from) < least {
        null.call()?;
        let now = cycles();
        times.add(now.wrapping_sub(last));
        last = now;
    }
    let seconds = last.wrapping_sub(from) as f64 * clock.ns_per_cycle() * 1e-9;
    let ns = |p| times.percentile(p) * clock.ns_per_cycle();
    Ok(Load { calls: times.count, seconds, p50_ns: ns(0.5), p99_ns: ns(0.99) })
}

/// Says that this caller is ready, and waits until all may begin.
fn begin_together() -> Result<()> {
    let start = Instant::now();
    std::fs::write(READY, b"").doing(|| format!("cannot make {READY}"))?;
    while !Path::new(GO).exists() {
        if start.elapsed() > TOGETHER {
            return Err(BenchError::Inside(format!("{GO} did not come in {TOGETHER:?}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Functions and the session that they are of; dropped in this order.
pub struct Held {
    _functions: Vec<Function>,
    _session: Session,
}

/// Many active functions, each called once, in as many sessions as they need.
pub fn idle_channels(calls: &mut Calls, channels: u32) -> Result<Vec<Held>> {
    let request = FunctionRequest::new("echo").depth(2).cell_bytes(0);
    let mut held = Vec::new();
    let mut left = channels;
    while left > 0 {
        let some = left.min(SESSION_CHANNELS);
        let session = calls.again(Mode::Hybrid.into())?;
        let one = |_| {
            let function = open(&session, &request)?;
            function.call_into(&[], &mut [])?;
            Ok(function)
        };
        let functions = (0..some).map(one).collect::<Result<_>>()?;
        held.push(Held { _functions: functions, _session: session });
        left -= some;
    }
    Ok(held)
}

/// Steps in an octave of [`Times`].
const STEPS: u64 = 32;

/// Millions of times, in buckets that are 3 % wide.
#[derive(Default)]
struct Times {
    buckets: Vec<u64>,
    count: u64,
}

impl Times {
    fn add(&mut self, time: u64) {
        let octave = u64::from((time / STEPS).max(1).ilog2());
        let bucket = (octave * STEPS + (time >> octave)) as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
    }

    /// The middle of the bucket that holds this part of all.
    fn percentile(&self, part: f64) -> f64 {
        let mut left = (self.count as f64 * part).ceil().max(1.0) as u64;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            if n >= left {
                let bucket = bucket as u64;
                let octave = (bucket / STEPS).saturating_sub(1);
                let step = bucket - octave * STEPS;
                return (((step << octave) as f64) + ((step + 1) << octave) as f64) / 2.0;
            }
            left -= n;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_many_times_are_near() {
        let mut times = Times::default();
        (1..=100_000u64).for_each(|t| times.add(t * 10));
        for (part, right) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.001, 1_000.0)] {
            let got = times.percentile(part);
            assert!((got / right - 1.0).abs() < 0.04, "{part}: {got}");
        }
        let mut few = Times::default();
        [5, 6, 7].into_iter().for_each(|t| few.add(t));
        assert_eq!((few.percentile(0.5), few.count), (6.5, 3));
    }
}
