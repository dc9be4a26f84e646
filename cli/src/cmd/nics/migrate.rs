//! `vfun nics migrate`.

use super::ask::Allocator;
use super::show;
use super::vm_name;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Output};
use std::time::{Duration, Instant};
use vfun_admin::VmName;
use vfun_nicd::ask::Ask;

/// Between two questions whether the VF is gone.
const LOOK: Duration = Duration::from_millis(200);

/// Take a VM's VF away before the VM is migrated, and give it none until that has ended.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The VM.
    #[arg(value_name = "CLIENT[/VM]", value_parser = vm_name)]
    vm: VmName,
    /// The migration has ended: the VM competes again.
    #[arg(long, conflicts_with = "wait")]
    ended: bool,
    /// Wait at most so many seconds until the VM has no VF; exit code 1 if it has one still.
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

/// Does it.
pub fn run(allocator: &Allocator, output: Output, args: &Args) -> Result<()> {
    let name = args.vm.clone();
    if args.ended {
        return output.done(allocator.tell(&Ask::MigrationEnded { name })?);
    }
    let sentence = allocator.tell(&Ask::Migrate { name })?;
    let Some(seconds) = args.wait else { return output.done(sentence) };
    if !output.is_json() {
        out::line(&sentence)?;
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        if show::vm(allocator, &args.vm)?.vf.is_none() {
            return output.done(format!("VM {} has no VF: migrate it now", args.vm));
        }
        if Instant::now() >= until {
            return Err(Failure::new(
                Exit::Failed,
                format!("VM {} has its VF still after {seconds} s", args.vm),
            )
            .advise(format!(
                "`vfun nics explain {0}` says why; wait longer, or give up with `vfun nics migrate {0} --ended`",
                args.vm
            )));
        }
        std::thread::sleep(LOOK);
    }
}
