//! Queues: how soon an entry is there, and how many go through, each beside what
//! the machine allows in the same round.

use super::progress;
use crate::Result;
use crate::lab::{Pinned, Plan};
use crate::measure::{Clock, Line, Queue, Ring, entries_per_s, entry_trips};
use crate::report::stats::Percentiles;
use crate::report::{Machine, QueuesReport, QueuesRow, Settings};
use std::time::Duration;

/// Entries put in or taken at a time.
const BATCHES: [u32; 3] = [1, 8, 32];
/// Most round trips of a figure, and most time for them.
const TRIPS: (u32, Duration) = (20_000, Duration::from_millis(60));
/// Time for a rate.
const COUNTED: Duration = Duration::from_millis(30);

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct QueuesPlan {
    /// How often each figure is taken.
    pub repeats: u32,
    /// Whether each end gets a processor of its own.
    pub pin: bool,
}

/// Runs it: two threads of this process, no manager and no guest.
///
/// # Errors
/// [`crate::BenchError`]: no memory for a queue.
pub fn queues(plan: &QueuesPlan) -> Result<QueuesReport> {
    let machine = Machine::collect();
    let pins = Plan::new(plan.pin);
    let _pinned = Pinned::to(pins.caller());
    let at = At { clock: Clock::calibrate(), there: pins.service(), repeats: plan.repeats };
    let rows = [at.size::<16>()?, at.size::<32>()?, at.size::<64>()?, at.size::<128>()?].concat();
    let pinning = pins.words();
    let settings = Settings { repeats: plan.repeats, pinning, ..Settings::default() };
    Ok(QueuesReport { machine, settings, rows })
}

struct At {
    clock: Clock,
    there: Option<usize>,
    repeats: u32,
}

/// One way is half of a round trip.
fn one_way(trips: &[Percentiles]) -> (Vec<f64>, Vec<f64>) {
    trips.iter().map(|p| (p.p50 as f64 / 2.0, p.p99 as f64 / 2.0)).unzip()
}

impl At {
    fn size<const N: usize>(&self) -> Result<Vec<QueuesRow>> {
        progress(format_args!("queues: entries of {N} bytes"));
        let mut rows = vec![self.latency::<N>()?];
        for batch in BATCHES {
            rows.push(self.rate::<N>(batch)?);
        }
        Ok(rows)
    }

    /// All in each round, so that all see the same machine.
    fn latency<const N: usize>(&self) -> Result<QueuesRow> {
        let (mut queue, mut ring, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.repeats {
            floor.push(entry_trips::<Line>(&self.clock, self.there, TRIPS)?);
            queue.push(entry_trips::<Queue<N>>(&self.clock, self.there, TRIPS)?);
            ring.push(entry_trips::<Ring<N>>(&self.clock, self.there, TRIPS)?);
        }
        let (queue, ring, floor) = (one_way(&queue), one_way(&ring), one_way(&floor));
        Ok(QueuesRow::latency(N as u32, &queue, &floor, &ring.0))
    }

    fn rate<const N: usize>(&self, batch: u32) -> Result<QueuesRow> {
        let (mut queue, mut ring) = (Vec::new(), Vec::new());
        let (clock, there, size) = (&self.clock, self.there, batch as usize);
        for _ in 0..self.repeats {
            ring.push(entries_per_s::<Ring<N>>(clock, there, size, COUNTED)?);
            queue.push(entries_per_s::<Queue<N>>(clock, there, size, COUNTED)?);
        }
        Ok(QueuesRow::rate(N as u32, batch, &queue, &ring))
    }
}
