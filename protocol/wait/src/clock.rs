//! Time while waiting, by the processor's cycle counter: read in 8 to 20 ns,
//! without the kernel.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vfun_window::cycles;

static START: OnceLock<(Instant, u64)> = OnceLock::new();
/// Nanoseconds a cycle, times 2^32.
static RATE: OnceLock<u64> = OnceLock::new();

/// Shortest time over which the rate is taken.
const ENOUGH: Duration = Duration::from_micros(200);

/// Remembers a beginning, so that taking the rate costs no waiting later.
pub fn start() {
    START.get_or_init(|| (Instant::now(), cycles()));
}

#[cold]
fn rate() -> u64 {
    *RATE.get_or_init(|| {
        start();
        let &(at, from) = START.get().expect("set above");
        while at.elapsed() < ENOUGH {
            std::thread::sleep(ENOUGH);
        }
        let (ns, n) = (at.elapsed().as_nanos(), cycles().wrapping_sub(from).max(1));
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
