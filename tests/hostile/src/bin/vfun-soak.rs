//! `vfun-soak`: everything at once for an hour, and whether anything grows.
//! `make soak` builds what it needs and runs it.

#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vfun_tests_hostile::soak::{self, Plan};

/// Soaks a manager of its own.
#[derive(Parser)]
struct Args {
    /// For how long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Where the samples go.
    #[arg(long, default_value = "soak.csv")]
    csv: PathBuf,
    /// What is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Without real guests.
    #[arg(long)]
    no_guests: bool,
    /// Be the app that is killed.
    #[arg(long, hide = true)]
    app: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(socket) = args.app {
        return match soak::app(&socket) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        };
    }
    let plan = Plan {
        time: Duration::from_secs_f64(args.minutes * 60.0),
        csv: args.csv,
        seed: args.seed,
        guests: !args.no_guests,
    };
    let outcome = match soak::run(&plan) {
        Ok(outcome) => outcome,
        Err(e) => {
            eprintln!("vfun-soak: {e}");
            return ExitCode::FAILURE;
        }
    };
    print!("{outcome}");
    let failures = outcome.failures();
    for what in failures.iter().take(20) {
        println!("WRONG (seed {}): {what}", plan.seed);
    }
    println!("samples: {}", plan.csv.display());
    println!("{} things that must not be", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
