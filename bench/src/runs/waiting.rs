//! The ways to wait, in turns within each repeat.
//!
//! One pair is measured pinned like everywhere else. Too many callers and services are
//! let run on either of the same two processors, as the system likes.

use super::in_turns::InTurns;
use super::{Bench, Where, progress};
use crate::lab::{BARE_DEVICE, GO, GuestSpec, LabGuest, Manager, Pinned, READY, cpu_time};
use crate::measure::{Clock, Job, Load, Outcome, Trip, bare_doorbell};
use crate::method::{SLICE, over_in_turns};
use crate::place::{OverSession, Place};
use crate::report::stats::Percentiles;
use crate::report::{Domain, Mode, Waiting, WaitingReport, WaitingRow};
use crate::{BenchError, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vfun::Endpoint;

/// Callers that are too many for two processors, each with a service of its own.
const CROWD: [&str; 3] = ["bench-crowd-1", "bench-crowd-2", "bench-crowd-3"];
/// Memory of each one's guest.
const CROWD_GUEST_MIB: u32 = 256;
/// By then a guest has removed two files.
const AFRESH: Duration = Duration::from_millis(500);
/// How many idle channels there are.
const CHANNELS: u32 = 100;
/// How often idling is looked at, at most.
const IDLE_REPEATS: u32 = 3;
/// What services do after their last call until they are at rest, their watch included.
const SETTLE: Duration = Duration::from_millis(2_500);
/// Most round trips in a slice, and most time for them, ms: a sleeper's take 70 µs.
const TRIPS: (u32, u32) = (20_000, 8);
/// Turns of the null calls in each repeat.
const TURNS: u32 = 6;

/// How it is run.
#[derive(Clone, Debug)]
pub struct WaitingPlan {
    /// How often each row is measured.
    pub repeats: u32,
    /// How long callers call at a time when their number is what counts.
    pub load: Duration,
    /// How long idle channels are looked at.
    pub idle: Duration,
}

/// Runs it in the bench's places, and crowds of its own.
pub fn waiting(bench: &mut Bench, at: &Where, plan: &WaitingPlan) -> Result<WaitingReport> {
    let mut rows = Vec::new();
    for i in 0..bench.len() {
        let domain = bench.place(i).domain();
        if !matches!(domain, Domain::HostHost | Domain::GuestHost) {
            continue;
        }
        progress(format_args!("waiting: {domain}, idle"));
        match idle(bench, i, plan) {
            Ok(more) => rows.extend(more),
            Err(e) => bench.miss(domain, "idling", &e),
        }
        progress(format_args!("waiting: {domain}, one pair"));
        match pair(bench, i, plan) {
            Ok(more) => rows.extend(more),
            Err(e) => bench.miss(domain, "one pair", &e),
        }
        progress(format_args!("waiting: {domain}, too many"));
        let crowded = match domain {
            Domain::HostHost => host_crowd(bench, at, plan),
            _ => guest_crowd(bench, at, plan),
        };
        match crowded {
            Ok(more) => rows.extend(more),
            Err(e) => bench.miss(domain, "too many", &e),
        }
    }
    let mut report = WaitingReport::new(bench.machine(), bench.settings(1.0, plan.repeats));
    report.settings = report.settings.with("idle_seconds", plan.idle.as_secs_f64());
    report.settings = report.settings.with("load_seconds", plan.load.as_secs_f64());
    report.rows = rows;
    Ok(report)
}

/// Figures of each repeat.
#[derive(Default)]
struct Repeats {
    p50: Vec<f64>,
    p99: Vec<f64>,
    per_s: Vec<f64>,
    least_over_most: Vec<f64>,
}

impl Repeats {
    fn add(&mut self, loads: &[Load]) {
        let calls = |l: &Load| l.calls as f64 / l.seconds;
        let all = || loads.iter().map(calls);
        let worst = |f: fn(&Load) -> f64| loads.iter().map(f).fold(0.0, f64::max);
        self.p50.push(worst(|l| l.p50_ns));
        self.p99.push(worst(|l| l.p99_ns));
        self.per_s.push(all().sum());
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        self.least_over_most.push(least / most);
    }
}

fn rates(
    domain: Domain,
    transport: &str,
    kind: Waiting,
    count: u32,
    by_mode: &BTreeMap<Mode, Repeats>,
) -> Vec<WaitingRow> {
    let sleep = by_mode.get(&Mode::Sleep).map(|r| r.per_s.clone()).unwrap_or_default();
    let row = |(&mode, r): (&Mode, &Repeats)| {
        let row = WaitingRow::new(domain, transport, kind, Some(mode));
        let row = row.with_times(&r.p50, &r.p99).with_rates(count, &r.per_s, &r.least_over_most);
        if mode == Mode::Sleep { row } else { row.over("sleep", over_in_turns(&r.per_s, &sleep)) }
    };
    by_mode.iter().map(row).collect()
}

/// One caller and one service on a processor each.
fn pair(bench: &mut Bench, i: usize, plan: &WaitingPlan) -> Result<Vec<WaitingRow>> {
    let domain = bench.place(i).domain();
    let transport = bench.place(i).transport().to_owned();
    let mut rows = null_calls(bench, i, &transport, plan)?;
    let mut alone: BTreeMap<Mode, Repeats> = BTreeMap::new();
    for _ in 0..plan.repeats {
        for mode in [Mode::Hybrid, Mode::Sleep] {
            let load = one_load(bench.place(i), mode, plan.load / 3)?;
            alone.entry(mode).or_default().add(&[load]);
        }
    }
    rows.extend(rates(domain, &transport, Waiting::Alone, 1, &alone));
    Ok(rows)
}

/// A call in each mode and, beside them, a bare doorbell.
fn null_calls(
    bench: &mut Bench,
    i: usize,
    transport: &str,
    plan: &WaitingPlan,
) -> Result<Vec<WaitingRow>> {
    let (domain, service, clock) =
        (bench.place(i).domain(), bench.plan().service(), Clock::calibrate());
    let mut of: Vec<_> = Mode::ALL.iter().map(|&mode| Trip::Mode(mode)).collect();
    let has_bell =
        domain == Domain::HostHost || bench.guest().is_some_and(|g| g.has_bare_doorbell());
    if has_bell {
        of.push(Trip::Bell(BARE_DEVICE.to_owned()));
    }
    let bell = Mode::ALL.len();
    let mut places = InTurns::new(bench, "one pair", vec![i; of.len()]);
    let job =
        |v: usize, _| (Job::Trips { of: of[v].clone(), samples: TRIPS.0, millis: TRIPS.1 }, SLICE);
    let turns = places.turns((plan.repeats * TURNS) as usize, |places, v, turn| {
        // On the host it needs no session and no device.
        if v == bell && domain == Domain::HostHost {
            let limit = Duration::from_millis(TRIPS.1.into());
            return bare_doorbell(&clock, service, TRIPS.0, limit).map(Some);
        }
        let (job, work) = job(v, turn);
        Ok(places.once(v, &job, work).and_then(|outcome| match outcome {
            Outcome::Trips(percentiles) => Some(percentiles),
            _ => None,
        }))
    })?;
    let of_mode = |mode| Mode::ALL.iter().position(|&m| m == mode).unwrap_or_default();
    let over = |v, base| turns.over(v, base, |p| p.p50 as f64);
    let mut rows = Vec::new();
    for v in (0..of.len()).filter(|&v| !turns.figures(v).is_empty()) {
        let mode = Mode::ALL.get(v).copied();
        let kept = turns.kept(v);
        let each =
            |f: fn(&Percentiles) -> u64| kept.iter().map(|p| f(p) as f64).collect::<Vec<_>>();
        let (p50, p99) = (each(|p| p.p50), each(|p| p.p99));
        let row = match mode {
            Some(_) => WaitingRow::new(domain, transport, Waiting::NullCall, mode),
            None if domain == Domain::HostHost => {
                WaitingRow::new(domain, "eventfd", Waiting::BareDoorbell, None)
            }
            None => WaitingRow::new(domain, transport, Waiting::BareDoorbell, None),
        };
        let row = row.with_times(&p50, &p99);
        rows.push(match mode {
            Some(Mode::Hybrid) => row.over("spin", over(v, of_mode(Mode::Spin))),
            Some(Mode::Sleep) if has_bell => row.over("bare doorbell", over(v, bell)),
            _ => row,
        });
    }
    Ok(rows)
}

fn one_load(place: &mut dyn Place, mode: Mode, time: Duration) -> Result<Load> {
    let job = Job::Load { mode, millis: time.as_millis() as u32, together: false };
    match place.run(&job, time)? {
        Outcome::Load(load) => Ok(load),
        _ => Err(place.unfit("load")),
    }
}

/// More callers and services than processors.
fn host_crowd(bench: &Bench, at: &Where, plan: &WaitingPlan) -> Result<Vec<WaitingRow>> {
    let cpus = bench.plan().both();
    let manager = at.manager(&CROWD, None, &cpus)?;
    let rows = by_turns(plan, |mode| crowd(&manager, &cpus, mode, plan.load))?;
    Ok(rates(Domain::HostHost, "host", Waiting::Crowd, CROWD.len() as u32, &rows))
}

/// Each mode in each repeat, in turns.
fn by_turns(
    plan: &WaitingPlan,
    mut turn: impl FnMut(Mode) -> Result<Vec<Load>>,
) -> Result<BTreeMap<Mode, Repeats>> {
    let mut by_mode: BTreeMap<Mode, Repeats> = BTreeMap::new();
    for repeat in 0..plan.repeats {
        let mut modes = Mode::ALL.to_vec();
        if repeat % 2 == 1 {
            modes.reverse();
        }
        for mode in modes {
            by_mode.entry(mode).or_default().add(&turn(mode)?);
        }
    }
    Ok(by_mode)
}

/// The same from a guest for each caller.
fn guest_crowd(bench: &Bench, at: &Where, plan: &WaitingPlan) -> Result<Vec<WaitingRow>> {
    let (cpus, wiring) = (bench.plan().both(), at.wiring());
    let manager = at.manager(&CROWD, Some(wiring), &cpus)?;
    let (program, _) = at.program_and_folder();
    let boot = |client| {
        let (cpus, memory_mib) = (cpus.clone(), CROWD_GUEST_MIB);
        let spec = GuestSpec { client, wiring, cpus, memory_mib, net: false, bare: None, ports: 0 };
        LabGuest::boot(&manager, &spec, &program)
    };
    let guests = {
        // QEMU's threads, too, are to run on either.
        let _either = Pinned::among(&cpus);
        CROWD.into_iter().map(boot).collect::<Result<Vec<_>>>()?
    };
    let rows = by_turns(plan, |mode| crowd_in(&guests, mode, plan.load))?;
    Ok(rates(Domain::GuestHost, wiring.transport(), Waiting::Crowd, CROWD.len() as u32, &rows))
}

/// One turn: a caller in each guest, which begin when all of them have called already.
fn crowd_in(guests: &[LabGuest], mode: Mode, time: Duration) -> Result<Vec<Load>> {
    let died = || BenchError::Inside("a caller died".into());
    let job = Job::Load { mode, millis: time.as_millis() as u32, together: true };
    std::thread::scope(|scope| {
        let callers: Vec<_> = guests
            .iter()
            .map(|guest| {
                let job = &job;
                scope.spawn(move || {
                    guest.script(&format!("rm -f {READY} {GO}"))?;
                    guest.run(false, job, time)
                })
            })
            .collect();
        let each = |script: &str| -> Result<()> {
            std::thread::scope(|scope| {
                let all: Vec<_> =
                    guests.iter().map(|g| scope.spawn(move || g.script(script))).collect();
                all.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(died())))
            })
        };
        // Not before the files of the last turn are gone.
        std::thread::sleep(AFRESH);
        let ready =
            format!("n=0; until [ -e {READY} ] || [ $n = 500 ]; do usleep 20000; n=$((n+1)); done");
        let begun = each(&ready).and_then(|()| each(&format!("touch {GO}")));
        let loads =
            callers.into_iter().map(|t| match t.join().unwrap_or_else(|_| Err(died()))? {
                Outcome::Load(load) => Ok(load),
                _ => Err(BenchError::Inside("it gave no load".into())),
            });
        let loads = loads.collect::<Result<Vec<_>>>();
        begun.and(loads)
    })
}

/// One turn: all call at once, each from a thread and over a session of its own client.
fn crowd(manager: &Manager, cpus: &[usize], mode: Mode, time: Duration) -> Result<Vec<Load>> {
    let endpoint = Endpoint::Host(Some(manager.host_socket()));
    let ready = std::sync::Barrier::new(CROWD.len());
    std::thread::scope(|scope| {
        let callers = CROWD.map(|client| {
            let (endpoint, ready) = (&endpoint, &ready);
            scope.spawn(move || {
                let _either = Pinned::among(cpus);
                let place = OverSession::connect(endpoint, Some(client));
                ready.wait();
                one_load(&mut place?, mode, time)
            })
        });
        callers
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(BenchError::Inside("a caller died".into()))))
            .collect()
    })
}

/// Processor time of all processes that take part, as a share of one processor.
fn share(pids: &[u32], over: Duration) -> Result<f64> {
    let gone = || BenchError::Manager("a process ended while it was idle".into());
    let read =
        || -> Result<Duration> { pids.iter().map(|&pid| cpu_time(pid).ok_or_else(gone)).sum() };
    let (before, start) = (read()?, Instant::now());
    std::thread::sleep(over);
    Ok(read()?.saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64())
}

/// Many active channels that nobody calls: their app (or its guest), manager, services.
fn idle(bench: &mut Bench, i: usize, plan: &WaitingPlan) -> Result<Vec<WaitingRow>> {
    let (domain, transport) = (bench.place(i).domain(), bench.place(i).transport().to_owned());
    let (mut before, mut with) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeats.min(IDLE_REPEATS) {
        let (b, w) = idle_once(bench, i, plan.idle)?;
        before.push(b);
        with.push(w);
    }
    let row = |kind, count, shares: &[f64]| {
        WaitingRow::new(domain, &transport, kind, None).with_shares(count, shares)
    };
    Ok(vec![row(Waiting::IdleBefore, 0, &before), row(Waiting::Idle, CHANNELS, &with)])
}

fn idle_once(bench: &mut Bench, i: usize, over: Duration) -> Result<(f64, f64)> {
    let domain = bench.place(i).domain();
    let guest = bench.guest().filter(|_| domain == Domain::GuestHost);
    let app = guest.as_deref().map_or(std::process::id(), |g| g.pid());
    let no_manager = || BenchError::Options("no manager to look at".into());
    let hold = SETTLE + over + Duration::from_secs(6);
    let job = Job::Idle { channels: CHANNELS, millis: hold.as_millis() as u64 };
    let look = |manager: &Manager| -> Result<f64> {
        std::thread::sleep(SETTLE);
        let mut pids = manager.processes()?;
        pids.push(app);
        share(&pids, over)
    };
    let before = look(bench.manager().ok_or_else(no_manager)?)?;
    let endpoint = bench.manager().map(|m| Endpoint::Host(Some(m.host_socket())));
    let manager = bench.manager().ok_or_else(no_manager)?;
    let with = std::thread::scope(|scope| {
        let (guest, job) = (guest.as_deref(), &job);
        let held = scope.spawn(move || match (guest, endpoint) {
            (Some(guest), _) => guest.run(false, job, hold),
            (None, Some(endpoint)) => {
                OverSession::connect(&endpoint, Some(crate::lab::HOST_CLIENT))?
                    .run(job, Duration::ZERO)
            }
            (None, None) => Err(no_manager()),
        });
        let start = Instant::now();
        while manager.grants()?.iter().filter(|g| g.pid.is_some()).count() < CHANNELS as usize {
            if start.elapsed() > hold || held.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let with = look(manager);
        held.join().unwrap_or_else(|_| Err(BenchError::Inside("the caller died".into())))?;
        with
    })?;
    Ok((before, with))
}
