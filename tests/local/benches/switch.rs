//! What a switch between software and a VF adds to the call that crosses it:
//! `cargo bench -p vfun-tests-local --bench switch [-- SWITCHES [pin]]`.
//!
//! One grant of the test driver, which is its own pretended hardware, is moved
//! to a VF and back each ten milliseconds or so while one thread calls without
//! a pause. A call crossed if the other place answered it than the one before.
//! Added is its time less the median of the calls around it. With `pin` the
//! caller keeps the first processor and everything of the host the others.
//! Also shown: the same for a caller that rests between calls; what the calls
//! around a switch lost together; and calls far from any switch, in the same run.
//! In a virtual machine *stolen* is the time for which its processors wanted to
//! run and others' ran: beyond a few milliseconds the tail is theirs. So the
//! switches during which the kernel's count of it stood still are also shown by
//! themselves; it counts in 10 ms, and a smaller theft is seen late or never.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun::{Function, FunctionRequest};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, repo};

/// Calls to each side of a crossing call that are its neighbours.
const AROUND: usize = 32;
/// Time between two orders to move.
const EVERY: Duration = Duration::from_millis(12);

fn arguments(call: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[0] = vfun_testdriver::Mode::Order as u8;
    args[8..].copy_from_slice(&call.to_le_bytes());
    args
}

fn order(stand: &Stand, policy: vfun_leases::Policy) {
    let ask = Ask::SetLeases { policy: Some(policy), interval_ms: None, min_hold_ms: None };
    assert!(matches!(stand.ask(&ask), Reply::Done { .. }));
}

/// A call: when it was answered, ns since `calls` began, how long it took, ns,
/// and who answered.
struct Call {
    at: u64,
    ns: u64,
    by: u64,
}

/// What was stolen until then, ms, at each order to move, and when that was.
type Thefts = Vec<(Instant, u64)>;

/// Whether the count of what was stolen stood still from the order before
/// `at` until the one after the next.
fn undisturbed(thefts: &Thefts, at: Instant) -> bool {
    let next = thefts.partition_point(|(when, _)| *when <= at);
    let (from, to) = (next.saturating_sub(1), (next + 1).min(thefts.len() - 1));
    thefts[from].1 == thefts[to].1
}

fn calls(f: &Function, pause: Duration, stop: &AtomicBool, began: Instant) -> Vec<Call> {
    let mut all = Vec::with_capacity(1 << 22);
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let args = arguments(number);
        let from = Instant::now();
        let got = f.call(&args).expect("no call fails");
        let ns = from.elapsed().as_nanos() as u64;
        let word = |i: usize| u64::from_le_bytes(got[8 * i..8 * i + 8].try_into().expect("eight"));
        assert_eq!(word(0), number, "the answer is to this call");
        all.push(Call { at: (from - began).as_nanos() as u64 + ns, ns, by: word(4) });
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    all
}

fn median(ns: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<_> = ns.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

fn row(name: &str, mut all: Vec<u64>) {
    all.sort_unstable();
    let at = |q: f64| all[((all.len() - 1) as f64 * q) as usize] as f64 / 1000.0;
    println!(
        "{name:48} {:7} {:9.2} {:9.2} {:9.2} {:9.2}",
        all.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

/// What other virtual machines took of this one's processors so far, ms.
fn stolen() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = stat.split_ascii_whitespace().nth(8).and_then(|n| n.parse().ok());
    // In hundredths of a second, on all of Linux.
    field.unwrap_or(0) * 10
}

/// Lets this thread, and all that it starts, run on these processors.
fn run_on(processors: std::ops::Range<usize>) {
    let mut set = CpuSet::new();
    processors.for_each(|c| set.set(c));
    sched_setaffinity(None, &set).expect("it is ours");
}

fn measure(pause: Duration, switches: usize, pin: bool) {
    if pin {
        // The thread that gives the orders, and the host's processes.
        run_on(1..CpuSet::MAX_CPU);
    }
    let stand =
        Stand::with(&["--leases", "none", "--lease-interval-ms", "10", "--lease-hold-ms", "0"]);
    let text = std::fs::read_to_string(repo().join("services/testdriver/function.toml")).unwrap()
        + "hardware = { location = \"fpga-simulated\", library = \"libvfun_testdriver.so\", instances = 1, leased = true }\n";
    stand.ask(&Ask::AddFunction { manifest: text, file: "test.toml".into() });
    let session = stand.connect("switch");
    let f = session.negotiate(&FunctionRequest::new("misbehave")).unwrap().activate().unwrap();
    let (stop, began) = (AtomicBool::new(false), Instant::now());
    let mut thefts = vec![(began, stolen())];
    let all = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            if pin {
                run_on(0..1);
            }
            calls(&f, pause, &stop, began)
        });
        std::thread::sleep(Duration::from_millis(300));
        for n in 0..switches {
            use vfun_leases::Policy;
            thefts.push((Instant::now(), stolen()));
            order(&stand, if n % 2 == 0 { Policy::First } else { Policy::None });
            std::thread::sleep(EVERY);
        }
        thefts.push((Instant::now(), stolen()));
        stop.store(true, Ordering::Relaxed);
        caller.join().expect("no call failed")
    });
    let crossed: Vec<usize> = (1..all.len()).filter(|&i| all[i].by != all[i - 1].by).collect();
    let name = if pause.is_zero() { "without a pause".into() } else { format!("each {pause:?}") };
    println!(
        "\ncalls {name}{}: {} calls, {} crossed a switch, {} errors; median {} ns; stolen {} ms",
        if pin { ", pinned" } else { "" },
        all.len(),
        crossed.len(),
        stand.grants().iter().map(|g| g.counters.errors).sum::<u64>(),
        median(all.iter().map(|c| c.ns)),
        thefts[thefts.len() - 1].1 - thefts[0].1,
    );
    show(&all, &crossed, |at| undisturbed(&thefts, began + Duration::from_nanos(at)));
}

/// How much longer the calls around a switch took than those near them.
fn show(all: &[Call], crossed: &[usize], undisturbed: impl Fn(u64) -> bool) {
    let (mut added, mut alone, mut around, mut far) = (vec![], vec![], vec![], vec![]);
    for &i in crossed {
        let (from, to) = (i.saturating_sub(AROUND), (i + AROUND + 1).min(all.len()));
        let usual = median((from..to).filter(|j| *j != i).map(|j| all[j].ns));
        added.push(all[i].ns.saturating_sub(usual));
        if undisturbed(all[i].at) {
            alone.push(all[i].ns.saturating_sub(usual));
        }
        around.push((from..to).map(|j| all[j].ns.saturating_sub(usual)).sum());
    }
    for w in crossed.windows(2) {
        let mid = (w[0] + w[1]) / 2;
        if w[1] - w[0] > 4 * AROUND {
            let usual = median((mid - AROUND..mid + AROUND).map(|j| all[j].ns));
            far.push(all[mid].ns.saturating_sub(usual));
        }
    }
    println!(
        "{:48} {:>7} {:>9} {:>9} {:>9} {:>9}",
        "µs beyond the median around", "", "p50", "p90", "p99", "most"
    );
    for (what, times) in [
        ("the call that crossed".to_owned(), added),
        ("the same while nothing was stolen".to_owned(), alone),
        (format!("the {} calls around it, together", 2 * AROUND + 1), around),
        ("a call far from any switch".to_owned(), far),
    ] {
        if !times.is_empty() {
            row(&what, times);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let switches = args.first().map_or(2000, |n| n.parse().expect("how many switches"));
    let pin = args.iter().any(|a| a == "pin");
    measure(Duration::ZERO, switches, pin);
    measure(Duration::from_micros(500), switches / 4, pin);
}
