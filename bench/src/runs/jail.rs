//! The sandbox: what each layer costs when a service starts, and at a call.

use super::{Where, progress};
use crate::lab::{HOST_CLIENT, Manager, Pinned, Plan};
use crate::method::{Watch, turns};
use crate::report::jail::{JailReport, JailRow};
use crate::report::{Machine, stats};
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, FunctionRequest, Session};

/// Asked for in turns, so that each one's service has ended when its turn comes again.
const FUNCTIONS: [&str; 5] = ["factorial", "fibonacci", "sum", "sha256", "null"];
/// How long a service stays without a grant, and some.
const LINGER: Duration = Duration::from_millis(1_300);
/// Turns of null calls, with and without.
const TURNS: usize = 101;
/// Null calls of a batch, and batches of a slice: some 2 ms.
const BATCH: u32 = 500;
const BATCHES: usize = 9;

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct JailPlan {
    /// Starts with each set of layers.
    pub starts: u32,
    /// Also with all layers but one, for each.
    pub each: bool,
}

fn session(manager: &Manager) -> Result<Session> {
    let socket = manager.root().join("host.sock");
    Ok(ConnectOptions::new("bench-jail")
        .client(HOST_CLIENT)
        .endpoint(Endpoint::Host(Some(socket)))
        .connect()?)
}

/// Times starts, and says which layers the services lacked.
fn starts(manager: &Manager, count: u32) -> Result<(Vec<f64>, Vec<String>)> {
    let session = session(manager)?;
    let mut times = Vec::new();
    let mut missing = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    // The first of each reads files that were not in memory.
    let warm = FUNCTIONS.len();
    for (i, name) in FUNCTIONS.iter().cycle().take(count as usize + warm).enumerate() {
        let start = Instant::now();
        let function = session.negotiate(&FunctionRequest::new(*name))?.activate()?;
        let ns = start.elapsed().as_nanos() as f64;
        if seen.insert(function.stats()?.pid) && i >= warm {
            times.push(ns);
        }
        if i == warm {
            missing = manager.missing_layers()?;
        }
        function.release()?;
        std::thread::sleep(LINGER / FUNCTIONS.len() as u32);
    }
    Ok((times, missing))
}

/// The median of batches of null calls, ns a call.
fn null_call(function: &vfun::Function) -> Result<f64> {
    let mut means = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            function.call_into(&[], &mut [])?;
        }
        means.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    stats::median(&means).ok_or_else(|| BenchError::Options("no call was timed".into()))
}

pub fn jail(at: &Where, plan: &JailPlan) -> Result<JailReport> {
    let all: Vec<String> = vfun_jail::Layer::ALL.iter().map(|l| l.name().to_owned()).collect();
    let mut sets = vec![("whole".to_owned(), vec![]), ("none".to_owned(), all.clone())];
    if plan.each {
        sets.extend(all.into_iter().map(|l| (l.clone(), vec![l])));
    }
    let mut rows = Vec::new();
    for (name, without) in sets {
        progress(format_args!("jail: starts, {name}"));
        let manager = at.manager_without(&[], None, &[], &without)?;
        match starts(&manager, plan.starts) {
            Ok((times, missing)) => rows.extend(JailRow::of(&name, missing, &times)),
            // Without a root of its own a client's user needs a way to the programs.
            Err(e) if plan.each => progress(format_args!("jail: not measured, {name}: {e}")),
            Err(e) => return Err(e),
        }
    }
    calls(at, rows)
}

/// Null calls, with the whole sandbox and without one.
fn calls(at: &Where, rows: Vec<JailRow>) -> Result<JailReport> {
    progress("jail: null calls");
    // Caller and service each have a processor, as in other measurements of a call.
    let pins = Plan::new(true);
    let services: Vec<usize> = pins.service().into_iter().collect();
    let whole = at.manager_without(&[], None, &services, &[])?;
    let all: Vec<String> = vfun_jail::Layer::ALL.iter().map(|l| l.name().to_owned()).collect();
    let none = at.manager_without(&[], None, &services, &all)?;
    let _pinned = Pinned::to(pins.caller());
    let both = [&whole, &none].map(|manager| {
        let session = session(manager)?;
        let null = session.function("null")?;
        null_call(&null)?;
        let pid = null.stats()?.pid;
        Ok((null, session, pid))
    });
    let both = both.into_iter().collect::<Result<Vec<_>>>()?;
    let watch = Watch::new(&pins.both(), both.iter().map(|b| b.2));
    let turns = turns(TURNS, 2, &watch, |which, _| {
        // Awake, and warm. The other's service is asleep by then.
        null_call(&both[which].0)?;
        null_call(&both[which].0).map(Some)
    })?;
    let median = |which| stats::median(&turns.kept(which)).unwrap_or_default();
    let ratio = turns.over(0, 1, |ns| *ns);
    Ok(JailReport {
        machine: Machine::collect(),
        rows,
        call_ns: median(0),
        call_without_ns: median(1),
        call_ratio: ratio.ratio,
        call_ratio_low: ratio.low,
        call_ratio_high: ratio.high,
        pairs: ratio.pairs,
        dropped: ratio.dropped,
    })
}
