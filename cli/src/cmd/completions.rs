//! `vfun completions`.

use crate::args::Cli;
use crate::fail::Result;
use crate::out;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completions of a shell.
///
/// For example: vfun completions bash > /etc/bash_completion.d/vfun
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints them.
pub fn run(args: &Args) -> Result<()> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::command(), "vfun", &mut script);
    out::raw(&script)
}
