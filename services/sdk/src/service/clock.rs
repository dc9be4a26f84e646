//! Durations while spinning, in cycles: read in 8 to 20 ns, without the kernel.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vfun_window::cycles;

static START: OnceLock<(Instant, u64)> = OnceLock::new();
static PER_MS: OnceLock<u64> = OnceLock::new();

/// Shortest time over which the rate is taken.
const ENOUGH: Duration = Duration::from_micros(200);

/// Remembers when the process began, so that the rate costs no waiting later.
pub fn start() {
    START.get_or_init(|| (Instant::now(), cycles()));
}

/// Cycles in a duration.
pub fn cycles_in(d: Duration) -> u64 {
    let per_ms = *PER_MS.get_or_init(|| {
        start();
        let &(at, from) = START.get().expect("set above");
        while at.elapsed() < ENOUGH {
            std::thread::sleep(ENOUGH);
        }
        let (ns, n) = (at.elapsed().as_nanos() as u64, cycles().wrapping_sub(from));
        ((u128::from(n) * 1_000_000 / u128::from(ns.max(1))) as u64).max(1)
    });
    (u128::from(per_ms) * d.as_nanos() / 1_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_pass_at_the_rate_taken() {
        start();
        let want = cycles_in(Duration::from_millis(20));
        let from = cycles();
        std::thread::sleep(Duration::from_millis(20));
        let got = cycles().wrapping_sub(from);
        assert!(got > want / 2 && got < want * 20, "{got} against {want}");
    }
}
