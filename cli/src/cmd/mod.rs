//! The subcommands, one a file.

pub mod attach;
pub mod audit;
pub mod bench;
pub mod bindgen;
pub mod call;
pub mod client;
pub mod completions;
pub mod doctor;
pub mod function;
pub mod guest;
pub mod history;
pub mod leases;
pub mod list;
pub mod man;
pub mod policy;
pub mod ps;
pub mod revoke;
pub mod service;
pub mod stats;
pub mod status;
pub mod submit;
pub mod switch;
pub mod token;
pub mod top;

use crate::args::{Cli, Command};
use crate::fail::Result;
use std::process::ExitCode;

/// Runs the command.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let done = |r: Result<()>| r.map(|()| ExitCode::SUCCESS);
    match &cli.command {
        Command::Call(args) => done(call::run(&cli, args)),
        Command::Bindgen(args) => done(bindgen::run(&cli, args)),
        Command::List(args) => done(list::run(&cli, args)),
        Command::Submit(args) => done(submit::run(&cli, args)),
        Command::Doctor(args) => doctor::run(&cli, args),
        Command::Status => done(status::run(&cli)),
        Command::Ps(args) => done(ps::run(&cli, args)),
        Command::Top(args) => done(top::run(&cli, args)),
        Command::Stats(args) => done(stats::run(&cli, args)),
        Command::History(args) => done(history::run(&cli, args)),
        Command::Revoke(args) => done(revoke::run(&cli, args)),
        Command::Function(sub) => done(function::run(&cli, sub)),
        Command::Service(sub) => done(service::run(&cli, sub)),
        Command::Leases(sub) => done(leases::run(&cli, sub)),
        Command::Client(sub) => done(client::run(&cli, sub)),
        Command::Policy(sub) => done(policy::run(&cli, sub)),
        Command::Token(sub) => done(token::run(&cli, sub)),
        Command::Audit(args) => done(audit::run(&cli, args)),
        Command::Attach(args) => done(attach::attach(&cli, args)),
        Command::Detach(args) => done(attach::detach(&cli, args)),
        Command::Drain(args) => done(switch::drain(&cli, args)),
        Command::Stop(args) => done(switch::stop(&cli, args)),
        Command::Guest(args) => guest::run(&cli, args),
        Command::Bench(args) => bench::run(&cli, args),
        Command::Completions(args) => done(completions::run(args)),
        Command::Man(args) => done(man::run(args)),
    }
}
