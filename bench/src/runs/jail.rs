//! The sandbox: what each layer costs when a service starts, and at a call.

use super::{Where, progress};
use crate::lab::{HOST_CLIENT, Manager, Pinned, Plan};
use crate::report::jail::{JailReport, JailRow};
use crate::report::{Machine, stats};
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, FunctionRequest, Session};

/// Asked for in turns, so that each one's service has ended when its turn comes again.
const FUNCTIONS: [&str; 5] = ["factorial", "fibonacci", "sum", "sha256", "null"];
/// How long a service stays without a grant, and some.
const LINGER: Duration = Duration::from_millis(1_300);
/// Rounds of null calls, with and without in turns, and calls of a round.
const ROUNDS: usize = 15;
const BATCHES: usize = 40;
const BATCH: u32 = 500;

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

/// Runs it.
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
    progress("jail: null calls");
    // Caller and service each have a processor, as in other measurements of a call.
    let pins = Plan::new(true);
    let services: Vec<usize> = pins.service().into_iter().collect();
    let whole = at.manager_without(&[], None, &services, &[])?;
    let all: Vec<String> = vfun_jail::Layer::ALL.iter().map(|l| l.name().to_owned()).collect();
    let none = at.manager_without(&[], None, &services, &all)?;
    let _pinned = Pinned::to(pins.caller());
    let mut figures: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (manager, figures) in [&whole, &none].into_iter().zip(&mut figures) {
            // Of its own each time, so that the other's service does not spin meanwhile.
            let session = session(manager)?;
            let null = session.function("null")?;
            null_call(&null)?;
            figures.push(null_call(&null)?);
            null.release()?;
        }
    }
    let [with, without] = figures;
    let ratios: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a / b).collect();
    let median = |v: &[f64]| stats::median(v).unwrap_or_default();
    Ok(JailReport {
        machine: Machine::collect(),
        rows,
        call_ns: median(&with),
        call_without_ns: median(&without),
        call_ratio: median(&ratios),
        call_ratios: stats::range(&ratios).unwrap_or_default(),
    })
}
