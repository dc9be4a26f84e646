//! `vfun man`.

use crate::fail::{self, Exit, Failure, Result};
use crate::{out, programs};
use std::path::PathBuf;
use std::process::Command;

/// Write the manual's pages to a folder.
///
/// Writes vfun.1, vfun-call.1 and so on.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The folder; made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes those of the whole command.
pub fn run(whole: clap::Command, args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.folder).map_err(|e| fail::file(&args.folder, "made", &e))?;
    clap_mangen::generate_to(whole, &args.folder)
        .map_err(|e| fail::file(&args.folder, "written to", &e))?;
    // `bench` reads its own options, so its pages replace the one made above.
    let Some(bench) = programs::find("vfun-bench") else {
        out::note("vfun-bench is not there: its page names none of its options");
        return Ok(());
    };
    let written = Command::new(&bench).arg("man").arg(&args.folder).status();
    match written {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(
            Exit::Failed,
            format!("{} wrote no manual: {status}", bench.display()),
        )),
        Err(e) => Err(fail::file(&bench, "started", &e)),
    }
}
