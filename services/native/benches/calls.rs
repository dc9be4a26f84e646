//! What a call through a service costs beyond two cache lines: null calls
//! against raw lines (the floor), one in flight and many, host to host.
//!
//! `cargo bench -p vfun-native`. Service and caller run on one processor each
//! (the first and the second, or as the environment's CPUS=a,b says). Rounds of
//! both alternate, and each is short, so that a machine's moods hit both alike;
//! medians of the rounds are reported.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{App, Service, Shape, native, start_of};
use std::time::Instant;
use vfun_ring::{Memory, PollAnswer, sync::Ordering};
use vfun_supervise::Driver;
use vfun_window::pause;
use vfun_wire::channel::{Command, Word0, line_off};
use vfun_wire::kind::ChannelKind;

const ROUNDS: usize = 60;
const DEPTH: u16 = 64;

fn wait(app: &App, ticket: &vfun_ring::Ticket) {
    let mut looks = 0u32;
    loop {
        match app.caller.look(ticket) {
            PollAnswer::Done(_) => return,
            PollAnswer::NotYet => pause(),
            other => panic!("{other:?}"),
        }
        looks += 1;
        if looks.is_multiple_of(512) {
            app.ring();
        }
    }
}

fn post(app: &App, args: &[u8]) -> vfun_ring::Ticket {
    let ticket = app.post_quietly(Command::Set, args);
    if app.caller.seems_asleep() {
        app.ring();
    }
    ticket
}

/// Sorted times of single calls, ns.
fn call_times(app: &App, args: &[u8], n: usize) -> Vec<u64> {
    let mut times: Vec<u64> = (0..n)
        .map(|_| {
            let from = Instant::now();
            let ticket = post(app, args);
            wait(app, &ticket);
            let t = from.elapsed().as_nanos() as u64;
            app.caller.take(ticket);
            t
        })
        .collect();
    times.sort_unstable();
    times
}

/// Millions a second with `depth` calls in flight.
fn call_rate(app: &App, args: &[u8], flight: usize, n: usize) -> f64 {
    let from = Instant::now();
    let mut open = std::collections::VecDeque::with_capacity(flight);
    for _ in 0..flight {
        open.push_back(post(app, args));
    }
    for _ in flight..n {
        let first = open.pop_front().unwrap();
        wait(app, &first);
        app.caller.take(first);
        open.push_back(post(app, args));
    }
    for ticket in open {
        wait(app, &ticket);
        app.caller.take(ticket);
    }
    n as f64 / from.elapsed().as_secs_f64() / 1e6
}

/// As [`call_rate`], by a caller that does the least it can: what the service
/// itself can take. The channel's cells must all be free; it moves them on.
fn lean_rate(app: &App, lap: &mut u32, flight: u32, n: u32) -> f64 {
    let mem = app.caller.memory();
    let depth = u32::from(DEPTH);
    let seq = |call: u32| *lap + call / depth + 1;
    let at = |call: u32| line_off((call % depth) as usize) / 8;
    let send = |call: u32| {
        mem.store(at(call) + 1, 0, Ordering::Relaxed);
        let word = Word0 { seq: seq(call), op: Command::Set.to_wire(), ..Word0::default() };
        mem.store(at(call), word.pack(), Ordering::Release);
    };
    assert!(n.is_multiple_of(depth));
    let from = Instant::now();
    (0..flight).for_each(send);
    for call in 0..n {
        let mut looks = 0u32;
        while Word0::unpack(mem.load(at(call), Ordering::Acquire)).seq != seq(call) {
            pause();
            looks += 1;
            if looks.is_multiple_of(512) {
                app.ring();
            }
        }
        if call + flight < n {
            send(call + flight);
        }
    }
    *lap += n / depth;
    f64::from(n) / from.elapsed().as_secs_f64() / 1e6
}

struct Raw<'a> {
    app: &'a App,
    sent: u64,
}

impl Raw<'_> {
    fn send(&mut self, value: u64) {
        let at = line_off((value - 1) as usize % usize::from(DEPTH)) / 8;
        self.app.caller.memory().store(at, value, Ordering::Release);
        self.sent = value;
    }
    fn await_(&self, value: u64) {
        let at = line_off((value - 1) as usize % usize::from(DEPTH)) / 8;
        let mut looks = 0u32;
        while self.app.caller.memory().load(at, Ordering::Acquire) != value {
            pause();
            looks += 1;
            if looks.is_multiple_of(512) {
                self.app.ring();
            }
        }
    }
    fn times(&mut self, n: usize) -> Vec<u64> {
        let mut times: Vec<u64> = (0..n)
            .map(|_| {
                let from = Instant::now();
                let v = self.sent + 1;
                self.send(v);
                self.await_(v);
                from.elapsed().as_nanos() as u64
            })
            .collect();
        times.sort_unstable();
        times
    }
    fn rate(&mut self, flight: u64, n: u64) -> f64 {
        let from = Instant::now();
        let start = self.sent;
        for v in start + 1..=start + flight {
            self.send(v);
        }
        for v in start + 1..=start + n {
            self.await_(v);
            if v + flight <= start + n {
                self.send(v + flight);
            }
        }
        n as f64 / from.elapsed().as_secs_f64() / 1e6
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let cpus = std::env::var("CPUS").unwrap_or_else(|_| "0,1".into());
    let cpus: Vec<usize> = cpus.split(',').map(|c| c.parse().unwrap()).collect();
    let on = |mut start: vfun_supervise::Start| {
        start.cpus = vec![cpus[0]];
        start
    };
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpus[1]);
    rustix::thread::sched_setaffinity(None, &set).unwrap();

    let mut echo = Service::start(on(start_of("echo", native("libvfun_fn_echo.so"))));
    let mut factorial =
        Service::start(on(start_of("factorial", native("libvfun_fn_factorial.so"))));
    let mut floor = Service::start(on(start_of("floor", Driver::Floor)));
    let shape = Shape { depth: DEPTH, ..Shape::default() };
    let (null, fact) = (echo.open(1, shape.clone()), factorial.open(1, shape.clone()));
    let (lean, mut lap) = (echo.open(2, shape.clone()), 0);
    let raw = floor.open(1, Shape { kind: ChannelKind::Floor, cell_bytes: 0, ..shape });
    let mut raw = Raw { app: &raw, sent: 0 };
    let two = [1u64.to_le_bytes(), 1u64.to_le_bytes()].concat();

    // For a profiler: nothing but null calls, many in flight.
    if std::env::var_os("ONLY_NULL").is_some() {
        let all = (0..ROUNDS * 10).map(|_| call_rate(&null, &[], 64, 100_000)).collect();
        println!("{:.2} M/s", median(all));
        return;
    }
    type Row = (&'static str, Vec<f64>);
    let names = ["raw p50 ns", "null p50 ns", "null/raw", "null p99 ns", "16B p50 ns"];
    let rates = ["raw M/s", "null M/s", "16B M/s", "lean null M/s"];
    let mut rows: Vec<Row> = names.iter().map(|&n| (n, vec![])).collect();
    let mut rate_rows: Vec<(usize, Row)> =
        [1, 8, 64].iter().flat_map(|&f| rates.iter().map(move |&n| (f, (n, vec![])))).collect();
    for round in 0..=ROUNDS {
        let (r, n, f) =
            (raw.times(4_000), call_times(&null, &[], 4_000), call_times(&fact, &two, 4_000));
        let p = |t: &[u64], percent: usize| t[t.len() * percent / 100] as f64;
        let (r50, n50) = (p(&r, 50), p(&n, 50));
        let all = [r50, n50, n50 / r50, p(&n, 99), p(&f, 50)];
        let flights = [1usize, 8, 64].map(|k| {
            let n = if k == 1 { 1_984 } else { 9_984 };
            [
                raw.rate(k as u64, n as u64),
                call_rate(&null, &[], k, n),
                call_rate(&fact, &two, k, n),
                lean_rate(&lean, &mut lap, k as u32, n as u32),
            ]
        });
        if round == 0 {
            continue; // warm-up
        }
        rows.iter_mut().zip(all).for_each(|((_, v), x)| v.push(x));
        rate_rows
            .iter_mut()
            .zip(flights.into_iter().flatten())
            .for_each(|((_, (_, v)), x)| v.push(x));
    }
    for (name, all) in rows {
        println!("{name:>14} {:8.2}", median(all));
    }
    for (flight, (name, all)) in rate_rows {
        println!("{name:>14} {:8.2}  with {flight} in flight", median(all));
    }
}
