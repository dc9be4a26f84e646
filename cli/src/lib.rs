//! The command `vfun`, on the host and in a guest.
//!
//! One subcommand a file, in [`cmd`]. What they share: [`args`] (the options),
//! [`fail`] (errors and exit codes), [`admin`] (questions to the manager),
//! [`connect`] (sessions), [`qmp`] (QEMU), [`out`] (tables, JSON, sizes and times as people read them).

#![forbid(unsafe_code)]

pub mod admin;
pub mod args;
mod carried;
pub mod cmd;
pub mod connect;
pub mod fail;
pub mod out;
pub mod qmp;

use args::Cli;
use clap::Parser;
use std::process::ExitCode;

/// Runs the command that this process was started as.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    match cmd::run(cli) {
        Ok(code) => code,
        Err(failure) => {
            failure.report(json);
            failure.exit.into()
        }
    }
}
