//! WebAssembly: a call and its work beside the native kin, each through a service
//! of its own; and how soon a submitted module serves.

use super::{Where, progress};
use crate::error::Doing;
use crate::lab::{HOST_CLIENT, Manager, Pinned, Plan};
use crate::method::{Watch, turns};
use crate::report::wasm::{SubmitRow, WasmReport, WasmRow};
use crate::report::{Machine, stats};
use crate::{BenchError, Result};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Function, Session, Submission};
use vfun_admin::Ask;

/// Turns of native and WebAssembly.
const TURNS: usize = 201;
/// Null calls of a batch, and batches of a slice: some 2 ms.
const BATCH: u32 = 500;
const BATCHES: usize = 9;
/// Factorials in one call: some 3 ms.
const REPETITIONS: u64 = 100_000;
const WORKS: usize = 1;
/// How long a service stays without a grant, and some.
const LINGER: Duration = Duration::from_millis(1_300);
/// Who measures may submit, as fast as it does.
const POLICY: &str = "[default]\nsubmit = true\nsubmits_per_min = 6000\n";

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct WasmPlan {
    /// Modules submitted, of each kind.
    pub modules: u32,
}

fn session(manager: &Manager) -> Result<Session> {
    let socket = manager.root().join("host.sock");
    Ok(ConnectOptions::new("bench-wasm")
        .client(HOST_CLIENT)
        .endpoint(Endpoint::Host(Some(socket)))
        .connect()?)
}

/// The modules that `make wasm` puts beside the drivers.
fn module(at: &Where, name: &str) -> Result<Vec<u8>> {
    let beside = || {
        let program = std::env::current_exe().unwrap_or_default();
        program.parent().map(PathBuf::from).unwrap_or_default()
    };
    let path = at.drivers.clone().unwrap_or_else(beside).join(format!("{name}.wasm"));
    std::fs::read(&path).doing(|| format!("{} is not there: `make wasm` makes it", path.display()))
}

/// The median of batches of null calls, ns a call.
fn null_call(function: &Function) -> Result<f64> {
    let mut means = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            function.call_into(&[0; 16], &mut [0; 8])?;
        }
        means.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    stats::median(&means).ok_or_else(|| BenchError::Options("no call was timed".into()))
}

/// The median of some calls with much work, ns for each piece of it.
fn work(function: &Function) -> Result<f64> {
    let args = [51u64.to_le_bytes(), REPETITIONS.to_le_bytes()].concat();
    let mut times = Vec::with_capacity(WORKS);
    for _ in 0..WORKS {
        let start = Instant::now();
        function.call(&args)?;
        times.push(start.elapsed().as_nanos() as f64 / REPETITIONS as f64);
    }
    stats::median(&times).ok_or_else(|| BenchError::Options("no call was timed".into()))
}

/// Both in turns, each alone: the other's service does not spin meanwhile.
fn in_turns(
    manager: &Manager,
    what: &str,
    [native, wasm]: [&str; 2],
    time: fn(&Function) -> Result<f64>,
) -> Result<WasmRow> {
    // Both services are there, which are then watched.
    let both = [native, wasm].map(|name| {
        let session = session(manager)?;
        let function = session.function(name)?;
        time(&function)?;
        let pid = function.stats()?.pid;
        Ok((function, session, pid))
    });
    let both = both.into_iter().collect::<Result<Vec<_>>>()?;
    let watch = Watch::new(&Plan::new(true).both(), both.iter().map(|b| b.2));
    let turns = turns(TURNS, 2, &watch, |which, _| {
        // Awake, and warm.
        time(&both[which].0)?;
        time(&both[which].0).map(Some)
    })?;
    for (function, ..) in both {
        function.release()?;
    }
    Ok(WasmRow::of(what, &turns))
}

/// The module with something in it that makes it another one, and means nothing.
fn another(module: &[u8], n: u32) -> Vec<u8> {
    // A section of the author's own: its bytes, the length of its name, the name.
    let section = [&[0, 10, 5][..], b"bench", &n.to_le_bytes()].concat();
    [module, &section].concat()
}

/// From handing a module over to its first result, again and again.
fn submissions(manager: &Manager, module: &[u8], count: u32, cold: bool) -> Result<Vec<[f64; 3]>> {
    let session = session(manager)?;
    let mut times = Vec::new();
    // The first reads files that were not in memory.
    for n in 0..=count {
        if cold {
            std::thread::sleep(LINGER);
        }
        let bytes = another(module, n + if cold { 0 } else { 1 << 16 });
        let name = format!("bench{n}");
        let start = Instant::now();
        let done = session.submit_module(&Submission::new(&bytes).name(&name))?;
        let submitted = start.elapsed().as_nanos() as f64;
        let function = session.function(&done.function.name)?;
        let args = [5u64.to_le_bytes(), 1u64.to_le_bytes()].concat();
        let result = function.call(&args)?;
        let whole = start.elapsed().as_nanos() as f64;
        if result != 120u64.to_le_bytes() {
            return Err(BenchError::Options("5! is not 120 here".into()));
        }
        function.release()?;
        session.withdraw_module(&name)?;
        if n > 0 {
            times.push([whole, submitted, done.function.compiled_in.as_nanos() as f64]);
        }
    }
    Ok(times)
}

pub fn wasm(at: &Where, plan: &WasmPlan) -> Result<WasmReport> {
    let (null, factorial) = (module(at, "null_wasm")?, module(at, "factorial_wasm")?);
    let allow = Ask::SetPolicy { text: POLICY.into(), file: "bench.toml".into() };
    let mut rows = vec![];
    {
        // Caller and service each have a processor, as in other measurements of a call.
        let pins = Plan::new(true);
        let services: Vec<usize> = pins.service().into_iter().collect();
        let manager = at.manager_without(&[], None, &services, &[])?;
        manager.ask(&allow)?;
        let s = session(&manager)?;
        s.submit_module(&Submission::new(&null).name("null"))?;
        s.submit_module(&Submission::new(&factorial).name("factorial"))?;
        drop(s);
        let _pinned = Pinned::to(pins.caller());
        progress("wasm: null calls");
        rows.push(in_turns(&manager, "a null call with 16 bytes", ["null", "my.null"], null_call)?);
        progress("wasm: factorials");
        let what = "51! modulo 2^64, by itself";
        rows.push(in_turns(&manager, what, ["factorial", "my.factorial"], work)?);
    }
    let manager = at.manager_without(&[], None, &[], &[])?;
    manager.ask(&allow)?;
    let mut all = vec![];
    for (cold, name) in [(true, "its service not yet there"), (false, "its service there")] {
        progress(format_args!("wasm: submissions, {name}"));
        let times = submissions(&manager, &factorial, plan.modules, cold)?;
        all.extend(SubmitRow::of(name, &times));
    }
    Ok(WasmReport {
        machine: Machine::collect(),
        rows,
        submissions: all,
        module_bytes: another(&factorial, 0).len(),
    })
}
