//! `vfun completions`.

use crate::complete;
use crate::fail::{Exit, Failure, Result};
use crate::out;
use clap_complete::Shell;

/// Print the completions of a shell.
///
/// For example: vfun completions bash > /etc/bash_completion.d/vfun
///
/// They complete commands, options, and the names of functions, clients, grants, windows,
/// pools and VMs that there are: the script runs `vfun`, which asks the manager. Print the
/// script again after an upgrade.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell that they are for.
    shell: Shell,
}

/// Prints its script.
pub fn run(args: &Args) -> Result<()> {
    let script = complete::script(args.shell).map_err(|e| {
        Failure::new(Exit::Failed, format!("no completions for {}: {e}", args.shell))
    })?;
    out::raw(&script)
}
