//! `vfun man`.

use crate::args::Cli;
use crate::fail::{self, Result};
use clap::CommandFactory;
use std::path::PathBuf;

/// Write the manual's pages to a folder.
///
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
    let failed = |e| fail::file(&args.folder, "written to", &e);
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)?;
    // `bench` reads its own options, so its pages replace the one made above.
    clap_mangen::generate_to(super::bench::command().name("vfun-bench"), &args.folder)
        .map_err(failed)
}
