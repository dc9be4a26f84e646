//! `vfun man`.

use crate::args::Cli;
use crate::fail::{self, Result};
use clap::CommandFactory;
use std::path::PathBuf;

/// Writes vfun.1, vfun-call.1 and so on.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder; made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes them.
pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.folder).map_err(|e| fail::file(&args.folder, "made", &e))?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(|e| fail::file(&args.folder, "written to", &e))
}
