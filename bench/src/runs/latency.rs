//! One call, and many, each beside its floor.

use super::in_turns::InTurns;
use super::{Bench, progress};
use crate::Result;
use crate::lab::Pinned;
use crate::measure::{Clock, EchoServer, Job, Outcome, Trip, socket_trips};
use crate::method::SLICE;
use crate::report::{Domain, Kind, LatencyReport, LatencyRow};
use std::time::Duration;

/// Turns of a comparison in each round.
const TURNS: u32 = 6;
/// Numbers of calls in flight that are measured over a network.
const NET: [u32; 3] = [1, 8, 64];

/// How it is run.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// How often each row is measured.
    pub rounds: u32,
    /// Numbers of calls in flight.
    pub in_flight: Vec<u32>,
    /// Sizes of arguments, bytes.
    pub sizes: Vec<u64>,
}

impl LatencyPlan {
    /// The usual sizes and numbers.
    pub fn new(rounds: u32) -> Self {
        LatencyPlan {
            rounds,
            in_flight: (0..=6).map(|i| 1 << i).collect(),
            sizes: (0..8).map(|i| 4096 << (2 * i)).collect(),
        }
    }

    /// The jobs of a domain that are not compared in turns. Over a network all takes a thousand times as
    /// long, so less of it is done.
    fn jobs(&self, domain: Domain) -> Vec<(String, Job)> {
        let net = domain == Domain::GuestNet;
        let rounds = if net { self.rounds.min(5) } else { self.rounds };
        let few = rounds.min(5);
        let copies = |bytes| {
            (format!("memcpy, {bytes} bytes"), Job::Copies { bytes, rounds: few, millis: 10 })
        };
        // It has a job of its own.
        if domain == Domain::KvmBare {
            return Vec::new();
        }
        if domain == Domain::InProcess {
            return self.sizes.iter().copied().map(copies).collect();
        }
        let mut jobs = Vec::new();
        // A frame of the network transport holds no more.
        let sizes = || self.sizes.iter().copied().filter(move |&b| !net || b <= 16 << 20);
        for bytes in sizes() {
            let rounds = if bytes > 16 << 20 { few.min(3) } else { few };
            jobs.push((format!("{bytes} bytes"), Job::Bandwidth { bytes, rounds, millis: 20 }));
        }
        if domain == Domain::GuestHost {
            jobs.extend(sizes().map(copies));
        }
        jobs
    }
}

pub fn latency(bench: &mut Bench, plan: &LatencyPlan) -> Result<LatencyReport> {
    let mut rows = Vec::new();
    for i in 0..bench.len() {
        let domain = bench.place(i).domain();
        progress(format_args!("latency: {domain}"));
        if !matches!(domain, Domain::InProcess | Domain::KvmBare) {
            rows.extend(round_trips(bench, i, plan)?);
            for &n in
                plan.in_flight.iter().filter(|n| domain != Domain::GuestNet || NET.contains(n))
            {
                rows.extend(in_flight(bench, i, plan, n)?);
            }
        }
        for (what, job) in plan.jobs(domain) {
            match bench.place(i).rows(&job) {
                Ok(more) => rows.extend(more),
                Err(e) => bench.miss(domain, &what, &e),
            }
        }
        let extra = match domain {
            Domain::HostHost => sockets(bench, plan.rounds),
            Domain::KvmBare => super::bare_vm::bare_vm(bench, i, plan.rounds),
            Domain::GuestNet => bare_network(bench, i, plan.rounds),
            _ => Ok(Vec::new()),
        };
        match extra {
            Ok(more) => rows.extend(more),
            Err(e) if domain == Domain::KvmBare => bench.miss(domain, "round trips", &e),
            Err(e) => bench.miss(domain, "sockets", &e),
        }
    }
    let mut report = LatencyReport::new(bench.machine(), bench.settings(1.0, plan.rounds));
    report.rows = rows;
    Ok(report)
}

/// What a domain's call is compared with, where memory is shared.
fn variants(domain: Domain) -> Vec<Trip> {
    match domain {
        Domain::GuestNet => vec![Trip::Null],
        _ => vec![Trip::Null, Trip::Floor],
    }
}

/// Turns, most samples in one, and its time in ms.
fn effort(domain: Domain, rounds: u32) -> (usize, u32, u32) {
    match domain {
        Domain::GuestNet => (rounds.min(5) as usize, 2_000, 400),
        _ => ((rounds * TURNS) as usize, 20_000, SLICE.as_millis() as u32),
    }
}

/// The null call and the floor in turns.
fn round_trips(bench: &mut Bench, place: usize, plan: &LatencyPlan) -> Result<Vec<LatencyRow>> {
    let domain = bench.place(place).domain();
    let of = variants(domain);
    let (turns, samples, millis) = effort(domain, plan.rounds);
    let mut places = InTurns::new(bench, "round trips", vec![place; of.len()]);
    let job = |v: usize, _| (Job::Trips { of: of[v].clone(), samples, millis }, SLICE);
    let turns = places.run(turns, job, |_, _, outcome| match outcome {
        Outcome::Trips(percentiles) => Some(percentiles),
        _ => None,
    })?;
    let mut rows = Vec::new();
    for (v, kind) in [Kind::NullCall, Kind::Floor].into_iter().enumerate().take(of.len()) {
        if turns.figures(v).is_empty() {
            continue;
        }
        let row = LatencyRow::new(domain, &places.transport(v), kind);
        let mut row = row.with_percentiles(&turns.kept(v));
        if v == 0 && of.len() > 1 {
            row = row.against(turns.over(0, 1, |p| p.p50 as f64));
        }
        row.calls_per_s = row.p50_ns.filter(|&ns| ns > 0.0).map(|ns| 1e9 / ns);
        row.in_flight = Some(1);
        rows.push(row);
    }
    Ok(rows)
}

/// The same with several under way.
fn in_flight(
    bench: &mut Bench,
    place: usize,
    plan: &LatencyPlan,
    n: u32,
) -> Result<Vec<LatencyRow>> {
    let domain = bench.place(place).domain();
    let of = variants(domain);
    let (turns, _, millis) = effort(domain, plan.rounds);
    let mut places = InTurns::new(bench, "calls in flight", vec![place; of.len()]);
    let millis = millis.min(100);
    let job = |v: usize, _| (Job::Rate { of: of[v].clone(), in_flight: n, millis }, SLICE);
    let turns = places.run(turns, job, |_, _, outcome| match outcome {
        Outcome::PerS(per_s) => Some(per_s),
        _ => None,
    })?;
    let mut rows = Vec::new();
    for (v, kind) in [Kind::Pipelined, Kind::FloorInFlight].into_iter().enumerate().take(of.len()) {
        if turns.figures(v).is_empty() {
            continue;
        }
        let row = LatencyRow::new(domain, &places.transport(v), kind);
        let row = row.with_calls_per_s(n, &turns.kept(v));
        let over = (v == 0 && of.len() > 1).then(|| turns.over(0, 1, |per_s| *per_s));
        rows.push(match over {
            Some(floor) => row.against(floor),
            None => row,
        });
    }
    Ok(rows)
}

/// Round trips between two threads on the two processors, over sockets.
fn sockets(bench: &Bench, rounds: u32) -> Result<Vec<LatencyRow>> {
    let _here = Pinned::to(bench.plan().caller());
    let clock = Clock::calibrate();
    let mut rows = Vec::new();
    for (tcp, kind) in [(false, Kind::Unix), (true, Kind::Tcp)] {
        for busy in [false, true] {
            let limit = Duration::from_millis(150);
            let trips = socket_trips(
                &clock,
                (tcp, busy),
                bench.plan().service(),
                rounds.min(5),
                5_000,
                limit,
            )?;
            let transport =
                format!("{}, {}", kind.as_str(), if busy { "busy-polled" } else { "blocking" });
            rows.push(LatencyRow::new(Domain::HostHost, &transport, kind).with_percentiles(&trips));
        }
    }
    Ok(rows)
}

/// Round trips from the guest to a thread of the host, with nothing of VirtFun between.
fn bare_network(bench: &mut Bench, place: usize, rounds: u32) -> Result<Vec<LatencyRow>> {
    let server = EchoServer::start(bench.plan().service())?;
    let address = match bench.guest() {
        Some(_) => format!("{}:{}", crate::lab::GATEWAY, server.port()),
        None => return Ok(Vec::new()),
    };
    let job = Job::Tcp { address, rounds: rounds.min(5), samples: 2_000, millis: 400 };
    bench.place(place).rows(&job)
}
