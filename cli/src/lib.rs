//! The command `vfun`, on the host and in a guest.
//!
//! One subcommand a file, in [`cmd`]; each takes what it needs, and
//! [`dispatch`] alone knows both them and the whole command line, [`args`].
//! What they share: [`fail`] (errors and exit codes), [`admin`] (questions to
//! the manager), [`connect`] (sessions), `machine` (host or guest), [`qmp`] (QEMU), [`out`] (tables, JSON,
//! sizes and times as people read them).
//!
//! What needs much code of others is a program of its own, which [`programs`]
//! finds: `vfun-bench`, `vfun-guest`, `vfun-top`.

#![forbid(unsafe_code)]

pub mod admin;
pub mod args;
mod carried;
pub mod cmd;
pub mod connect;
mod dispatch;
pub mod fail;
mod machine;
pub mod out;
pub mod programs;
pub mod qmp;
pub mod vmm;

use args::Cli;
use clap::Parser;
use fail::{Failure, Result};
use std::process::ExitCode;

/// Runs the command that this process was started as.
pub fn run() -> ExitCode {
    programs::help();
    let cli = Cli::parse();
    ended(dispatch::run(&cli), cli.json)
}

/// Runs one command of `vfun` that is a program of its own, `vfun-NAME`.
/// `run` does it, or gives nothing if the command line is another command's.
pub fn run_alone(name: &str, run: impl FnOnce(&Cli) -> Option<Result<ExitCode>>) -> ExitCode {
    let cli = Cli::parse_from(programs::line(name, std::env::args_os()));
    let done = run(&cli).unwrap_or_else(|| {
        Err(Failure::usage(format!("vfun-{name} is `vfun {name}` and no more")))
    });
    ended(done, cli.json)
}

/// The exit code of what was done; a failure is reported.
pub fn ended(done: Result<ExitCode>, json: bool) -> ExitCode {
    done.unwrap_or_else(|failure| {
        failure.report(json);
        failure.exit.into()
    })
}
