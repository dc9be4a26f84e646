//! `vfun-chaos`: a million checked calls while managers and services are killed.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use vfun_tests_hostile::chaos::{Plan, run};

/// Calls and checks while what serves the calls is killed.
#[derive(Parser)]
struct Args {
    /// Calls of both clients together.
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
    /// Ends of managers: every second one by SIGHUP, the others by SIGKILL.
    #[arg(long, default_value_t = 20)]
    managers: u64,
    /// Kills of services.
    #[arg(long, default_value_t = 100)]
    services: u64,
    /// Kill both clients' services, in turns.
    #[arg(long)]
    both: bool,
    /// What is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let Args { calls, managers, services, both, seed } = Args::parse();
    let plan = Plan { calls, managers, services, both, seed };
    let outcome = run(&plan);
    print!("{outcome}");
    let wrong = outcome.wrong(&plan);
    for what in wrong.iter().take(20) {
        println!("WRONG (seed {seed}): {what}");
    }
    println!("{} things that must not be", wrong.len());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
