//! Verbs: a manager of its own with the NIC, and a process that uses it by `libvfunverbs`.

use super::{Where, progress};
use crate::error::Doing;
use crate::lab::{HOST_CLIENT, Manager, Plan, Start, functions_folder};
use crate::measure::VerbsJob;
use crate::report::{Machine, Settings, VerbsReport, VerbsRow};
use crate::{BenchError, Result};
use std::process::{Command, Stdio};
use vfun_admin::Ask;

/// Who serves the NIC.
const MANIFEST: &str = include_str!("../../../services/verbsback/functions/verbs/function.toml");
/// Turns of a figure in each repeat.
const TURNS: u32 = 4;
/// Pages of each side of the queues: a thousand queue pairs.
const QUEUE_PAGES: &str = "16384";

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub struct VerbsPlan {
    /// How often each figure is taken.
    pub repeats: u32,
    /// Whether the program and the NIC each get a processor of their own.
    pub pin: bool,
}

/// Runs it, on the host.
///
/// # Errors
/// [`BenchError`]: no manager, or no NIC.
pub fn verbs(at: &Where, plan: &VerbsPlan) -> Result<VerbsReport> {
    let (machine, pins) = (Machine::collect(), Plan::new(plan.pin));
    let (program, programs) = at.program_and_folder();
    let functions = functions_folder(at.functions.as_deref(), &program)?;
    let drivers = at.drivers.clone().unwrap_or_else(|| programs.clone());
    let services: Vec<usize> = pins.service().into_iter().collect();
    let start = Start { services: &services, ..Start::new(&programs, &functions, &drivers) };
    let manager = Manager::start(&start)?;
    manager.ask(&Ask::AddFunction { manifest: MANIFEST.into(), file: "function.toml".into() })?;
    progress(format_args!("verbs: a program and the NIC of its host"));
    let turns = (plan.repeats * TURNS) as usize;
    let root = manager.root().to_owned();
    let job = VerbsJob { root, turns, service: pins.service(), caller: pins.caller() };
    let rows = measured(&program, &manager, &job)?;
    let settings = Settings { repeats: plan.repeats, pinning: pins.words(), ..Settings::default() };
    Ok(VerbsReport { machine, settings, rows })
}

/// The process: what it stands for, it says by variables.
fn measured(program: &std::path::Path, manager: &Manager, job: &VerbsJob) -> Result<Vec<VerbsRow>> {
    let job = serde_json::to_string(job).map_err(|e| BenchError::Inside(e.to_string()))?;
    let out = Command::new(program)
        .args(["verbs-inside", &job])
        .env("VFUN_ROOT", manager.root())
        .env("VFUN_CLIENT", HOST_CLIENT)
        .env("VFUN_VERBS_REMAP", "user")
        .env("VFUN_VERBS_QUEUE_PAGES", QUEUE_PAGES)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .doing(|| format!("cannot start {}", program.display()))?;
    if !out.status.success() {
        return Err(BenchError::Inside(format!("the process that measures ended: {}", out.status)));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| BenchError::Inside(e.to_string()))
}
