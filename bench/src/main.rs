//! `vfun-bench`: what `vfun bench` runs, in a guest too.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use vfun_bench::cli::{self, Line};

fn main() -> ExitCode {
    let line = Line::parse();
    vfun_cli::ended(cli::run(line.args).map_err(cli::failure), false)
}
