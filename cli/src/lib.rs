//! The command `vfun`, on the host and in a guest.
//!
//! One subcommand a file, in [`cmd`]; each takes what it needs, and
//! `dispatch` alone knows both them and the whole command line, [`args`].
//! What they share: [`fail`] (errors and exit codes), [`admin`] (questions to
//! the manager), [`connect`] (sessions), `machine` (host or guest), [`qmp`] (QEMU), [`out`] (tables, JSON,
//! sizes and times as people read them).
//!
//! What needs much code of others is a program of its own, which [`programs`]
//! finds: `vfun-bench`, `vfun-guest`, `vfun-top`.

#![forbid(unsafe_code)]
// Help texts have brackets that are no links.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod admin;
pub mod args;
mod carried;
pub mod cmd;
mod complete;
pub mod connect;
mod dispatch;
pub mod fail;
mod machine;
pub mod out;
pub mod programs;
mod toml_file;
pub mod vmm;

use args::Cli;
use clap::Parser;
use fail::{Exit, Failure, Result};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command that this process was started as.
pub fn run() -> ExitCode {
    complete::answer();
    programs::help();
    let cli = parsed(std::env::args_os());
    ended(dispatch::run(&cli), cli.json)
}

/// Runs one command of `vfun` that is a program of its own, `vfun-NAME`.
/// `run` does it, or gives nothing if the command line is another command's.
pub fn run_alone(name: &str, run: impl FnOnce(&Cli) -> Option<Result<ExitCode>>) -> ExitCode {
    let cli = parsed(programs::line(name, std::env::args_os()));
    let done = run(&cli).unwrap_or_else(|| {
        Err(Failure::usage(format!("vfun-{name} is `vfun {name}` and no more")))
    });
    ended(done, cli.json)
}

/// The command line; one that is wrong ends this process.
fn parsed(line: impl IntoIterator<Item = OsString>) -> Cli {
    let cli = Cli::try_parse_from(line).unwrap_or_else(|e| {
        let said = e.to_string();
        let plain = NO_NUMBER.iter().fold(said.clone(), |s, words| s.replace(words, A_NUMBER));
        if plain == said {
            e.exit();
        }
        eprint!("{plain}");
        std::process::exit(Exit::Usage as i32)
    });
    cli.with_variables()
}

/// What Rust says of text that is no number.
const NO_NUMBER: [&str; 3] = [
    "invalid digit found in string",
    "cannot parse integer from empty string",
    "invalid float literal",
];
/// What we say of it.
const A_NUMBER: &str = "write a number, such as 10";

/// The exit code of what was done; a failure is reported.
pub fn ended(done: Result<ExitCode>, json: bool) -> ExitCode {
    done.unwrap_or_else(|failure| {
        failure.report(json);
        failure.exit.into()
    })
}
