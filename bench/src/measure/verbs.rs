//! Verbs, in a process that uses the software NIC of its host: each figure in turns with its floor.

use super::Clock;
use super::bells::bare_doorbell;
use super::queues::{Line, entry_trips};
use super::samples::{chain, percentiles, rate, warm_up};
use crate::lab::{Manager, pin};
use crate::method::{SLICE, Watch, turns};
use crate::report::stats::Percentiles;
use crate::report::{VerbsFigure, VerbsRow};
use crate::{BenchError, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use vfun_window::{cycles, pause};
use vfunverbs::loopback::{Loopback, OwnPages};

/// Most samples of a slice.
const SAMPLES: u32 = 20_000;
const WARM: u32 = 200;
/// Longer than a NIC looks that has nothing to do.
const SETTLE: Duration = Duration::from_millis(40);
const WARM_FOR: Duration = Duration::from_millis(2);
/// Bytes of a short write, and how many are under way at once where the rate counts.
const SHORT: u32 = 8;
const IN_FLIGHT: usize = 64;
/// Sizes of long writes, and how many are under way at once.
const LONG: [u32; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
const LONG_IN_FLIGHT: usize = 2;
/// Queue pairs that work, and all that there are; two make a pair.
const BUSY: usize = 8;
const MANY: usize = 500;
/// Bytes that are registered the first time, and again. What was registered once stays in the window until the
/// process ends, so that there are few samples of the first.
const REGISTERED: usize = 1 << 20;
const FIRST_TIMES: u32 = 3;
const AGAIN: [usize; 2] = [4 << 10, 16 << 20];

/// What the process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbsJob {
    /// The manager's root.
    pub root: PathBuf,
    /// Turns of each figure.
    pub turns: usize,
    /// Where the NIC runs, and what is compared with it; none: anywhere.
    pub service: Option<usize>,
    pub caller: Option<usize>,
}

fn failed(why: String) -> BenchError {
    BenchError::Driver(why)
}

struct VerbsRun<'a> {
    job: &'a VerbsJob,
    clock: Clock,
    program: Loopback,
}

/// Measures all of it.
///
/// # Errors
/// [`BenchError`]: there is no NIC, or it fails.
pub fn work(job: &VerbsJob) -> Result<Vec<VerbsRow>> {
    pin::to(job.caller);
    let largest = LONG[LONG.len() - 1] as usize;
    let mut program = Loopback::new(largest).map_err(failed)?;
    program.resize(BUSY).map_err(failed)?;
    let mut at = VerbsRun { job, clock: Clock::calibrate(), program };
    let mut rows = vec![at.latency()?, at.rate()?];
    for bytes in LONG {
        rows.push(at.bandwidth(bytes)?);
    }
    rows.push(at.event()?);
    rows.push(at.many()?);
    rows.push(at.register()?);
    for bytes in AGAIN {
        rows.push(at.register_again(bytes)?);
    }
    Ok(rows)
}

/// Keeps so many writes under way, each at another pair: ns for each.
fn flow(
    clock: &Clock,
    program: &mut Loopback,
    (pairs, bytes, most): (usize, u32, usize),
) -> Result<f64> {
    let (mut under_way, mut next) = (0, 0);
    let mut run = |time: Duration| -> Result<(usize, u64)> {
        let (limit, from, mut done) = (clock.cycles(time), cycles(), 0);
        loop {
            while under_way < most {
                program.write(next % pairs, bytes).map_err(failed)?;
                (next, under_way) = (next + 1, under_way + 1);
            }
            let got = program.poll().map_err(failed)?;
            if got == 0 {
                // The NIC's processor may be the other half of this one.
                pause();
            }
            (done, under_way) = (done + got, under_way - got);
            let took = cycles().wrapping_sub(from);
            if took >= limit && done > 0 {
                return Ok((done, took));
            }
        }
    };
    let counted = run(WARM_FOR).and_then(|_| run(SLICE));
    while under_way > 0 {
        under_way -= program.poll().map_err(failed)?;
    }
    counted.map(|(done, took)| took as f64 * clock.ns_per_cycle() / done as f64)
}

/// Cycles of registering; the region has ended again.
fn timed(program: &Loopback, pages: &OwnPages) -> Result<u64> {
    let from = cycles();
    program.register(pages, || cycles().wrapping_sub(from)).map_err(failed)
}

fn first_time(program: &Loopback) -> Result<u64> {
    timed(program, &program.pages(REGISTERED).map_err(failed)?)
}

impl VerbsRun<'_> {
    /// Lets the NIC fall asleep, so that a floor has the processor to itself.
    fn settle<T>() -> Result<Option<T>> {
        std::thread::sleep(SETTLE);
        Ok(None)
    }

    /// Two lines that go to and fro, on the same processors: p50, ns.
    fn line(&self) -> Result<Percentiles> {
        entry_trips::<Line>(&self.clock, self.job.service, (SAMPLES, SLICE))
    }

    /// One short write, from posting to its completion.
    fn latency(&mut self) -> Result<VerbsRow> {
        let clock = self.clock;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            match variant {
                0 => {}
                1 => return Self::settle(),
                _ => return self.line().map(Some),
            }
            let program = &mut self.program;
            let mut trip =
                || program.write(0, SHORT).and_then(|()| program.complete()).map_err(failed);
            warm_up(&clock, WARM, WARM_FOR, &mut trip)?;
            let trips = chain(&clock, SAMPLES, SLICE, &mut trip)?;
            Ok(Some(percentiles(&clock, trips)))
        })?;
        Ok(VerbsRow::trips(VerbsFigure::Write, SHORT.into(), &turns))
    }

    /// Many short writes under way.
    fn rate(&mut self) -> Result<VerbsRow> {
        let clock = self.clock;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            let ns = match variant {
                0 => flow(&clock, &mut self.program, (1, SHORT, IN_FLIGHT))?,
                1 => return Self::settle(),
                _ => self.line()?.p50 as f64,
            };
            Ok(Some(ns))
        })?;
        Ok(VerbsRow::times(VerbsFigure::InFlight, SHORT.into(), &turns))
    }

    /// Long writes, beside copies of the same memory by this thread.
    fn bandwidth(&mut self, bytes: u32) -> Result<VerbsRow> {
        let clock = self.clock;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            let program = &mut self.program;
            let ns = match variant {
                0 => flow(&clock, program, (1, bytes, LONG_IN_FLIGHT))?,
                1 => return Self::settle(),
                _ => {
                    let mut copy = || {
                        program.copy(bytes as usize);
                        Ok(())
                    };
                    warm_up(&clock, WARM, WARM_FOR, &mut copy)?;
                    let (runs, seconds) = rate(&clock, SLICE, 1, &mut copy)?;
                    seconds * 1e9 / runs as f64
                }
            };
            Ok(Some(f64::from(bytes) / ns * 1e9))
        })?;
        Ok(VerbsRow::rates(VerbsFigure::Bandwidth, bytes.into(), &turns))
    }

    /// A program that sleeps until its completion comes.
    fn event(&mut self) -> Result<VerbsRow> {
        let (clock, there) = (self.clock, self.job.service);
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            match variant {
                0 => {}
                1 => return Self::settle(),
                _ => return bare_doorbell(&clock, there, SAMPLES, SLICE).map(Some),
            }
            let program = &mut self.program;
            let mut trip = || program.asleep(SHORT).map_err(failed);
            warm_up(&clock, WARM, WARM_FOR, &mut trip)?;
            let trips = chain(&clock, SAMPLES, SLICE, &mut trip)?;
            Ok(Some(percentiles(&clock, trips)))
        })?;
        Ok(VerbsRow::trips(VerbsFigure::Event, SHORT.into(), &turns))
    }

    /// Some queue pairs that work, beside many that do not.
    fn many(&mut self) -> Result<VerbsRow> {
        let clock = self.clock;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            let pairs = match variant {
                0 => MANY,
                1 => return Self::settle(),
                _ => BUSY,
            };
            self.program.resize(pairs).map_err(failed)?;
            flow(&clock, &mut self.program, (BUSY, SHORT, IN_FLIGHT)).map(Some)
        })?;
        Ok(VerbsRow::times(VerbsFigure::Many, SHORT.into(), &turns))
    }

    /// Memory that was never registered, beside copies of as many bytes.
    fn register(&mut self) -> Result<VerbsRow> {
        let clock = self.clock;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            let program = &mut self.program;
            let samples = match variant {
                0 => (0..FIRST_TIMES).map(|_| first_time(program)).collect::<Result<_>>()?,
                1 => return Self::settle(),
                _ => chain(&clock, SAMPLES, SLICE, || {
                    program.copy(REGISTERED);
                    Ok(())
                })?,
            };
            Ok(Some(percentiles(&clock, samples)))
        })?;
        Ok(VerbsRow::trips(VerbsFigure::Register, REGISTERED as u64, &turns))
    }

    /// Memory that is in the window already, beside a small control call.
    fn register_again(&mut self, bytes: usize) -> Result<VerbsRow> {
        let clock = self.clock;
        let pages = self.program.pages(bytes).map_err(failed)?;
        self.program.register(&pages, || ()).map_err(failed)?;
        let turns = turns(self.job.turns, 3, &self.watch()?, |variant, _| {
            let program = &self.program;
            let samples = match variant {
                0 => (0..SAMPLES / 100).map(|_| timed(program, &pages)).collect::<Result<_>>()?,
                1 => return Self::settle(),
                _ => chain(&clock, SAMPLES, SLICE, || program.ask().map_err(failed))?,
            };
            Ok(Some(percentiles(&clock, samples)))
        })?;
        Ok(VerbsRow::trips(VerbsFigure::RegisterAgain, bytes as u64, &turns))
    }

    /// The program, the NIC, and who else works for them.
    fn watch(&self) -> Result<Watch> {
        let cpus: Vec<_> = self.job.caller.into_iter().chain(self.job.service).collect();
        Ok(Watch::new(&cpus, Manager::running(&self.job.root)?.processes()?))
    }
}
