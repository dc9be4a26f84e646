//! Queues: how soon an entry is there, and how many go through, each beside what
//! the machine allows in the same round.

use super::progress;
use crate::Result;
use crate::lab::{Pinned, Plan};
use crate::measure::{Clock, Line, Queue, Ring, entries_per_s, entry_trips};
use crate::method::{SLICE, Watch, turns};
use crate::report::{Machine, QueuesReport, QueuesRow, Settings};

/// Entries put in or taken at a time.
const BATCHES: [u32; 3] = [1, 8, 32];
/// Most round trips of a slice.
const TRIPS: u32 = 20_000;
/// Turns of a figure in each repeat.
const TURNS: u32 = 6;

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
    let at = At {
        clock: Clock::calibrate(),
        there: pins.service(),
        turns: (plan.repeats * TURNS) as usize,
        watch: Watch::new(&pins.both(), []),
    };
    let rows = [at.size::<16>()?, at.size::<32>()?, at.size::<64>()?, at.size::<128>()?].concat();
    let pinning = pins.words();
    let settings = Settings { repeats: plan.repeats, pinning, ..Settings::default() };
    Ok(QueuesReport { machine, settings, rows })
}

struct At {
    clock: Clock,
    there: Option<usize>,
    turns: usize,
    watch: Watch,
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

    fn latency<const N: usize>(&self) -> Result<QueuesRow> {
        let (clock, there, trips) = (&self.clock, self.there, (TRIPS, SLICE));
        let turns = turns(self.turns, 3, &self.watch, |variant, _| {
            let trips = match variant {
                0 => entry_trips::<Queue<N>>(clock, there, trips),
                1 => entry_trips::<Line>(clock, there, trips),
                _ => entry_trips::<Ring<N>>(clock, there, trips),
            };
            trips.map(Some)
        })?;
        Ok(QueuesRow::latency(N as u32, &turns))
    }

    fn rate<const N: usize>(&self, batch: u32) -> Result<QueuesRow> {
        let (clock, there, size) = (&self.clock, self.there, batch as usize);
        let turns = turns(self.turns, 2, &self.watch, |variant, _| {
            let per_s = match variant {
                0 => entries_per_s::<Queue<N>>(clock, there, size, SLICE),
                _ => entries_per_s::<Ring<N>>(clock, there, size, SLICE),
            };
            per_s.map(Some)
        })?;
        Ok(QueuesRow::rate(N as u32, batch, &turns))
    }
}
