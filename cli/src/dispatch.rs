//! Each command gets what it needs of the command line.

use crate::args::{Cli, Command};
use crate::cmd::*;
use crate::fail::Result;
use crate::programs;
use clap::CommandFactory;
use std::process::ExitCode;

/// Runs the command that the line names.
pub fn run(cli: &Cli) -> Result<ExitCode> {
    let (host, admin, output) = (&cli.host(), &cli.admin(), cli.output());
    match &cli.command {
        Command::Call(args) => call::run(host, output, args),
        Command::New(args) => new::run(output, args),
        Command::Bindgen(args) => bindgen::run(host, args),
        Command::List(args) => list::run(host, output, args),
        Command::Submit(args) => submit::run(host, output, args),
        Command::Doctor(args) => return doctor::run(host, output, args),
        Command::Status => status::run(admin, output),
        Command::Ps(args) => ps::run(admin, output, args),
        Command::Stats(args) => stats::run(admin, output, args),
        Command::History(args) => history::run(admin, output, args),
        Command::Revoke(args) => revoke::run(admin, output, args),
        Command::Function(sub) => function::run(admin, output, sub),
        Command::Service(sub) => service::run(admin, output, sub),
        Command::Leases(sub) => leases::run(admin, output, sub),
        Command::Nics(sub) => nics::run(host, output, sub),
        Command::Links(args) => links::run(admin, output, args),
        Command::Port(sub) => port::run(admin, output, sub),
        Command::Rdma(sub) => rdma::run(admin, output, sub),
        Command::Verbs(sub) => return verbs::run(output, sub),
        Command::Client(sub) => client::run(admin, output, sub),
        Command::Window(sub) => window::run(admin, output, sub),
        Command::Policy(sub) => policy::run(admin, output, sub),
        Command::Token(sub) => token::run(admin, output, sub),
        Command::Audit(args) => audit::run(admin, output, args),
        Command::Attach(args) => attach::attach(admin, output, args),
        Command::Detach(args) => attach::detach(admin, output, args),
        Command::Drain(args) => switch::drain(admin, output, args),
        Command::Stop(args) => switch::stop(admin, output, args),
        Command::Top(_) => Err(programs::hand_over("top")),
        Command::Run(args) => run::run(output, args),
        Command::Guest(_) => Err(programs::hand_over("guest")),
        Command::Bench(args) => {
            Err(bench::run(cli.root.as_deref(), cli.endpoint.as_deref(), output, args))
        }
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(Cli::command(), args),
    }?;
    Ok(ExitCode::SUCCESS)
}
