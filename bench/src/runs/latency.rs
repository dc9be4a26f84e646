//! One call, and many, each beside its floor.

use super::{Bench, progress};
use crate::Result;
use crate::lab::Pinned;
use crate::measure::{Clock, EchoServer, Job, socket_trips};
use crate::report::{Domain, Kind, LatencyReport, LatencyRow};
use std::time::Duration;

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

    /// The jobs of a domain. Over a network all takes a thousand times as long, so less
    /// of it is done.
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
        let millis = if net { 400 } else { 60 };
        let samples = if net { 2_000 } else { 20_000 };
        let in_flight = self.in_flight.iter().copied().filter(|n| !net || [1, 8, 64].contains(n));
        let rates = Job::Rates {
            in_flight: in_flight.collect(),
            rounds: few,
            millis: if net { 100 } else { 25 },
        };
        let mut jobs = vec![
            ("round trips".to_owned(), Job::RoundTrips { rounds, samples, millis }),
            ("calls in flight".to_owned(), rates),
        ];
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

/// Runs it.
pub fn latency(bench: &mut Bench, plan: &LatencyPlan) -> Result<LatencyReport> {
    let mut rows = Vec::new();
    for i in 0..bench.len() {
        let domain = bench.place(i).domain();
        progress(format_args!("latency: {domain}"));
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
