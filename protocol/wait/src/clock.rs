//! Time while waiting, by the processor's cycle counter: read in 8 to 20 ns,
//! without the kernel.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vfun_window::cycles;

static START: OnceLock<Reading> = OnceLock::new();
/// Nanoseconds a cycle, times 2^32.
static RATE: OnceLock<u64> = OnceLock::new();

/// Shortest time over which the rate is taken.
const ENOUGH: Duration = Duration::from_micros(200);

/// How often both clocks are read for one moment, to find one at which the thread did not rest
/// between them.
const TRIES: usize = 8;

/// The two clocks at one moment.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    cycles: u64,
    /// Cycles within which both were read: how wrong the two can be to each other.
    within: u64,
}

impl Reading {
    fn once() -> Reading {
        let before = cycles();
        let at = Instant::now();
        Reading { at, cycles: before, within: cycles().wrapping_sub(before) }
    }

    /// The best of some: a thread that loses its processor between two clocks would give the
    /// process a wrong rate for all its life.
    fn take() -> Reading {
        Reading::best((0..TRIES).map(|_| Reading::once()))
    }

    fn best(readings: impl Iterator<Item = Reading>) -> Reading {
        readings.min_by_key(|r| r.within).expect("at least one reading")
    }
}

/// Remembers a beginning, so that taking the rate costs no waiting later.
pub fn start() {
    START.get_or_init(Reading::take);
}

#[cold]
fn rate() -> u64 {
    *RATE.get_or_init(|| {
        start();
        let from = START.get().expect("set above");
        while from.at.elapsed() < ENOUGH {
            std::thread::sleep(ENOUGH);
        }
        let to = Reading::take();
        let ns = to.at.duration_since(from.at).as_nanos();
        let n = to.cycles.wrapping_sub(from.cycles).max(1);
        u64::try_from((ns << 32) / u128::from(n)).unwrap_or(u64::MAX).max(1)
    })
}

/// Nanoseconds in a number of cycles.
#[inline]
pub fn ns(cycles: u64) -> u64 {
    let rate = RATE.get().copied().unwrap_or_else(rate);
    ((u128::from(cycles) * u128::from(rate)) >> 32) as u64
}

/// Nanoseconds since some moment in this process. May go back by a little
/// where the counters of two processors differ.
#[inline]
pub fn now() -> u64 {
    ns(cycles())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_between_two_clocks_is_not_taken() {
        let (a, b) = (Reading::once(), Reading::once());
        let rested = Reading { within: 1 << 30, ..a };
        let quick = Reading { within: 100, ..b };
        for both in [[rested, quick], [quick, rested]] {
            assert_eq!(Reading::best(both.into_iter()).within, 100);
        }
    }

    #[test]
    fn time_passes_at_the_rate_taken() {
        start();
        // This thread may rest between two of these, so that one interval is too short for
        // sure, and one too long.
        let outer = Instant::now();
        let from = now();
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        let least = inner.elapsed().as_nanos() as u64;
        let got = now().wrapping_sub(from);
        let most = outer.elapsed().as_nanos() as u64;
        assert!(got > least / 2 && got < most * 2, "{got}, between {least} and {most}");
    }
}
