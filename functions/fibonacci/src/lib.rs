//! The vFunction `fibonacci`: the nth Fibonacci number modulo 2^64, computed
//! as often as asked.
//!
//! Arguments: `n` and `repetitions`, each a little-endian u64. Result: F(n)
//! modulo 2^64, a little-endian u64, with F(0) = 0 and F(1) = 1. F(93) =
//! 12200160415121876738, which the published measurements compute, is the
//! largest that fits 64 bits. 0 repetitions count as 1.
//!
//! It is there to be measured: every repetition makes all n additions.

use std::hint::black_box;
use vfun_sdk::{Args, DriverError, Out};

/// F(n) modulo 2^64, computed `repetitions` times.
pub fn fibonacci(n: u64, repetitions: u64) -> u64 {
    let mut number = 0;
    for _ in 0..repetitions.max(1) {
        number = once(black_box(n));
        black_box(number);
    }
    number
}

#[inline]
fn once(n: u64) -> u64 {
    let (mut this, mut next) = (0u64, 1u64);
    for _ in 0..n {
        (this, next) = (next, this.wrapping_add(next));
    }
    this
}

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    out.put_u64(fibonacci(args.u64_at(0)?, args.u64_at(8)?))
}

vfun_sdk::export_function!(
    call,
    name = "fibonacci",
    version = (1, 0),
    max_args = 16,
    max_result = 8
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (n, want) in [(0, 0), (1, 1), (2, 1), (10, 55), (93, 12_200_160_415_121_876_738)] {
            assert_eq!(fibonacci(n, 1), want, "F({n})");
            assert_eq!(fibonacci(n, 1000), want, "F({n}) again and again");
        }
        assert_eq!(fibonacci(10, 0), 55);
    }

    #[test]
    fn the_93rd_is_the_last_that_fits() {
        let exact = |n: u32| (0..n).fold((0u128, 1u128), |(a, b), _| (b, a + b)).0;
        assert_eq!(u128::from(fibonacci(93, 1)), exact(93));
        assert!(exact(94) > u128::from(u64::MAX));
        assert_eq!(fibonacci(94, 1), exact(94) as u64);
    }

    #[test]
    fn repetitions_are_computed() {
        let time = |repetitions| {
            (0..5)
                .map(|_| {
                    let from = std::time::Instant::now();
                    fibonacci(93, repetitions);
                    from.elapsed()
                })
                .min()
        };
        assert!(time(100_000) > time(1_000).map(|t| t * 10), "more repetitions take longer");
    }

    #[test]
    fn short_arguments_are_refused() {
        let mut room = [0; 8];
        assert!(call(&Args::private(&[0; 8]), &mut Out::private(&mut room)).is_err());
    }
}
