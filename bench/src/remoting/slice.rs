//! What a slice comes to.

use crate::Result;
use crate::measure::Clock;
use crate::report::stats;
use std::time::Duration;
use vfun_window::cycles;

/// Of the times that were taken in a slice, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub p50: f64,
    pub p99: f64,
    /// How many there were.
    pub times: u32,
}

/// How many times are taken in a slice, at most, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub most: u32,
    pub time: Duration,
}

impl Slice {
    /// Of times; none without any.
    pub fn of(mut times: Vec<f64>) -> Option<Slice> {
        times.sort_by(f64::total_cmp);
        let p50 = stats::median(&times)?;
        let p99 = times[(times.len() * 99).div_ceil(100).max(1) - 1];
        Some(Slice { p50, p99, times: times.len() as u32 })
    }

    /// Times of what says by itself how long it took, ns.
    pub fn told(effort: Effort, mut f: impl FnMut() -> Result<f64>) -> Result<Option<Slice>> {
        let from = std::time::Instant::now();
        let mut times = Vec::with_capacity(effort.most as usize);
        while times.len() < effort.most as usize {
            times.push(f()?);
            if from.elapsed() >= effort.time {
                break;
            }
        }
        Ok(Slice::of(times))
    }

    /// Times of `f`, of which so many are timed together: a clock costs more than some calls.
    pub fn timed(
        clock: &Clock,
        effort: Effort,
        together: u32,
        mut f: impl FnMut() -> Result<()>,
    ) -> Result<Option<Slice>> {
        let all = clock.cycles(effort.time);
        let from = cycles();
        let mut last = from;
        let mut times = Vec::with_capacity(effort.most as usize);
        while times.len() < effort.most as usize && last.wrapping_sub(from) <= all {
            for _ in 0..together {
                f()?;
            }
            let now = cycles();
            let took = now.wrapping_sub(last) as f64 * clock.ns_per_cycle();
            times.push(took / f64::from(together));
            last = now;
        }
        Ok(Slice::of(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_timed() {
        let all = Slice::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!((all.p50, all.p99, all.times), (100.5, 198.0, 200));
        assert_eq!(Slice::of(vec![7.0]), Some(Slice { p50: 7.0, p99: 7.0, times: 1 }));
        assert_eq!(Slice::of(vec![]), None);
    }

    #[test]
    fn an_effort_ends() {
        let few = Effort { most: 3, time: Duration::from_secs(60) };
        let mut calls = 0;
        let mut count = || {
            calls += 1;
            Ok(())
        };
        let clock = Clock::calibrate();
        assert_eq!(Slice::timed(&clock, few, 4, &mut count).unwrap().unwrap().times, 3);
        assert_eq!(calls, 12);
        let short = Effort { most: 3, time: Duration::ZERO };
        assert_eq!(Slice::told(short, || Ok(1.0)).unwrap().unwrap().times, 1);
    }
}
