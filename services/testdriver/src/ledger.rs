//! Which calls were run, written where a service's end does not lose it: in
//! the cell's own data space of `datain`, beyond the results. A call that runs
//! twice runs in the same cell, so it finds itself in its own ledger.
//!
//! Arguments: the mode, three zero bytes, how long to work (u32, µs), the
//! channel's number (u64), the call's number (u64). A ledger of another channel,
//! left there by the one before, begins anew.
//!
//! Results, all u64: the call's number, the cell's tag (number of the first call
//! ever run in it), how many calls have been run in it, then the numbers of the
//! [`KEPT`] that were run before this one, latest first, 0 where there is none.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};
use vfun_sdk::{Args, DriverError, Out};

/// Calls that a cell remembers.
pub const KEPT: usize = 6;
/// Bytes of arguments.
pub const ARGS_BYTES: usize = 24;
/// Bytes of results.
pub const RESULT_BYTES: usize = 8 * (3 + KEPT);

/// Where the ledger begins in the data space, and its words: channel, tag,
/// count, the calls.
const AT: usize = 1024;
const WORDS: usize = 3 + KEPT;

/// The arguments of a call.
pub fn arguments(channel: u64, call: u64, work_us: u32) -> [u8; ARGS_BYTES] {
    let mut bytes = [0; ARGS_BYTES];
    bytes[0] = super::Mode::Ledger as u8;
    bytes[4..8].copy_from_slice(&work_us.to_le_bytes());
    bytes[8..16].copy_from_slice(&channel.to_le_bytes());
    bytes[16..].copy_from_slice(&call.to_le_bytes());
    bytes
}

pub(super) fn enter(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let (work, channel, call) = (args.u32_at(4)?, args.u64_at(8)?, args.u64_at(16)?);
    if out.capacity() < AT + 8 * WORDS {
        return Err(DriverError::bad_args("the cell has no room for a ledger"));
    }
    // SAFETY: the room has at least AT + 8 * WORDS bytes (checked above) and,
    // while the call runs, no other writer on this side.
    let ledger = unsafe { out.as_mut_ptr().add(AT) };
    // SAFETY: as above, for each index below WORDS; unaligned is allowed.
    let get = |i: usize| unsafe { ledger.add(8 * i).cast::<u64>().read_unaligned() };
    // SAFETY: as above.
    let set = |i: usize, v: u64| unsafe { ledger.add(8 * i).cast::<u64>().write_unaligned(v) };
    if get(0) != channel {
        (1..WORDS).for_each(|i| set(i, 0));
        set(1, call);
        set(0, channel);
    }
    let before: Vec<u64> = (0..KEPT).map(|i| get(3 + i)).collect();
    // The call's own entry before its work: one that is killed at it has begun.
    (1..KEPT).rev().for_each(|i| set(3 + i, before[i - 1]));
    set(3, call);
    let count = get(2) + 1;
    set(2, count);
    if work > 0 {
        let (start, time) = (Instant::now(), Duration::from_micros(work.into()));
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }
    let mut results = [0; RESULT_BYTES];
    for (at, word) in [call, get(1), count].into_iter().chain(before).enumerate() {
        results[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
    }
    out.put(&results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_runs_twice_finds_itself() {
        let mut room = [0; 4096];
        let mut run = |channel, call| {
            let mut out = Out::private(&mut room);
            enter(&Args::private(&arguments(channel, call, 0)), &mut out).unwrap();
            let words: Vec<u64> = room[..RESULT_BYTES]
                .chunks(8)
                .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
                .collect();
            words
        };
        assert_eq!(run(9, 5)[..4], [5, 5, 1, 0]);
        assert_eq!(run(9, 6)[..4], [6, 5, 2, 5]);
        assert_eq!(run(9, 6)[..5], [6, 5, 3, 6, 5]);
        assert_eq!(run(8, 7)[..4], [7, 7, 1, 0]);
    }
}
