//! From options to experiments.

use super::args::{
    AllArgs, DomainsArgs, FootprintArgs, GrainArgs, IsolationArgs, JailArgs, LatencyArgs,
    LeasesArgs, LinksArgs, ModuleArgs, NicsArgs, OutputArgs, PortsArgs, QueuesArgs, RemotingArgs,
    ScaleArgs, VerbsArgs, WaitingArgs, WasmArgs, WhereArgs,
};
use super::output::{files, put, say};
use crate::error::Doing;
use crate::report::{Domain, Experiment, FootprintReport, Function, RemotingExperiment, text};
use crate::runs::{
    self, Bench, DomainsPlan, FootprintPlan, GrainPlan, IsolationPlan, JailPlan, LatencyPlan,
    LeasesPlan, LinksPlan, ModulePlan, NicsPlan, PortsPlan, QueuesPlan, RemotingPlan, ScalePlan,
    VerbsPlan, WaitingPlan, WasmPlan, Where,
};
use crate::{BenchError, Result};
use std::process::ExitCode;
use std::time::Duration;

/// The domains that were named, or the usual ones; over an endpoint, where it leads.
fn domains_of(at: &WhereArgs, usual: &[Domain]) -> Vec<Domain> {
    match (at.domain.is_empty(), &at.endpoint) {
        (false, _) => at.domain.clone(),
        (true, Some(_)) => Vec::new(),
        (true, None) => usual.to_vec(),
    }
}

/// Where work can be done: a bare virtual machine makes null calls only.
const WORK: &[Domain] = &[Domain::InProcess, Domain::HostHost, Domain::GuestHost, Domain::GuestNet];

/// The same for what measures more than null calls.
fn work_domains_of(at: &WhereArgs, usual: &[Domain]) -> Result<Vec<Domain>> {
    if at.domain.contains(&Domain::KvmBare) {
        return Err(BenchError::Options(
            "kvm-bare makes null calls only: measure it with `latency`".into(),
        ));
    }
    Ok(domains_of(at, usual))
}

/// Failure if a domain that was named could not be measured.
fn status(bench: &Bench, at: &WhereArgs) -> ExitCode {
    let named = |d: &Option<Domain>| d.is_some_and(|d| at.domain.contains(&d));
    match bench.missed().iter().any(|(domain, _)| named(domain)) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn functions(named: &[Function]) -> Vec<Function> {
    if named.is_empty() { Function::ALL.to_vec() } else { named.to_vec() }
}

pub(super) fn domains(args: &DomainsArgs) -> Result<ExitCode> {
    let mut bench = Bench::prepare(&args.at.to_where(), &work_domains_of(&args.at, WORK)?)?;
    let plan = DomainsPlan {
        scale: args.scale,
        repeats: args.repeats,
        functions: functions(&args.function),
    };
    put(&runs::domains(&mut bench, &plan)?, &args.output)?;
    Ok(status(&bench, &args.at))
}

pub(super) fn latency(args: &LatencyArgs) -> Result<ExitCode> {
    let mut bench = Bench::prepare(&args.at.to_where(), &domains_of(&args.at, Domain::ALL))?;
    put(&runs::latency(&mut bench, &LatencyPlan::new(args.repeats))?, &args.output)?;
    Ok(status(&bench, &args.at))
}

pub(super) fn grain(args: &GrainArgs) -> Result<ExitCode> {
    if args.at.endpoint.is_some() {
        return Err(BenchError::Options(
            "grain compares with the same work in this process, so it needs a manager on this machine: leave --endpoint out"
                .into(),
        ));
    }
    let mut domains = work_domains_of(&args.at, &[Domain::HostHost, Domain::GuestHost])?;
    if !domains.contains(&Domain::InProcess) {
        domains.insert(0, Domain::InProcess);
    }
    let mut bench = Bench::prepare(&args.at.to_where(), &domains)?;
    let plan = GrainPlan { function: args.function, ..GrainPlan::new(args.repeats) };
    put(&runs::grain(&mut bench, &plan)?, &args.output)?;
    Ok(status(&bench, &args.at))
}

pub(super) fn footprint(args: &FootprintArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let plan =
        FootprintPlan { activations: args.repeats, idle: Duration::from_secs(args.idle.into()) };
    let domains = work_domains_of(&args.at, &[Domain::HostHost, Domain::GuestHost])?;
    // A manager with a guest's window looks at it now and then, so what a system with
    // nothing but doorbells takes is measured first, and by itself.
    let (host, others): (Vec<_>, Vec<_>) = domains.iter().partition(|&&d| d == Domain::HostHost);
    let mut merged: Option<FootprintReport> = None;
    let mut code = ExitCode::SUCCESS;
    for part in [host, others] {
        if part.is_empty() && args.at.endpoint.is_none() {
            continue;
        }
        let mut bench = match (Bench::prepare(&args.at.to_where(), &part), &merged) {
            (Ok(bench), _) => bench,
            // The host's figures stand without the guest's.
            (Err(e), Some(_)) => {
                runs::progress(e);
                code = if args.at.domain.is_empty() { code } else { ExitCode::FAILURE };
                continue;
            }
            (Err(e), None) => return Err(e),
        };
        let all = WORK;
        let mut report =
            runs::footprint(&mut bench, if part.is_empty() { all } else { &part }, &plan)?;
        if status(&bench, &args.at) == ExitCode::FAILURE {
            code = ExitCode::FAILURE;
        }
        if let Some(earlier) = merged.take() {
            report.rows.extend(earlier.rows);
        }
        merged = Some(report);
        if args.at.endpoint.is_some() {
            break;
        }
    }
    if let Some(report) = merged {
        put(&report, &output)?;
    }
    Ok(code)
}

pub(super) fn waiting(args: &WaitingArgs) -> Result<ExitCode> {
    if args.at.endpoint.is_some() || args.at.root.is_some() {
        return Err(BenchError::Options(
            "`waiting` looks at its own manager's services: leave --endpoint and --root out".into(),
        ));
    }
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let plan = WaitingPlan {
        repeats: args.repeats,
        load: Duration::from_millis(args.load.into()),
        idle: Duration::from_secs(args.idle.into()),
    };
    let at = args.at.to_where();
    let mut bench = Bench::prepare(&at, &work_domains_of(&args.at, &[Domain::HostHost])?)?;
    put(&runs::waiting(&mut bench, &at, &plan)?, &output)?;
    Ok(status(&bench, &args.at))
}

pub(super) fn all(args: &AllArgs) -> Result<ExitCode> {
    if args.at.endpoint.is_some() {
        return Err(BenchError::Options(
            "`all` measures from both sides: leave --endpoint out, or ask for `latency`".into(),
        ));
    }
    let out = args.out.as_deref();
    if let Some(folder) = out {
        std::fs::create_dir_all(folder)
            .doing(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let chosen = work_domains_of(&args.at, WORK)?;
    let footprints = FootprintPlan { activations: 10, idle: Duration::from_secs(3) };
    let mut with_doorbells = match chosen.contains(&Domain::HostHost) {
        true => {
            let mut host = Bench::prepare(&args.at.to_where(), &[Domain::HostHost])?;
            runs::footprint(&mut host, &[Domain::HostHost], &footprints)?.rows
        }
        false => Vec::new(),
    };
    let mut bench = Bench::prepare(&args.at.to_where(), &chosen)?;
    let domains_plan =
        DomainsPlan { scale: args.scale, repeats: args.repeats, functions: functions(&[]) };
    let domains = runs::domains(&mut bench, &domains_plan)?;
    put(&domains, &files(out, "domains", true))?;
    let latency = runs::latency(&mut bench, &LatencyPlan::new(7))?;
    put(&latency, &files(out, "latency", true))?;
    let grain = match bench.find(Domain::InProcess) {
        Some(_) => {
            let grain = runs::grain(&mut bench, &GrainPlan::new(args.repeats))?;
            put(&grain, &files(out, "grain", true))?;
            Some(grain)
        }
        None => None,
    };
    let mut footprint =
        runs::footprint(&mut bench, &[Domain::GuestHost, Domain::GuestNet], &footprints)?;
    footprint.rows.append(&mut with_doorbells);
    put(&footprint, &files(out, "footprint", false))?;
    say(&format!("{}\n", text::summary(Some(&domains), Some(&latency), grain.as_ref())));
    Ok(status(&bench, &args.at))
}

pub(super) fn jail(args: &JailArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: None, chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: true,
        ..Where::default()
    };
    put(&runs::jail(&at, &JailPlan { starts: args.starts, each: !args.short })?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn wasm(args: &WasmArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: None, chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: true,
        ..Where::default()
    };
    put(&runs::wasm(&at, &WasmPlan { modules: args.modules })?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn module(args: &ModuleArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: !args.no_pin,
        ..Where::default()
    };
    put(&runs::module(&at, &ModulePlan { repeats: args.repeats })?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn queues(args: &QueuesArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let plan = QueuesPlan { repeats: args.repeats, pin: !args.no_pin };
    put(&runs::queues(&plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn ports(args: &PortsArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let plan = PortsPlan {
        repeats: args.repeats,
        rounds: args.rounds,
        pin: !args.no_pin,
        dpdk_driver: args.dpdk_driver.clone(),
    };
    put(&runs::ports(&plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn links(args: &LinksArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let plan =
        LinksPlan { rounds: args.rounds, pin: !args.no_pin, dpdk_driver: args.dpdk_driver.clone() };
    put(&runs::links(&plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn verbs(args: &VerbsArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        ..Where::default()
    };
    let plan = VerbsPlan { repeats: args.repeats, pin: !args.no_pin };
    put(&runs::verbs(&at, &plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn scale(args: &ScaleArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: !args.no_pin,
        ..Where::default()
    };
    let plan = ScalePlan {
        repeats: args.repeats,
        idle: Duration::from_secs(args.idle.into()),
        short: args.short,
    };
    put(&runs::scale(&at, &plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn isolation(args: &IsolationArgs) -> Result<ExitCode> {
    let output = OutputArgs { json: args.json.clone(), csv: args.csv.clone(), chart: Vec::new() };
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: false,
        ..Where::default()
    };
    let plan = IsolationPlan {
        repeats: args.repeats,
        load: Duration::from_millis(args.load.into()),
        attacks: args.attack.clone(),
    };
    put(&runs::isolation(&at, &plan)?, &output)?;
    Ok(ExitCode::SUCCESS)
}

/// A short run's part of the full one.
const SHORT: f64 = 0.02;

pub(super) fn leases(args: &LeasesArgs) -> Result<ExitCode> {
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: !args.no_pin,
        ..Where::default()
    };
    let named = &args.experiment;
    let plan = LeasesPlan {
        experiments: if named.is_empty() { Experiment::ALL.to_vec() } else { named.clone() },
        scale: if args.short { SHORT } else { args.scale },
        repeats: if args.short { 1 } else { args.repeats },
        seed: args.seed,
        real: !args.simulated,
    };
    put(&runs::leases(&at, &plan)?, &args.output)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn nics(args: &NicsArgs) -> Result<ExitCode> {
    let mut plan = NicsPlan::new(args.short);
    if !args.experiment.is_empty() {
        plan.experiments = args.experiment.clone();
    }
    let ns = |us: Option<u32>, usual: f64| us.map_or(usual, |us| 1e3 * f64::from(us));
    let packets = &mut plan.packets;
    packets.paravirtual_ns = ns(args.paravirtual, packets.paravirtual_ns);
    packets.vf_ns = ns(args.vf, packets.vf_ns);
    if packets.vf_ns >= packets.paravirtual_ns {
        return Err(BenchError::Options(format!(
            "--vf {} is not less than --paravirtual {}: a VF that is no faster gains nothing",
            packets.vf_ns / 1e3,
            packets.paravirtual_ns / 1e3
        )));
    }
    put(&runs::nics(&Where::default(), &plan)?, &args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// What a short run of `remoting` has of the published gibibyte.
const SHORT_BURST: f64 = 0.004;

pub(super) fn remoting(args: &RemotingArgs) -> Result<ExitCode> {
    let at = Where {
        functions: args.functions.clone(),
        drivers: args.drivers.clone(),
        pin: !args.no_pin,
        ..Where::default()
    };
    let named = &args.experiment;
    let plan = RemotingPlan {
        experiments: if named.is_empty() {
            RemotingExperiment::ALL.to_vec()
        } else {
            named.clone()
        },
        scale: if args.short { SHORT_BURST } else { args.scale },
        repeats: if args.short { 1 } else { args.repeats },
        pin: !args.no_pin,
    };
    put(&runs::remoting(&at, &plan)?, &args.output)?;
    Ok(ExitCode::SUCCESS)
}
