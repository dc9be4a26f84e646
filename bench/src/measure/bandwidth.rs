//! Calls that carry data: `sum` reads all of it, `null` none.
//!
//! For `sum` a program's whole way is timed: it makes its data anew for each call,
//! either in memory of its own, from where it is copied into the window, or where the
//! service will read it. So both write the window once, and the difference is the copy.

use super::samples::{chain, percentiles, rate, warm_up};
use super::{Calls, Clock, open};
use crate::report::stats::Percentiles;
use crate::report::{How, Kind, LatencyRow};
use crate::{BenchError, Result};
use std::time::Duration;
use vfun::{Function, FunctionRequest};

/// `sum`'s arguments before the array: the kind of its numbers, u64.
const HEAD: [u8; 8] = [4, 0, 0, 0, 0, 0, 0, 0];
/// Single calls for the percentiles of what is not read.
const UNREAD: u32 = 4_000;

/// Makes the arguments of `sum`: the numbers from `seed` on; their sum.
fn make(args: &mut [u8], seed: u64) -> u64 {
    let (head, array) = args.split_at_mut(HEAD.len());
    head.copy_from_slice(&HEAD);
    let words = array.as_chunks_mut::<8>().0;
    let count = words.len() as u64;
    for (i, word) in words.iter_mut().enumerate() {
        *word = seed.wrapping_add(i as u64).to_le_bytes();
    }
    let ends = u128::from(count) * u128::from(count.saturating_sub(1)) / 2;
    seed.wrapping_mul(count).wrapping_add(ends as u64)
}

fn check(got: &[u8; 8], wanted: u64) -> Result<()> {
    if u64::from_le_bytes(*got) == wanted {
        return Ok(());
    }
    let got = u64::from_le_bytes(*got).to_string();
    Err(BenchError::Wrong { function: "sum".into(), got, wanted: wanted.to_string() })
}

/// Numbers that make each call's data different.
struct Sum<'a> {
    function: &'a Function,
    seed: u64,
}

impl Sum<'_> {
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.seed
    }

    /// One call with data made in `args` and copied from there.
    fn copied(&mut self, args: &mut [u8]) -> Result<()> {
        let wanted = make(args, self.next());
        let mut result = [0; 8];
        self.function.call_into(args, &mut result)?;
        check(&result, wanted)
    }

    /// One call with `len` bytes of data made where the service reads them.
    fn in_place(&mut self, len: usize) -> Result<()> {
        let seed = self.next();
        let mut slot = self.function.borrow()?;
        let wanted = make(&mut slot[..len], seed);
        let mut result = [0; 8];
        slot.call_into(len, &mut result)?;
        check(&result, wanted)
    }
}

fn per_call(clock: &Clock, time: Duration, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    warm_up(clock, 20, time / 4, &mut f)?;
    let (calls, seconds) = rate(clock, time, 1, f)?;
    Ok(seconds / calls as f64)
}

/// Percentiles of calls whose `len` bytes of arguments are in place and nobody reads.
fn unread(null: &Function, clock: &Clock, len: usize, time: Duration) -> Result<Percentiles> {
    let mut call = || Ok(null.borrow()?.call_into(len, &mut []).map(|_| ())?);
    warm_up(clock, UNREAD, time / 4, &mut call)?;
    Ok(percentiles(clock, chain(clock, UNREAD, time * 4, call)?))
}

/// Rows of calls with `bytes` of data: copied in and, where memory is shared, made in
/// place, once for a function that reads it and once for one that does not.
pub fn bandwidth(
    calls: &mut Calls,
    bytes: u64,
    rounds: u32,
    time: Duration,
) -> Result<Vec<LatencyRow>> {
    let clock = *calls.clock();
    let len = bytes as usize + HEAD.len();
    let request = |name: &str| FunctionRequest::new(name).depth(1).cell_bytes(len as u32);
    let (mut copied, mut in_place, mut not_read) = (Vec::new(), Vec::new(), Vec::new());
    let mut args = vec![0; len];
    {
        let function = open(calls.session(), &request("sum"))?;
        let mut sum = Sum { function: &function, seed: 0 };
        for _ in 0..rounds {
            copied.push(per_call(&clock, time, || sum.copied(&mut args))?);
            if calls.shares_memory() {
                in_place.push(per_call(&clock, time, || sum.in_place(len))?);
            }
        }
    }
    if calls.shares_memory() {
        let null = open(calls.session(), &request("null"))?;
        make(&mut null.borrow()?[..len], 0);
        for _ in 0..rounds {
            not_read.push(unread(&null, &clock, len, time)?);
        }
    }
    let row = |function: &str, how, seconds: &[f64]| {
        let per_s: Vec<_> = seconds.iter().map(|s| bytes as f64 / s).collect();
        let ns: Vec<_> = seconds.iter().map(|s| s * 1e9).collect();
        LatencyRow::new(calls.domain(), calls.transport(), Kind::Bandwidth)
            .of_function(function)
            .with_bytes_per_s(bytes, Some(how), &per_s)
            .with_p50_ns(&ns)
    };
    let mut rows = vec![row("sum", How::Copied, &copied)];
    if !in_place.is_empty() {
        rows.push(row("sum", How::InPlace, &in_place));
    }
    if !not_read.is_empty() {
        let mut row = row("null", How::InPlace, &[]).with_percentiles(&not_read);
        // What nobody reads does not move, so it has no bandwidth.
        row.bytes_per_s = None;
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_has_the_sum_that_is_checked() {
        for (bytes, seed) in [(0, 5), (8, 7), (4096, u64::MAX - 3)] {
            let mut args = vec![0xff; bytes + 8];
            let sum = make(&mut args, seed);
            assert_eq!(args[..8], HEAD);
            let words = args[8..].as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b));
            assert_eq!(words.fold(0u64, u64::wrapping_add), sum);
        }
        assert!(check(&7u64.to_le_bytes(), 7).is_ok());
        let e = check(&[0; 8], 7).unwrap_err().to_string();
        assert!(e.contains("sum gave 0 where 7 is right"), "{e}");
    }
}
