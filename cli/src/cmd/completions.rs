//! `vfun completions`.

use crate::fail::Result;
use crate::out;
use clap_complete::Shell;

/// Print the completions of a shell.
///
/// For example: vfun completions bash > /etc/bash_completion.d/vfun
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell that they are for.
    shell: Shell,
}

/// Prints those of the whole command.
pub fn run(mut whole: clap::Command, args: &Args) -> Result<()> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut whole, "vfun", &mut script);
    out::raw(&script)
}
