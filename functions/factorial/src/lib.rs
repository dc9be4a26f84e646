//! The vFunction `factorial`: n! modulo 2^64, computed as often as asked.
//!
//! Arguments: `n` and `repetitions`, each a little-endian u64. Result: n!
//! modulo 2^64, a little-endian u64. 20! is the largest that fits 64 bits; the
//! published measurements compute 51!, whose lowest 64 bits are
//! 18284192274659147776. From 66! on the result is 0. 0 repetitions count as 1.
//!
//! It is there to be measured: every repetition multiplies all n numbers.

use std::hint::black_box;
use vfun_sdk::{Args, DriverError, Out};

/// n! modulo 2^64, computed `repetitions` times.
pub fn factorial(n: u64, repetitions: u64) -> u64 {
    let mut product = 1;
    for _ in 0..repetitions.max(1) {
        product = once(black_box(n));
        black_box(product);
    }
    product
}

#[inline]
fn once(n: u64) -> u64 {
    (2..=n).fold(1, |product: u64, k| product.wrapping_mul(k))
}

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    out.put_u64(factorial(args.u64_at(0)?, args.u64_at(8)?))
}

vfun_sdk::export_function!(
    call,
    name = "factorial",
    version = (1, 0),
    max_args = 16,
    max_result = 8
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (n, want) in [
            (0, 1),
            (1, 1),
            (5, 120),
            (20, 2_432_902_008_176_640_000),
            (51, 18_284_192_274_659_147_776),
            (66, 0),
        ] {
            assert_eq!(factorial(n, 1), want, "{n}!");
            assert_eq!(factorial(n, 1000), want, "{n}! again and again");
        }
        assert_eq!(factorial(5, 0), 120);
    }

    #[test]
    fn the_wrapped_value_is_the_rest_of_the_true_one() {
        // 51! mod 2^64, by taking the rest after each step of exact arithmetic.
        let rest = (1..=51u128).fold(1u128, |p, k| p * k % (1 << 64));
        assert_eq!(u128::from(factorial(51, 1)), rest);
    }

    #[test]
    fn repetitions_are_computed() {
        let time = |repetitions| {
            (0..5)
                .map(|_| {
                    let from = std::time::Instant::now();
                    factorial(51, repetitions);
                    from.elapsed()
                })
                .min()
        };
        assert!(time(100_000) > time(1_000).map(|t| t * 10), "more repetitions take longer");
    }

    #[test]
    fn short_arguments_are_refused() {
        let mut room = [0; 8];
        let e = call(&Args::private(&[0; 15]), &mut Out::private(&mut room)).unwrap_err();
        assert_eq!(e.code, vfun_sdk::abi::BAD_ARGS);
    }
}
