//! Round trips from user-mode code in a bare KVM virtual machine, without a guest kernel:
//! the null call and the floor, and in the same round both from this process, so that
//! ratios are of one run.
//!
//! This process negotiates the channels like any program on the host; the machine's
//! processor calls in them. Times are the processor's counter's, read in the machine; how
//! fast it runs there is compared with the host's.

use super::calls::open;
use super::floor::GONE;
use super::samples::{chain, percentiles, warm_up};
use super::{Calls, Clock, Floor};
use crate::method::over_in_turns;
use crate::report::stats::{self, Percentiles};
use crate::report::{Domain, Kind, LatencyRow};
use crate::{BenchError, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use vfun::{Function, FunctionRequest, Session};
use vfun_barevm::{Calls as CallsThere, Count, Job, Lines, Machine, Stop};
use vfun_ring::Caller;
use vfun_window::cycles;

/// How the machine reaches the window.
pub const TRANSPORT: &str = "memory slot";
/// The transport of the rows that this process takes beside the machine's.
const BESIDE: &str = "host, beside kvm-bare";

/// Trips before the first that counts.
const WARM: u32 = 2_000;
const WARM_FOR: Duration = Duration::from_millis(20);
/// For how long the counters are compared: as long as the clock is calibrated.
const COUNTED: Duration = Duration::from_millis(25);

/// What a bare machine measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BareVm {
    /// Null call and floor, from the machine and from this process.
    pub rows: Vec<LatencyRow>,
    /// The rate of the processor's counter in the machine over that on the host.
    pub counter: f64,
    /// Median over the rounds of the machine's null call over the host's beside it.
    pub over_host: Option<f64>,
}

/// Percentiles of each round.
#[derive(Default)]
struct Rounds {
    floors: Vec<Percentiles>,
    nulls: Vec<Percentiles>,
}

fn p50(rounds: &[Percentiles]) -> Vec<f64> {
    rounds.iter().map(|p| p.p50 as f64).collect()
}

impl Rounds {
    fn rows(&self, domain: Domain, transport: &str) -> [LatencyRow; 2] {
        let row = |kind, rounds: &[Percentiles]| {
            let mut row = LatencyRow::new(domain, transport, kind).with_percentiles(rounds);
            row.calls_per_s = row.p50_ns.filter(|&ns| ns > 0.0).map(|ns| 1e9 / ns);
            row.in_flight = Some(1);
            row
        };
        let null = row(Kind::NullCall, &self.nulls);
        let floor = over_in_turns(&p50(&self.nulls), &p50(&self.floors));
        [null.against(floor), row(Kind::Floor, &self.floors)]
    }
}

/// How much of each.
#[derive(Clone, Copy)]
struct Much {
    samples: u32,
    limit: Duration,
}

pub fn bare_vm(calls: &mut Calls, rounds: u32, samples: u32, limit: Duration) -> Result<BareVm> {
    if !calls.shares_memory() {
        return Err(BenchError::BareVm("a bare machine needs a window, not a network".into()));
    }
    let clock = *calls.clock();
    let counter = counter(&clock)?;
    let there = clock.times(counter);
    let much = Much { samples, limit };
    let (mut vm, mut host) = (Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        let floor = Floor::open(calls.session(), 1)?;
        vm.floors.push(percentiles(&there, lines_there(&floor, &there, much)?));
        // Dropped, so that its service no longer spins while the next one is timed. The
        // same holds for all that follow: each has a channel of its own.
        drop(floor);
        vm.nulls.push(percentiles(&there, calls_there(calls.session(), &there, much)?));
        let mut floor = Floor::open(calls.session(), 1)?;
        warm_up(&clock, WARM, WARM_FOR, || floor.trip())?;
        host.floors.push(percentiles(&clock, chain(&clock, samples, limit, || floor.trip())?));
        drop(floor);
        let echo = open(calls.session(), &echo())?;
        let mut call = || Ok(echo.call_into(&[], &mut []).map(|_| ())?);
        warm_up(&clock, WARM, WARM_FOR, &mut call)?;
        host.nulls.push(percentiles(&clock, chain(&clock, samples, limit, &mut call)?));
    }
    let pairs = p50(&vm.nulls).into_iter().zip(p50(&host.nulls));
    let ratios: Vec<_> =
        pairs.filter(|&(_, host)| host > 0.0).map(|(vm, host)| vm / host).collect();
    let mut rows = vm.rows(Domain::KvmBare, TRANSPORT).to_vec();
    rows.extend(host.rows(Domain::HostHost, BESIDE));
    Ok(BareVm { rows, counter, over_host: stats::median(&ratios) })
}

/// The function that answers its arguments, with cells of lines only: the same for the
/// machine and for this process.
fn echo() -> FunctionRequest {
    FunctionRequest::new("echo").cell_bytes(0)
}

/// The rate of the machine's counter over the host's.
fn counter(clock: &Clock) -> Result<f64> {
    let mut count = Count::new(clock.cycles(COUNTED));
    let mut machine = Machine::new()?;
    // Its pages come as they are touched: not while it counts.
    machine.run(&mut Count::new(1))?;
    let from = cycles();
    machine.run(&mut count)?;
    let here = cycles().wrapping_sub(from).max(1);
    Ok(count.counted() as f64 / here as f64)
}

/// Runs a job to its end; `nudge` sees to it that its service is awake.
fn finish<J: Job>(
    machine: &mut Machine,
    job: &mut J,
    nudge: impl Fn() -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        match machine.run(job)? {
            Stop::Done => return Ok(()),
            Stop::Late if start.elapsed() < GONE => {
                nudge()?;
                // Two on one processor: the other one's turn.
                std::thread::yield_now();
            }
            Stop::Late => {
                return Err(BenchError::BareVm(format!(
                    "the service did not answer the machine within {} s",
                    GONE.as_secs()
                )));
            }
            Stop::Wrong => {
                return Err(BenchError::BareVm(
                    "a call from the machine was answered with something else than its arguments"
                        .into(),
                ));
            }
        }
    }
}

/// Round trips of a line from the machine.
fn lines_there(floor: &Floor, clock: &Clock, much: Much) -> Result<Vec<u64>> {
    let Some((lines, sent)) = floor.lend() else {
        return Err(BenchError::BareVm("the channel has no lines".into()));
    };
    let mut warm = Lines::new(lines, sent, WARM, clock.cycles(WARM_FOR));
    // Made before the machine, as it has the memory that there is as it is made.
    let mut timed = Lines::new(lines, sent, much.samples, clock.cycles(much.limit));
    let mut machine = Machine::new()?;
    finish(&mut machine, &mut warm, || floor.nudge())?;
    timed.go_on_from(warm.sent());
    finish(&mut machine, &mut timed, || floor.nudge())?;
    Ok(timed.samples())
}

/// Calls from the machine: first some with arguments, whose answers are compared, then
/// null calls, which are timed.
fn calls_there(session: &Session, clock: &Clock, much: Much) -> Result<Vec<u64>> {
    let function: Function = open(session, &echo())?;
    let Some(cells) = function.cells() else {
        return Err(BenchError::BareVm("the channel has no cells in a window".into()));
    };
    let caller = Caller::new(cells.clone(), function.info().depth, function.info().cell_bytes);
    let nudge = || match caller.broken() {
        Some(_) => Err(BenchError::BareVm("the service broke the machine's channel".into())),
        None => {
            function.nudge();
            Ok(())
        }
    };
    let mut warm = CallsThere::<8>::new(&caller, WARM, clock.cycles(WARM_FOR));
    let mut timed = CallsThere::<0>::new(&caller, much.samples, clock.cycles(much.limit));
    let mut machine = Machine::new()?;
    finish(&mut machine, &mut warm, nudge)?;
    finish(&mut machine, &mut timed, nudge)?;
    Ok(timed.samples())
}
