//! Runs the simulation: one seed, many, or for some minutes.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vfun_tests_sim::{ALL, CHANCES, Plan, attempt, explain, minimise};

/// A seeded simulation of manager, services, keeper and guests.
#[derive(Parser)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds from there on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Runs ever new seeds for so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Steps of a run.
    #[arg(long, default_value_t = 4000)]
    steps: u64,
    /// What may happen, by names with commas between; all by default, or "none".
    #[arg(long)]
    chances: Option<String>,
    /// Kills the manager at this point of a run.
    #[arg(long)]
    kill_at: Option<u64>,
    /// Prints all that happens.
    #[arg(long)]
    trace: bool,
    /// Does not look for a smaller run that finds the same.
    #[arg(long)]
    as_is: bool,
}

fn chances(text: &str) -> Result<u32, String> {
    let mut bits = 0;
    for name in text.split(',').filter(|n| *n != "none") {
        let (chance, _) = CHANCES
            .iter()
            .find(|(_, n)| *n == name)
            .ok_or_else(|| format!("'{name}' is none of {:?}", CHANCES.map(|(_, n)| n)))?;
        bits |= *chance as u32;
    }
    Ok(bits)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let bits = match args.chances.as_deref().map_or(Ok(ALL), chances) {
        Ok(bits) => bits,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    let until = args.minutes.map(|m| Instant::now() + Duration::from_secs(m * 60));
    let (mut runs, mut kills, mut points, mut calls, mut answers) = (0u64, 0, 0, [0; 3], 0);
    let mut seed = args.seed;
    let began = Instant::now();
    while until.map_or(seed < args.seed + args.seeds, |u| Instant::now() < u) {
        let plan = Plan { seed, steps: args.steps, chances: bits, kill_at: args.kill_at };
        match attempt(plan, args.trace) {
            Ok(r) => {
                runs += 1;
                kills += r.kills;
                points += r.points;
                answers += r.answers;
                for (sum, n) in calls.iter_mut().zip(r.calls) {
                    *sum += n;
                }
            }
            Err(f) => {
                let f = if args.trace || args.as_is { *f } else { minimise(*f) };
                println!("{}", explain(&f));
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    println!(
        "{runs} runs of {} steps in {:.1} s: {points} points to be killed at, {kills} managers killed, {answers} requests answered, calls: {} with results, {} failed by name, {} given up or broken off",
        args.steps,
        began.elapsed().as_secs_f64(),
        calls[0],
        calls[1],
        calls[2],
    );
    ExitCode::SUCCESS
}
