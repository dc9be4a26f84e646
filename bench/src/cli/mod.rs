//! `vfun bench`.

mod args;
mod experiments;
mod inside;
mod output;

pub use args::{Args, Command};

use crate::Result;
use std::process::ExitCode;

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
        Command::Module(args) => experiments::module(&args),
        Command::Leases(args) => experiments::leases(&args),
        Command::All(args) => experiments::all(&args),
        Command::Inside { job } => inside::run(&job),
    }
}
