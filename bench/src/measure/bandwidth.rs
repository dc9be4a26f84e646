//! Calls that carry data: `sum` reads all of it, `null` none.

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

/// Seconds a call in each round.
type Rounds = Vec<f64>;

fn data(bytes: usize) -> (Vec<u8>, u64) {
    let words = bytes / 8;
    let mut args = Vec::with_capacity(bytes + HEAD.len());
    args.extend_from_slice(&HEAD);
    let mut sum = 0u64;
    for i in 0..words as u64 {
        let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum = sum.wrapping_add(word);
        args.extend_from_slice(&word.to_le_bytes());
    }
    (args, sum)
}

fn check(got: &[u8; 8], wanted: u64) -> Result<()> {
    if u64::from_le_bytes(*got) == wanted {
        return Ok(());
    }
    let got = u64::from_le_bytes(*got).to_string();
    Err(BenchError::Wrong { function: "sum".into(), got, wanted: wanted.to_string() })
}

/// One call with arguments from private memory.
fn copied(sum: &Function, args: &[u8], wanted: u64) -> Result<()> {
    let mut result = [0; 8];
    sum.call_into(args, &mut result)?;
    check(&result, wanted)
}

/// One call with arguments that lie where the service reads them. Filling them is the
/// program's own work and happened before; the cell keeps them, as it is the only one.
fn in_place(sum: &Function, len: usize, wanted: u64) -> Result<()> {
    let mut result = [0; 8];
    sum.borrow()?.call_into(len, &mut result)?;
    check(&result, wanted)
}

fn per_call(clock: &Clock, time: Duration, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    warm_up(clock, 20, time / 4, &mut f)?;
    let (calls, seconds) = rate(clock, time, 1, f)?;
    Ok(seconds / calls as f64)
}

/// Rows of calls with `bytes` of arguments: copied in and, where memory is shared,
/// written in place, once for a function that reads them and once for one that does not.
pub fn bandwidth(calls: &mut Calls, bytes: u64, rounds: u32, time: Duration) -> Result<Vec<LatencyRow>> {
    let clock = *calls.clock();
    let (args, wanted) = data(bytes as usize);
    let request = |name: &str| FunctionRequest::new(name).depth(1).cell_bytes(args.len() as u32);
    let (mut copies, mut places) = (Rounds::new(), Rounds::new());
    let mut unread: Vec<Percentiles> = Vec::new();
    {
        let sum = open(calls.session(), &request("sum"))?;
        for _ in 0..rounds {
            copies.push(per_call(&clock, time, || copied(&sum, &args, wanted))?);
            if calls.shares_memory() {
                // The copy has left the arguments there.
                places.push(per_call(&clock, time, || in_place(&sum, args.len(), wanted))?);
            }
        }
    }
    if calls.shares_memory() {
        let null = open(calls.session(), &request("null"))?;
        null.borrow()?.copy_from_slice(&args.iter().copied().chain([0; 64]).take(null_room(&null)).collect::<Vec<_>>());
        for _ in 0..rounds {
            let mut call = || Ok(null.borrow()?.call_into(args.len(), &mut []).map(|_| ())?);
            warm_up(&clock, UNREAD, time / 4, &mut call)?;
            unread.push(percentiles(&clock, chain(&clock, UNREAD, time * 4, &mut call)?));
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
    let mut rows = vec![row("sum", How::Copied, &copies)];
    if !places.is_empty() {
        rows.push(row("sum", How::InPlace, &places));
    }
    if !unread.is_empty() {
        let seconds: Vec<_> = unread.iter().map(|p| p.p50 as f64 * 1e-9).collect();
        rows.push(row("null", How::InPlace, &seconds).with_percentiles(&unread));
    }
    Ok(rows)
}

fn null_room(null: &Function) -> usize {
    null.borrow().map_or(0, |slot| slot.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_has_the_sum_that_is_checked() {
        let (args, sum) = data(64);
        assert_eq!((args.len(), &args[..8]), (72, &HEAD[..]));
        let words = args[8..].as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b));
        assert_eq!(words.fold(0u64, u64::wrapping_add), sum);
        assert!(check(&sum.to_le_bytes(), sum).is_ok());
        let e = check(&[0; 8], sum).unwrap_err().to_string();
        assert!(e.contains("sum gave 0"), "{e}");
    }
}
