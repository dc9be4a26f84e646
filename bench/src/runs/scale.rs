//! Many clients and channels on one host, few of them busy: what the others cost.

use super::{Where, progress};
use crate::lab::{Manager, Pinned, Plan, cpu_time, proportional_bytes};
use crate::measure::{Clock, busy_callers, null_calls, paced_calls};
use crate::method::{Turns, Watch, turns};
use crate::report::stats::Percentiles;
use crate::report::{Machine, ScaleReport, ScaleRow, Settings, stats};
use crate::{BenchError, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Function, FunctionRequest, Session};

/// Clients, and channels of all of them.
const SIZES: [(u32, u32); 8] =
    [(1, 1), (1, 8), (1, 64), (1, 1000), (8, 64), (10, 1000), (100, 100), (100, 1000)];
/// Those of a short run.
const SHORT: [(u32, u32); 2] = [(1, 4), (4, 32)];
/// What a size is held against: one client.
const CONTROL: u32 = 8;
/// Channels that are busy at once in the second part.
const BUSY: usize = 8;
/// What services do after their last call until they are at rest, watch included.
const SETTLE: Duration = Duration::from_millis(2_500);
/// The same in a short run, whose idle shares have the watch's last second in them.
const SETTLE_SHORT: Duration = Duration::from_millis(300);
/// How long a killed manager may take to be gone.
const GONE: Duration = Duration::from_secs(10);
/// Between two calls while a manager is taken over: the service has its processor.
const PACE: Duration = Duration::from_millis(1);

/// Turns of a comparison in each repeat.
const TURNS: u32 = 6;

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct ScalePlan {
    /// How often calls are measured, and a manager is taken over.
    pub repeats: u32,
    /// How long all that is idle is looked at.
    pub idle: Duration,
    /// Whether only small sizes are run.
    pub short: bool,
}

/// Runs it: a manager for each size, and one for the control.
///
/// # Errors
/// [`BenchError`]: a manager does not start, or a call fails.
pub fn scale(at: &Where, plan: &ScalePlan) -> Result<ScaleReport> {
    let machine = Machine::collect();
    let pins = Plan::new(at.pin);
    raise_descriptors();
    let _pinned = Pinned::to(pins.caller());
    let control = Crowd::open(at, &pins, 1, CONTROL)?;
    let bench = Scale { plan: *plan, clock: Clock::calibrate(), pins, control };
    let mut rows = Vec::new();
    let sizes = if plan.short { &SHORT[..] } else { &SIZES };
    for &(clients, channels) in sizes {
        progress(format_args!("scale: {clients} clients, {channels} channels"));
        rows.push(bench.size(at, clients, channels)?);
    }
    let settings = Settings { repeats: plan.repeats, pinning: pins.words(), ..Settings::default() };
    let settings = settings.with("idle_seconds", plan.idle.as_secs_f64());
    Ok(ScaleReport::new(machine, settings, rows))
}

/// A hundred sessions have a socket and their bells, and each channel may have one more.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A manager, and its clients' channels. Dropped in this order.
struct Crowd {
    functions: Vec<Function>,
    /// One of each client.
    sessions: Vec<Session>,
    row: ScaleRow,
    manager: Manager,
}

impl Crowd {
    fn open(at: &Where, pins: &Plan, clients: u32, channels: u32) -> Result<Self> {
        let services: Vec<_> = pins.service().into_iter().collect();
        let manager = at.manager(&[], None, &services)?;
        let row = ScaleRow { clients, channels, ..ScaleRow::default() };
        let mut crowd = Crowd { functions: vec![], sessions: vec![], row, manager };
        for client in 0..clients {
            crowd.add(&format!("scale-{client}"), channels.div_ceil(clients))?;
        }
        crowd.activate(channels.div_ceil(clients))?;
        Ok(crowd)
    }

    /// A client with room for so many channels, and its session.
    fn add(&mut self, name: &str, channels: u32) -> Result<()> {
        let manifest = format!(
            "name = \"{name}\"\nkind = \"host\"\nwindow = \"32 MiB\"\nmax_grants = {channels}\nspin = true\n"
        );
        let file = self.manager.root().join(format!("{name}.toml"));
        self.manager.add_client(manifest, file)?;
        let socket = self.manager.host_socket();
        let options = ConnectOptions::new("bench-scale").client(name);
        self.sessions.push(options.endpoint(Endpoint::Host(Some(socket))).connect()?);
        Ok(())
    }

    fn activate(&mut self, each: u32) -> Result<()> {
        let request = FunctionRequest::new("echo").depth(8).cell_bytes(0);
        let (mut with_start, mut others) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for session in &self.sessions {
            for channel in 0..each {
                let start = Instant::now();
                let function = session.negotiate(&request)?.activate()?;
                let times = if channel == 0 { &mut with_start } else { &mut others };
                times.push(start.elapsed().as_nanos() as f64);
                function.call_into(&[], &mut [])?;
                self.functions.push(function);
            }
        }
        self.row.opened_seconds = start.elapsed().as_secs_f64();
        self.row.channels = self.functions.len() as u32;
        self.row.activations(&with_start, &others);
        Ok(())
    }

    /// A channel with idle ones before and behind it.
    fn one(&self) -> &Function {
        &self.functions[self.functions.len() / 2]
    }

    /// As many channels as are to be busy, of as many clients as there are.
    fn some(&self) -> Vec<&Function> {
        let step = (self.functions.len() / BUSY).max(1);
        self.functions.iter().step_by(step).take(BUSY).collect()
    }

    /// Process IDs of the manager and of its services.
    fn processes(&self) -> Result<(u32, Vec<u32>)> {
        let services = self.manager.services()?.into_iter().map(|s| s.pid).collect();
        Ok((self.manager.status()?.pid, services))
    }

    /// Memory and processor time of all that is idle.
    fn look_at_idle(&mut self, settle: Duration, over: Duration) -> Result<()> {
        let (manager, services) = self.processes()?;
        std::thread::sleep(settle);
        let read = || -> Option<[Duration; 2]> {
            let services: Option<Duration> = services.iter().map(|&pid| cpu_time(pid)).sum();
            Some([cpu_time(manager)?, services?])
        };
        let (before, start) = (read(), Instant::now());
        std::thread::sleep(over);
        let (after, took) = (read(), start.elapsed().as_secs_f64());
        let share = |i: usize| -> Option<f64> {
            Some(after?[i].saturating_sub(before?[i]).as_secs_f64() / took)
        };
        (self.row.manager_share, self.row.services_share) = (share(0), share(1));
        self.row.manager_bytes = proportional_bytes(manager);
        self.row.services_bytes = services.iter().map(|&pid| proportional_bytes(pid)).sum();
        Ok(())
    }

    /// Kills the manager; ns from its death until another one has answered each client.
    fn take_over(&mut self) -> Result<f64> {
        let pid = self.manager.status()?.pid;
        let (calls, failed, end) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Acquire) {
                    let done = self.one().call_into(&[], &mut []);
                    calls.fetch_add(1, Ordering::Relaxed);
                    failed.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
                    std::thread::sleep(PACE);
                }
            });
            let taken = kill(pid).and_then(|start| {
                self.sessions.iter().try_for_each(|s| s.list().map(|_| ()))?;
                Ok(start.elapsed().as_nanos() as f64)
            });
            end.store(true, Ordering::Release);
            taken
        })?;
        self.row.calls_meanwhile += calls.into_inner();
        self.row.failed_meanwhile += failed.into_inner();
        let grants = self.manager.status()?.grants;
        match grants == self.functions.len() {
            true => Ok(taken),
            false => Err(BenchError::Inside(format!(
                "the manager that took over knows {grants} of {} grants",
                self.functions.len()
            ))),
        }
    }
}

/// Kills a process and waits until it is no more; when that was.
fn kill(pid: u32) -> Result<Instant> {
    let not_killed = |why: String| BenchError::Inside(format!("manager {pid} not killed: {why}"));
    let process = Pid::from_raw(pid as i32).ok_or_else(|| not_killed("no such process".into()))?;
    kill_process(process, Signal::KILL).map_err(|e| not_killed(e.to_string()))?;
    let start = Instant::now();
    while cpu_time(pid).is_some() {
        if start.elapsed() > GONE {
            return Err(not_killed(format!("it is there after {GONE:?}")));
        }
        std::thread::yield_now();
    }
    Ok(Instant::now())
}

/// How one function's calls are measured.
type Measure = fn(&Clock, &Function) -> Result<Percentiles>;

struct Scale {
    plan: ScalePlan,
    clock: Clock,
    pins: Plan,
    control: Crowd,
}

impl Scale {
    fn size(&self, at: &Where, clients: u32, channels: u32) -> Result<ScaleRow> {
        let mut crowd = Crowd::open(at, &self.pins, clients, channels)?;
        let settle = if self.plan.short { SETTLE_SHORT } else { SETTLE };
        let idle = (settle + self.plan.idle).as_secs_f64();
        progress(format_args!("scale: all idle for {idle} s"));
        crowd.look_at_idle(settle, self.plan.idle)?;
        progress("scale: calls, and a manager that is killed");
        let calls = self.both(&crowd, null_calls)?;
        crowd.row.calls(&calls);
        let calls = self.both(&crowd, paced_calls)?;
        crowd.row.paced(&calls);
        crowd.row.repeats = self.plan.repeats;
        self.busy(&mut crowd)?;
        let take_over = (0..self.plan.repeats).map(|_| crowd.take_over());
        let take_overs = take_over.collect::<Result<Vec<_>>>()?;
        crowd.row.take_overs(&take_overs);
        Ok(crowd.row)
    }

    /// One channel of these and one of the control in turns.
    fn both(&self, crowd: &Crowd, measure: Measure) -> Result<Turns<Percentiles>> {
        let services = [crowd.one().stats()?.pid, self.control.one().stats()?.pid];
        let watch = Watch::new(&self.pins.both(), services);
        turns((self.plan.repeats * TURNS) as usize, 2, &watch, |variant, _| {
            let of = if variant == 0 { crowd } else { &self.control };
            measure(&self.clock, of.one()).map(Some)
        })
    }

    fn busy(&self, crowd: &mut Crowd) -> Result<()> {
        let (mut p50, mut p99, mut per_s) = (Vec::new(), Vec::new(), Vec::new());
        let busy = crowd.some().len();
        for _ in 0..self.plan.repeats {
            let times = busy_callers(&self.clock, &crowd.some())?;
            p50.push(times.of_calls.p50 as f64);
            p99.push(times.of_calls.p99 as f64);
            per_s.push(times.calls_per_s);
        }
        let row = &mut crowd.row;
        row.busy = busy as u32;
        (row.busy_p50_ns, row.busy_p99_ns) = (stats::median(&p50), stats::median(&p99));
        row.busy_per_s = stats::median(&per_s);
        Ok(())
    }
}
