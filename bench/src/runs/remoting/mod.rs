//! A remoted API beside the library that it stands for: one manager, and a process of its own for
//! each environment of the remoted library.

mod hosted;

use super::{Where, progress};
use crate::error::Doing;
use crate::lab::{HOST_CLIENT, Manager, Plan};
use crate::method::over_in_turns;
use crate::remoting::RemotingJob;
use crate::report::{
    Machine, Mode, RemotingExperiment, RemotingRatio, RemotingReport, RemotingRow, Settings, stats,
};
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vfun_admin::Ask;

/// Who serves the API.
const MANIFEST: &str = include_str!("../../../../services/gdmaback/functions/gdma/function.toml");
/// Turns of what is short, for each repeat.
const TURNS: usize = 6;
/// Each way to wait is measured so many times at most.
const ROUNDS: u32 = 9;
/// Slices of a way to wait in one round.
const SLICES: usize = 3;

/// How it is run.
#[derive(Clone, Debug)]
pub struct RemotingPlan {
    pub experiments: Vec<RemotingExperiment>,
    /// The part of the published gibibyte that bursts move.
    pub scale: f64,
    pub repeats: u32,
    /// Whether caller and service each get a processor of their own.
    pub pin: bool,
}

/// The two libraries, beside the drivers.
fn libraries(at: &Where) -> Result<[PathBuf; 2]> {
    let (_, programs) = at.program_and_folder();
    let folder = at.drivers.clone().unwrap_or(programs);
    let find = |name: &str| {
        let path = folder.join(name);
        if path.is_file() { Ok(path) } else { Err(BenchError::NoProgram(path)) }
    };
    Ok([find("libgdma.so")?, find("libvfun_gdma.so")?])
}

/// A process that measures with both libraries, with these variables.
fn measured(
    program: &Path,
    job: &RemotingJob,
    variables: &[(&str, PathBuf)],
) -> Result<Vec<RemotingRow>> {
    let text = serde_json::to_string(job).map_err(std::io::Error::from);
    let text = text.doing(|| "the job cannot be put in JSON".into())?;
    let socket = job.root.join("host.sock");
    let out = Command::new(program)
        .args(["remoting-inside", &text])
        .env("VFUN_ENDPOINT", format!("host:{}", socket.display()))
        .env("VFUN_CLIENT", HOST_CLIENT)
        .env("VFUN_WAIT", job.wait.as_str())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .env_remove("GDMA_POOL_BYTES")
        .env_remove("GDMA_NODE")
        .stderr(Stdio::inherit())
        .output()
        .doing(|| format!("{} cannot be started", program.display()))?;
    if !out.status.success() {
        return Err(BenchError::Driver(format!("the measuring process ended: {}", out.status)));
    }
    serde_json::from_slice(&out.stdout)
        .map_err(std::io::Error::from)
        .doing(|| "the measuring process gave no rows".into())
}

/// A forwarded call in each way to wait, in turns: one row for each.
fn waiting(program: &Path, job: &RemotingJob, repeats: u32) -> Result<Vec<RemotingRow>> {
    let mut all: Vec<Vec<RemotingRow>> = vec![Vec::new(); Mode::ALL.len()];
    for round in 0..repeats.min(ROUNDS) {
        progress(format_args!("remoting: waiting, round {}", round + 1));
        for (&wait, rows) in Mode::ALL.iter().zip(&mut all) {
            let experiments = vec![RemotingExperiment::Waiting];
            let turns = job.turns.min(SLICES);
            rows.extend(measured(
                program,
                &RemotingJob { experiments, wait, turns, ..job.clone() },
                &[],
            )?);
        }
    }
    let one = |rows: Vec<RemotingRow>| {
        let figures =
            |f: fn(&RemotingRow) -> Option<f64>| rows.iter().filter_map(f).collect::<Vec<_>>();
        let (p50, base) = (figures(|r| r.p50_ns), figures(|r| r.base_p50_ns));
        let first = rows.first()?.clone();
        let least = p50.iter().zip(&base).min_by(|a, b| (a.0 * a.1).total_cmp(&(b.0 * b.1)));
        let row = RemotingRow {
            p50_ns: stats::median(&p50),
            p99_ns: stats::median(&figures(|r| r.p99_ns)),
            least_ns: least.map(|(ns, _)| *ns),
            most_ns: stats::range(&p50).map(|(_, most)| most),
            base_p50_ns: stats::median(&base),
            base_least_ns: least.map(|(_, ns)| *ns),
            base_p99_ns: stats::median(&figures(|r| r.base_p99_ns)),
            ..first
        };
        Some(row.compared_by(RemotingRatio::Time, over_in_turns(&p50, &base)))
    };
    Ok(all.into_iter().filter_map(one).collect())
}

/// Runs it.
///
/// # Errors
/// [`crate::BenchError`]: a library or a program is missing, or a call failed.
pub fn remoting(at: &Where, plan: &RemotingPlan) -> Result<RemotingReport> {
    let machine = Machine::collect();
    let [native, remoted] = libraries(at)?;
    let pins = Plan::new(plan.pin);
    let services: Vec<usize> = pins.service().into_iter().collect();
    let manager: Manager = at.manager_without(&[], None, &services, &[])?;
    manager.ask(&Ask::AddFunction { manifest: MANIFEST.into(), file: "function.toml".into() })?;
    let (program, _) = at.program_and_folder();
    let long_turns = plan.repeats as usize;
    let hosted = match plan.experiments.contains(&RemotingExperiment::Pkcs11) {
        true => hosted::host(&manager, remoted.with_file_name("libvfun_pkcs11.so"))?,
        false => None,
    };
    let job = RemotingJob {
        native,
        remoted,
        pkcs11: hosted.as_ref().map(|h| h.modules.clone()),
        root: manager.root().to_owned(),
        experiments: plan.experiments.clone(),
        scale: plan.scale,
        turns: long_turns * TURNS,
        long_turns,
        wait: Mode::Hybrid,
        cpus: pins.caller().zip(pins.service()),
    };
    let settings = Settings {
        scale: plan.scale,
        repeats: plan.repeats,
        pinning: pins.words(),
        ..Settings::default()
    };
    let settings = settings.with("engine", "simulated, on a processor of this machine");
    let mut report = RemotingReport::new(machine, settings);
    let is_waiting = |e: &RemotingExperiment| *e == RemotingExperiment::Waiting;
    let others: Vec<_> = plan.experiments.iter().copied().filter(|e| !is_waiting(e)).collect();
    if !others.is_empty() {
        let job = RemotingJob { experiments: others, ..job.clone() };
        let variables = hosted.as_ref().map_or(&[][..], |h| &h.variables);
        report.rows.extend(measured(&program, &job, variables)?);
    }
    if plan.experiments.iter().any(is_waiting) {
        report.rows.extend(waiting(&program, &job, plan.repeats)?);
    }
    Ok(report)
}
