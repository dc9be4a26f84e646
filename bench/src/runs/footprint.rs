//! Starting a function, memory, and what an idle system takes.

use super::{Bench, progress};
use crate::lab::{Manager, cpu_time, resident_bytes};
use crate::measure::{Activation, Job, Outcome};
use crate::report::{Domain, Footprint, FootprintReport, FootprintRow};
use crate::{BenchError, Result};
use std::time::{Duration, Instant};

/// What a service does after its last call until it is at rest, its watch included.
const SETTLE: Duration = Duration::from_millis(2_500);

/// How it is run.
#[derive(Clone, Debug)]
pub struct FootprintPlan {
    /// Activations of each sort.
    pub activations: u32,
    /// How long an idle system is looked at.
    pub idle: Duration,
}

/// Runs it in some of the bench's domains.
pub fn footprint(
    bench: &mut Bench,
    domains: &[Domain],
    plan: &FootprintPlan,
) -> Result<FootprintReport> {
    let mut rows = Vec::new();
    for i in 0..bench.len() {
        let domain = bench.place(i).domain();
        if domain == Domain::InProcess || !domains.contains(&domain) {
            continue;
        }
        progress(format_args!("footprint: {domain}"));
        match activations(bench, i, plan.activations) {
            Ok(more) => rows.extend(more),
            Err(e) => bench.miss(domain, "activations", &e),
        }
        match idle(bench, i, plan.idle) {
            Ok(more) => rows.extend(more),
            Err(e) => bench.miss(domain, "idling", &e),
        }
    }
    let mut report = FootprintReport::new(bench.machine(), bench.settings(1.0, plan.activations));
    report.settings = report.settings.with("idle_seconds", plan.idle.as_secs_f64());
    report.rows = rows;
    Ok(report)
}

/// Of the transports there are, sleepers are rung awake on the host and over a socket.
fn doorbell(domain: Domain, transport: &str) -> bool {
    domain != Domain::GuestHost || transport == "module"
}

fn row(bench: &mut Bench, place: usize, kind: Footprint, process: &str) -> FootprintRow {
    let place = bench.place(place);
    let rung = doorbell(place.domain(), place.transport());
    FootprintRow::new(place.domain(), place.transport(), rung, kind, process)
}

fn activations(bench: &mut Bench, place: usize, count: u32) -> Result<Vec<FootprintRow>> {
    let all = match bench.place(place).run(&Job::Activations { count }, Duration::ZERO)? {
        Outcome::Activations(all) => all,
        _ => return Err(bench.place(place).unfit("activations")),
    };
    let times = |started| -> Vec<f64> {
        all.iter().filter(|a: &&Activation| a.started == started).map(|a| a.ns).collect()
    };
    let with_start =
        row(bench, place, Footprint::ActivationWithStart, "app").with_times(&times(true));
    let without = row(bench, place, Footprint::Activation, "app").with_times(&times(false));
    Ok(with_start.into_iter().chain(without).collect())
}

/// Processor time of some processes over a while, as shares of one processor.
fn shares(pids: [u32; 2], over: Duration) -> Result<[f64; 2]> {
    let gone = || BenchError::Manager("manager or service ended while it was idle".into());
    let read = || -> Result<[Duration; 2]> {
        Ok([cpu_time(pids[0]).ok_or_else(gone)?, cpu_time(pids[1]).ok_or_else(gone)?])
    };
    let (before, start) = (read()?, Instant::now());
    std::thread::sleep(over);
    let (after, took) = (read()?, start.elapsed().as_secs_f64());
    Ok([0, 1].map(|i| after[i].saturating_sub(before[i]).as_secs_f64() / took))
}

/// The service of `echo` that serves the bench's app over this transport.
fn service(manager: &Manager, transport: &str, client: Option<&str>) -> Result<u32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let grants = manager.grants()?;
        let mut fits = grants.iter().filter(|g| {
            g.function == "echo"
                && g.transport.starts_with(transport)
                && client.is_none_or(|c| c == g.client)
        });
        if let Some(pid) = fits.find_map(|g| g.pid) {
            return Ok(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(BenchError::Manager("no service of echo came up to look at".into()))
}

/// Rows of an active function that nobody calls.
fn idle(bench: &mut Bench, place: usize, over: Duration) -> Result<Vec<FootprintRow>> {
    let domain = bench.place(place).domain();
    // Over the network the gateway is the app: its window is like any on the host.
    if domain == Domain::GuestNet || bench.manager().is_none() {
        return Ok(Vec::new());
    }
    let guest = bench.guest().filter(|_| domain == Domain::GuestHost);
    if guest.is_none() {
        bench.place(place).run(&Job::Hold { millis: 0 }, Duration::ZERO)?;
    }
    let hold = SETTLE + over + Duration::from_secs(2);
    let job = Job::Hold { millis: hold.as_millis() as u64 };
    let found = std::thread::scope(|scope| -> Result<_> {
        // The host's session holds the function by itself; a guest's ends with its job.
        let held = guest.as_deref().map(|guest| scope.spawn(move || guest.run(false, &job, hold)));
        let manager = bench.manager().ok_or_else(|| BenchError::Options("no manager".into()))?;
        let transport = if guest.is_some() { "ivshmem" } else { "host" };
        let client = guest.is_some().then_some(crate::lab::GUEST_CLIENT);
        let found = (|| {
            let pids = [manager.status()?.pid, service(manager, transport, client)?];
            std::thread::sleep(SETTLE);
            let shares = shares(pids, over)?;
            let gone = || BenchError::Manager("manager or service is gone".into());
            let bytes = [
                resident_bytes(pids[0]).ok_or_else(gone)?,
                resident_bytes(pids[1]).ok_or_else(gone)?,
            ];
            Ok((shares, bytes))
        })();
        if let Some(held) = held {
            held.join()
                .map_err(|_| BenchError::Inside("the thread that waits for it died".into()))??;
        }
        found
    });
    let (shares, bytes) = found?;
    let mut rows = Vec::new();
    for (i, process) in ["manager", "service"].into_iter().enumerate() {
        rows.push(row(bench, place, Footprint::Idle, process).with_cpu_share(shares[i]));
        rows.push(row(bench, place, Footprint::Resident, process).with_bytes(bytes[i]));
    }
    Ok(rows)
}
