//! `vfun bench`.

mod args;
mod experiments;
mod inside;
mod output;

pub use args::{Args, Command};

use crate::error::Doing;
use crate::report::chart;
use crate::{BenchError, Result};
use clap::{CommandFactory, Parser};
use std::path::Path;
use std::process::ExitCode;
use vfun_cli::fail::{Exit, Failure};

/// Measure VirtFun on this machine.
#[derive(Debug, Parser)]
#[command(name = "vfun-bench", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Line {
    /// The experiment, with its own options.
    #[command(flatten)]
    pub args: Args,
}

/// What kept it from measuring, as `vfun` says it.
pub fn failure(e: BenchError) -> Failure {
    match e {
        BenchError::Vfun(e) => e.into(),
        BenchError::Admin(e) => e.into(),
        BenchError::Options(why) => Failure::usage(why),
        other => Failure::new(Exit::Failed, other.to_string()),
    }
}

fn manual(folder: &Path) -> Result<ExitCode> {
    clap_mangen::generate_to(Line::command(), folder)
        .doing(|| format!("the manual cannot be written to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn nics_chart(pool: &str, output: &Path) -> Result<ExitCode> {
    let wrong = |e| BenchError::Options(format!("what is to be drawn is no history: {e}"));
    let history = serde_json::from_reader(std::io::stdin()).map_err(wrong)?;
    chart::vf_history(pool, &history, output)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs what was asked for. Tables go to stdout, progress to stderr. The exit status is
/// 1 if a domain that was named could not be measured, and 0 whatever the figures are.
///
/// # Errors
/// [`crate::BenchError`]: nothing could be measured, or not be written down.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Domains(args) => experiments::domains(&args),
        Command::Latency(args) => experiments::latency(&args),
        Command::Grain(args) => experiments::grain(&args),
        Command::Footprint(args) => experiments::footprint(&args),
        Command::Waiting(args) => experiments::waiting(&args),
        Command::Jail(args) => experiments::jail(&args),
        Command::Wasm(args) => experiments::wasm(&args),
        Command::Isolation(args) => experiments::isolation(&args),
        Command::Queues(args) => experiments::queues(&args),
        Command::Ports(args) => experiments::ports(&args),
        Command::Links(args) => experiments::links(&args),
        Command::Verbs(args) => experiments::verbs(&args),
        Command::VerbsInside { job } => inside::verbs(&job),
        Command::Scale(args) => experiments::scale(&args),
        Command::Module(args) => experiments::module(&args),
        Command::Leases(args) => experiments::leases(&args),
        Command::Nics(args) => experiments::nics(&args),
        Command::Remoting(args) => experiments::remoting(&args),
        Command::All(args) => experiments::all(&args),
        Command::Man { folder } => manual(&folder),
        Command::NicsChart { pool, output } => nics_chart(&pool, &output),
        Command::Inside { job } => inside::run(&job),
        Command::RemotingInside { job } => inside::remoting(&job),
    }
}
