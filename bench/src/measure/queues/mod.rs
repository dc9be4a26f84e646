//! Entries that go one way between two threads of this process, through shared
//! memory: in a queue, in the ring of a port, in the fastest ring that the machine
//! bears, and as bare lines.

mod lanes;
mod packets;

use super::Clock;
use super::helper::in_place;
use super::samples::{chain, percentiles, rate, warm_up};
use crate::report::stats::Percentiles;
use crate::{BenchError, Result};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use vfun_window::{cycles, pause};

pub use lanes::{In, Lane, Line, Out, Queue, Ring};
pub use packets::Packets;

/// Trips before the first that counts.
const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(2);
/// Looks in vain after which the other thread may need this processor.
const LOOKS: u32 = 1 << 12;

/// Counts looks in vain, and gives way now and then.
#[derive(Default)]
struct Vain(u32);

impl Vain {
    #[inline]
    fn wait(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(LOOKS) {
            thread::yield_now();
        }
        pause();
    }
}

/// What goes wrong in the other thread, as its end says it.
fn joined<T>(ended: thread::Result<Result<T>>) -> Result<T> {
    ended.unwrap_or_else(|_| Err(BenchError::Driver("the other thread died".into())))
}

/// Waits until a batch was taken, or it is told to stop: `None`.
#[inline]
fn take<I: In>(inn: &mut I, to: &mut [I::Item], stop: &AtomicBool) -> Result<Option<usize>> {
    let mut vain = Vain::default();
    loop {
        match inn.take(to)? {
            0 if stop.load(Ordering::Relaxed) => return Ok(None),
            0 => vain.wait(),
            n => return Ok(Some(n)),
        }
    }
}

/// Sends each entry back, until told to stop.
fn echo<L: Lane>(mut inn: L::In, mut out: L::Out, stop: &AtomicBool) -> Result<()> {
    let mut one = [L::blank()];
    while take(&mut inn, &mut one, stop)?.is_some() {
        out.put(black_box(&one))?;
    }
    Ok(())
}

/// Round trips of one entry, to a thread on the processor `there` and back.
///
/// # Errors
/// [`BenchError`]: no memory, or an end of a queue says that it is broken.
pub fn entry_trips<L: Lane>(
    clock: &Clock,
    there: Option<usize>,
    (samples, limit): (u32, Duration),
) -> Result<Percentiles> {
    let ((mut out, theirs), (back, mut inn)) = (L::open()?, L::open()?);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = in_place(scope, there, || echo::<L>(theirs, back, &stop));
        let mut one = [L::blank()];
        let mut trip = || {
            out.put(black_box(&one))?;
            take(&mut inn, &mut one, &stop).map(|_| ())
        };
        let taken = warm_up(clock, WARM, WARM_FOR, &mut trip)
            .and_then(|()| chain(clock, samples, limit, &mut trip));
        stop.store(true, Ordering::Relaxed);
        joined(other.join())?;
        Ok(percentiles(clock, taken?))
    })
}

/// Puts whole batches in, until told to stop.
fn pour<L: Lane>(mut out: L::Out, batch: usize, stop: &AtomicBool) -> Result<()> {
    let all = vec![L::blank(); batch];
    let mut vain = Vain::default();
    while !stop.load(Ordering::Relaxed) {
        let mut left = black_box(&all[..]);
        while !left.is_empty() && !stop.load(Ordering::Relaxed) {
            match out.put(left)? {
                0 => vain.wait(),
                n => left = &left[n..],
            }
        }
    }
    Ok(())
}

/// Entries a second, from a thread on the processor `there` to this one, at most
/// `batch` at a time at both ends.
///
/// # Errors
/// As [`entry_trips`].
pub fn entries_per_s<L: Lane>(
    clock: &Clock,
    there: Option<usize>,
    batch: usize,
    time: Duration,
) -> Result<f64> {
    let (out, mut inn) = L::open()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = in_place(scope, there, || pour::<L>(out, batch, &stop));
        let mut batch = vec![L::blank(); batch];
        let mut count = |limit: u64| -> Result<(u64, u64)> {
            let (from, mut entries, mut vain) = (cycles(), 0, Vain::default());
            loop {
                for _ in 0..64 {
                    match inn.take(&mut batch)? {
                        0 => vain.wait(),
                        n => entries += n as u64,
                    }
                    black_box(&batch);
                }
                let took = cycles().wrapping_sub(from);
                if took >= limit {
                    return Ok((entries, took));
                }
            }
        };
        let counted = count(clock.cycles(WARM_FOR)).and_then(|_| count(clock.cycles(time)));
        stop.store(true, Ordering::Relaxed);
        joined(other.join())?;
        let (entries, took) = counted?;
        Ok(entries as f64 / (took as f64 * clock.ns_per_cycle() * 1e-9))
    })
}

/// Looks between two readings of the counter.
const VAIN_LOOKS: u32 = 256;

/// What it takes to find that nothing came, ns.
///
/// # Errors
/// [`BenchError`]: no memory.
pub fn empty_look_ns<L: Lane>(clock: &Clock, time: Duration) -> Result<f64> {
    let (_out, mut inn) = L::open()?;
    let mut to = [L::blank()];
    let mut look = || match inn.take(black_box(&mut to))? {
        0 => Ok(()),
        n => Err(BenchError::Driver(format!("{n} entries came that nobody sent"))),
    };
    warm_up(clock, WARM, WARM_FOR, &mut look)?;
    let (looks, seconds) = rate(clock, time, VAIN_LOOKS, &mut look)?;
    Ok(seconds * 1e9 / looks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of<L: Lane>() {
        let clock = Clock::calibrate();
        let (samples, limit) = (500, Duration::from_secs(5));
        let trips = entry_trips::<L>(&clock, None, (samples, limit)).unwrap();
        assert!(trips.p50 > 0 && trips.p50 <= trips.p99);
        for batch in [1, 8, 32] {
            let time = Duration::from_millis(5);
            // None at all where the other thread had no processor meanwhile.
            assert!(entries_per_s::<L>(&clock, None, batch, time).unwrap().is_finite());
        }
    }

    #[test]
    fn entries_go_through_every_lane() {
        all_of::<Queue<16>>();
        all_of::<Queue<128>>();
        all_of::<Ring<16>>();
        all_of::<Ring<64>>();
        all_of::<Packets<64>>();
        all_of::<Packets<1500>>();
        all_of::<Ring<64, 32_768>>();
        all_of::<Line>();
    }

    #[test]
    fn a_look_in_vain_takes_some_time() {
        let (clock, time) = (Clock::calibrate(), Duration::from_millis(1));
        for ns in [
            empty_look_ns::<Packets<64>>(&clock, time).unwrap(),
            empty_look_ns::<Line>(&clock, time).unwrap(),
        ] {
            assert!(ns > 0.0 && ns < 1e6, "{ns}");
        }
    }

    /// What is compared does the work: each entry arrives, once and in order.
    fn arrives<L: Lane<Item = [u8; N]>, const N: usize>() {
        let (mut out, mut inn) = L::open().unwrap();
        let entry = |n: u64| {
            let mut entry = [n as u8; N];
            entry[..8].copy_from_slice(&n.to_le_bytes());
            entry
        };
        let (mut sent, mut next, mut got) = (0, 0, [[0; N]; 7]);
        while next < 40_000 {
            let batch: Vec<_> = (sent..sent + 11).map(entry).collect();
            sent += out.put(&batch).unwrap() as u64;
            let count = inn.take(&mut got).unwrap();
            for found in &got[..count] {
                assert_eq!(*found, entry(next));
                next += 1;
            }
        }
    }

    #[test]
    fn rings_are_rings() {
        arrives::<Ring<16>, 16>();
        arrives::<Ring<64, 32>, 64>();
        arrives::<Packets<64>, 64>();
        arrives::<Packets<1500>, 1500>();
    }
}
