//! `vfun-apigen`: one subcommand for each step from a header to the code of both halves.

#![forbid(unsafe_code)]

mod generate_command;
mod import_command;
mod new_command;
mod repository;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Makes both halves of a remoted API from its C header and what people add to it.
#[derive(Parser)]
#[command(name = "vfun-apigen", version)]
struct Apigen {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    New(new_command::NewArguments),
    Import(import_command::ImportArguments),
    Generate(generate_command::GenerateArguments),
}

fn main() -> ExitCode {
    let done = match Apigen::parse().step {
        Step::New(arguments) => new_command::run(&arguments),
        Step::Import(arguments) => import_command::run(&arguments),
        Step::Generate(arguments) => generate_command::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("vfun-apigen: {why}");
            ExitCode::FAILURE
        }
    }
}
