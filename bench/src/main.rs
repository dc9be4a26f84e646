//! `vfun-bench`: what `vfun bench` does, alone.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

/// Measures VirtFun.
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    args: vfun_bench::cli::Args,
}

fn main() -> ExitCode {
    match vfun_bench::cli::run(Command::parse().args) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("vfun-bench: {e}");
            ExitCode::FAILURE
        }
    }
}
