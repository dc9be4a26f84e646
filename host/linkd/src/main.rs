//! `vfun-links`: watches which ports of VMs a switch joins point to point.

#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

/// Watches which ports of VMs an Open vSwitch joins point to point.
///
/// The manager starts it (`vfund --links`), and says which ports are to be watched. It reads
/// the rules of their bridges from the switch's own sockets, and changes nothing there.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// End when standard input closes: when the process that started this one ends.
    /// Standard input is the manager's socket in any case.
    #[arg(long)]
    until_stdin_closes: bool,
}

fn main() -> ExitCode {
    let Args { until_stdin_closes: _ } = Args::parse();
    vfun_log::begin();
    match vfun_linkd::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("vfun-links: {why}.");
            ExitCode::FAILURE
        }
    }
}
