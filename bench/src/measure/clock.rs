//! The processor's cycle counter as a clock: reading it costs 8 to 20 ns where the
//! system's clock takes 25 (90 in an emulated guest).

use std::time::{Duration, Instant};
use vfun_window::cycles;

/// Time over which the counter's rate is taken.
const SPAN: Duration = Duration::from_millis(25);
/// Readings at each end, of which the tightest counts.
const READINGS: u32 = 32;

/// The counter's rate against the system's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ns_per_cycle: f64,
}

/// Both clocks at one moment, as nearly as can be.
fn both() -> (Instant, u64) {
    let mut best = (u64::MAX, Instant::now(), 0);
    for _ in 0..READINGS {
        let before = cycles();
        let now = Instant::now();
        let took = cycles().wrapping_sub(before);
        if took < best.0 {
            best = (took, now, before.wrapping_add(took / 2));
        }
    }
    (best.1, best.2)
}

impl Clock {
    /// Takes the rate; 25 ms.
    pub fn calibrate() -> Self {
        let (from, first) = both();
        while from.elapsed() < SPAN {
            std::thread::sleep(SPAN / 5);
        }
        let (to, last) = both();
        let cycles = last.wrapping_sub(first).max(1);
        Clock { ns_per_cycle: (to - from).as_nanos() as f64 / cycles as f64 }
    }

    /// A clock by another counter, which runs so many times as fast.
    #[must_use]
    pub fn times(&self, rate: f64) -> Self {
        Clock { ns_per_cycle: self.ns_per_cycle / rate }
    }

    pub fn ns_per_cycle(&self) -> f64 {
        self.ns_per_cycle
    }

    /// How long so many cycles last.
    #[inline]
    pub fn ns(&self, cycles: u64) -> u64 {
        (cycles as f64 * self.ns_per_cycle).round() as u64
    }

    /// A time as cycles.
    pub fn cycles(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_cycle) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_and_is_the_same_each_time() {
        let (a, b) = (Clock::calibrate(), Clock::calibrate());
        assert!((a.ns_per_cycle() / b.ns_per_cycle() - 1.0).abs() < 0.01, "{a:?} {b:?}");
        let (from, first) = (Instant::now(), cycles());
        std::thread::sleep(Duration::from_millis(20));
        let (real, counted) = (from.elapsed(), a.ns(cycles().wrapping_sub(first)));
        let ratio = counted as f64 / real.as_nanos() as f64;
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
        let there_and_back = a.ns(a.cycles(Duration::from_micros(500)));
        assert!((499_990..=500_010).contains(&there_and_back), "{there_and_back}");
    }
}
