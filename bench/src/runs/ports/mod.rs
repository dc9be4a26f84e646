//! Ports: their rings between two threads, and below testpmd beside DPDK's own ways.

mod links;
mod rounds;

pub use links::{LinksPlan, links};

use super::progress;
use crate::lab::{Pinned, Plan, pin};
use crate::measure::{Clock, Lane, Line, Packets, Ring, empty_look_ns, entries_per_s, entry_trips};
use crate::method::{SLICE, Watch, turns};
use crate::report::{Machine, PortsReport, PortsRow, Settings};
use crate::{BenchError, Result};
use std::path::PathBuf;

/// Frames at a time.
const BURST: usize = 32;
/// Entries of the rings of memcpy: as much memory as a port's ring has, to the power of two below.
const SMALL_DEPTH: u32 = 32_768;
const LONG_DEPTH: u32 = 1024;
/// Most round trips of a slice.
const TRIPS: u32 = 20_000;
/// Turns of a figure in each repeat.
const TURNS: u32 = 6;

/// How it is run.
#[derive(Clone, Debug)]
pub struct PortsPlan {
    /// How often each figure of the ring alone is taken.
    pub repeats: u32,
    /// How often each of DPDK's ways has its turn; 0: testpmd is left out.
    pub rounds: u32,
    /// Whether each end gets a processor of its own.
    pub pin: bool,
    /// The DPDK driver of ports; none: that of this checkout or installation.
    pub dpdk_driver: Option<PathBuf>,
}

/// Runs it: two threads of this process, then two programs of DPDK at a time. No manager and no guest.
///
/// # Errors
/// [`BenchError`]: no memory for a ring, or the driver that was named is not there.
pub fn ports(plan: &PortsPlan) -> Result<PortsReport> {
    let machine = Machine::collect();
    if let Some(missing) = plan.dpdk_driver.as_ref().filter(|file| !file.is_file()) {
        let missing = missing.display();
        return Err(BenchError::Options(format!("--dpdk-driver {missing}: there is no such file")));
    }
    let pins = Plan::new(plan.pin);
    let at = PortsRun {
        clock: Clock::calibrate(),
        there: pins.service(),
        turns: (plan.repeats * TURNS) as usize,
        watch: Watch::new(&pins.both(), []),
    };
    let mut rows = {
        let _pinned = Pinned::to(pins.caller());
        at.alone()?
    };
    rows.extend(rounds::rows(plan, &at, &pins)?);
    let processors = machine.cores_usable.unwrap_or(1);
    let rows = rows.into_iter().map(|row| row.on(processors)).collect();
    let settings = Settings { repeats: plan.repeats, pinning: pins.words(), ..Settings::default() };
    let settings = settings.with("rounds", plan.rounds);
    Ok(PortsReport { machine, settings, rows })
}

struct PortsRun {
    clock: Clock,
    there: Option<usize>,
    turns: usize,
    watch: Watch,
}

impl PortsRun {
    /// The rows of the ring by itself.
    fn alone(&self) -> Result<Vec<PortsRow>> {
        progress("ports: the ring alone");
        Ok(vec![
            self.one_way::<64>()?,
            self.one_way::<1500>()?,
            self.empty_look()?,
            self.rate::<64, SMALL_DEPTH>()?,
            self.rate::<1500, LONG_DEPTH>()?,
        ])
    }

    fn one_way<const N: usize>(&self) -> Result<PortsRow> {
        let (clock, there, trips) = (&self.clock, self.there, (TRIPS, SLICE));
        let turns = turns(self.turns, 2, &self.watch, |variant, _| {
            let trips = match variant {
                0 => entry_trips::<Packets<N>>(clock, there, trips),
                _ => entry_trips::<Line>(clock, there, trips),
            };
            trips.map(Some)
        })?;
        Ok(PortsRow::one_way(N as u32, &turns))
    }

    fn empty_look(&self) -> Result<PortsRow> {
        let turns = turns(self.turns, 2, &self.watch, |variant, _| {
            let ns = match variant {
                0 => empty_look_ns::<Packets<64>>(&self.clock, SLICE),
                _ => empty_look_ns::<Line>(&self.clock, SLICE),
            };
            ns.map(Some)
        })?;
        Ok(PortsRow::empty_look(&turns))
    }

    fn rate<const N: usize, const D: u32>(&self) -> Result<PortsRow> {
        let turns = turns(self.turns, 2, &self.watch, |variant, _| {
            let per_s = match variant {
                0 => self.per_s::<Packets<N>>(SLICE),
                _ => self.per_s::<Ring<N, D>>(SLICE),
            };
            per_s.map(Some)
        })?;
        Ok(PortsRow::ring(N as u32, &turns))
    }

    fn per_s<L: Lane>(&self, time: std::time::Duration) -> Result<f64> {
        entries_per_s::<L>(&self.clock, self.there, BURST, time)
    }

    /// The processors of a program that has one end: its own, or all.
    fn cpus(own: Option<usize>) -> Vec<usize> {
        own.map_or_else(pin::allowed, |cpu| vec![cpu])
    }
}
