//! `vfun doctor`.

mod check;
mod guest;
mod host;
mod isolation;
mod module;
mod nics;
mod nics_guest;
mod paths;
mod rdma;
mod window;

use crate::admin::Admin;
use crate::connect::{Host, Who};
use crate::fail::{Exit, Result};
use crate::machine;
use crate::out::{self, Output};
use check::State;
use std::process::ExitCode;

const AFTER: &str = "\
Each line says what was found; where something is missing, the line below says how to mend it. \
`ok` is there, `note` only limits something, `MISSING` is needed.

The exit code is 0 if nothing that is needed is missing, else 1.";

/// Say what is there, what is missing and how to mend it.
///
/// On the host: what the manager and its services stand on, and whether each
/// function starts; with `vfund --nics` also what network VFs need. In a guest: the
/// window's device, the path that calls would take, the VM's bond if vfun-agent is
/// installed, and what programs for RDMA need if their library is.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// What this machine is [default: guest if it has an ivshmem device and no manager, else host].
    #[arg(long, value_name = "SIDE", value_parser = ["host", "guest"])]
    side: Option<String>,
    /// On the host: do not start each function to see whether it does. Only the manager's own
    /// user and root start them.
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    who: Who,
}

pub fn run(host: &Host, output: Output, args: &Args) -> Result<ExitCode> {
    let side = match &args.side {
        Some(side) => side.as_str(),
        None if machine::is_guest(host.root()) => "guest",
        None => "host",
    };
    let admin = Admin::at(host.root());
    let mut checks = match side {
        "guest" => guest::look(),
        _ => host::look(&admin),
    };
    // Only the manager knows which functions take raw lines: to try would be a
    // refusal, which it records.
    let start = match side == "host" && !args.no_start {
        true => admin.functions().ok().map(|all| host::floors(&all)),
        false => None,
    };
    checks.extend(paths::look(host, &args.who, start.as_deref()));
    if side == "host" {
        // Last: the functions that were started have shown their sandbox.
        checks.extend(isolation::look(&admin));
    }
    let missing = checks.iter().filter(|c| c.state == State::Missing).count();
    if output.is_json() {
        out::json(&serde_json::json!({ "side": side, "missing": missing, "checks": checks }))?;
    } else {
        let verdict = match missing {
            0 => format!("Nothing that this {side} needs is missing."),
            1 => format!("1 thing that this {side} needs is missing."),
            n => format!("{n} things that this {side} needs are missing."),
        };
        out::text(&format!("{}\n{verdict}\n", check::render(&checks)))?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { Exit::Failed.into() })
}
