//! The published experiment's work: calls of `factorial` and `fibonacci`, whose results
//! are checked, so that no compiler and no fault can leave the work out.

use crate::report::Function;
use crate::{BenchError, Result};
use std::time::{Duration, Instant};

/// How long calls are made before the timed ones. After them the service is awake, and both
/// sides have learned how long to wait.
const WARM_FOR: Duration = Duration::from_millis(1);
/// Above so many repetitions, some milliseconds, one call is longer than a slice.
const WARM_REPETITIONS: u64 = 200_000;

/// What can be called with a function's arguments.
pub trait Callee {
    /// One call, its results into `result`: how many bytes.
    fn call(&mut self, args: &[u8], result: &mut [u8]) -> Result<usize>;
}

impl Callee for &vfun::Function {
    #[inline]
    fn call(&mut self, args: &[u8], result: &mut [u8]) -> Result<usize> {
        Ok(self.call_into(args, result)?)
    }
}

/// The number that the published experiment computes with: 51! and the 93rd Fibonacci number.
fn n(function: Function) -> u64 {
    match function {
        Function::Factorial => 51,
        Function::Fibonacci => 93,
    }
}

/// The right result: 51! modulo 2^64, or the 93rd Fibonacci number, which just fits.
pub fn expected(function: Function) -> u64 {
    match function {
        Function::Factorial => (2..=51u64).fold(1, u64::wrapping_mul),
        Function::Fibonacci => (0..93).fold((0u64, 1u64), |(a, b), _| (b, a.wrapping_add(b))).0,
    }
}

/// The arguments of a call.
pub fn arguments(function: Function, repetitions: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[..8].copy_from_slice(&n(function).to_le_bytes());
    args[8..].copy_from_slice(&repetitions.to_le_bytes());
    args
}

#[inline]
fn checked(callee: &mut impl Callee, function: Function, args: &[u8], wanted: u64) -> Result<()> {
    let mut result = [0; 8];
    let len = callee.call(args, &mut result)?;
    if len == 8 && u64::from_le_bytes(result) == wanted {
        return Ok(());
    }
    Err(BenchError::wrong(function, &result[..len.min(8)], wanted))
}

/// Calls of the work that follows, if a few of them take no longer than a slice; else one of
/// little work, which wakes the service.
fn warm_up(
    callee: &mut impl Callee,
    function: Function,
    repetitions: u64,
    wanted: u64,
) -> Result<()> {
    let (least, most) = (arguments(function, 1), arguments(function, repetitions));
    checked(callee, function, &least, wanted)?;
    if repetitions > WARM_REPETITIONS {
        return Ok(());
    }
    let start = Instant::now();
    while start.elapsed() < WARM_FOR {
        checked(callee, function, &most, wanted)?;
    }
    Ok(())
}

/// Seconds for `iterations` calls of `repetitions` each.
pub fn seconds(
    mut callee: impl Callee,
    function: Function,
    repetitions: u64,
    iterations: u64,
) -> Result<f64> {
    let wanted = expected(function);
    warm_up(&mut callee, function, repetitions, wanted)?;
    let args = arguments(function, repetitions);
    let start = Instant::now();
    for _ in 0..iterations {
        checked(&mut callee, function, &args, wanted)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64, u64);
    impl Callee for Fixed {
        fn call(&mut self, _: &[u8], result: &mut [u8]) -> Result<usize> {
            self.1 += 1;
            result.copy_from_slice(&self.0.to_le_bytes());
            Ok(8)
        }
    }

    #[test]
    fn the_published_values() {
        assert_eq!(expected(Function::Factorial), 18_284_192_274_659_147_776);
        assert_eq!(expected(Function::Fibonacci), 12_200_160_415_121_876_738);
        assert_eq!(arguments(Function::Fibonacci, 258)[..10], [93, 0, 0, 0, 0, 0, 0, 0, 2, 1]);
    }

    #[test]
    fn a_wrong_result_is_no_measurement() {
        let e = seconds(Fixed(3, 0), Function::Factorial, 1, 5).unwrap_err().to_string();
        assert!(e.contains("factorial gave 3 where 18284192274659147776 is right"), "{e}");
        let right = expected(Function::Fibonacci);
        assert!(seconds(Fixed(right, 0), Function::Fibonacci, 1, 5).unwrap() >= 0.0);
        // A long call is not made twice.
        struct Count<'a>(&'a mut u64);
        impl Callee for Count<'_> {
            fn call(&mut self, args: &[u8], result: &mut [u8]) -> Result<usize> {
                *self.0 += u64::from(args[8..] == (WARM_REPETITIONS + 1).to_le_bytes());
                Fixed(expected(Function::Factorial), 0).call(args, result)
            }
        }
        let mut long = 0;
        seconds(Count(&mut long), Function::Factorial, WARM_REPETITIONS + 1, 2).unwrap();
        assert_eq!(long, 2);
    }
}
