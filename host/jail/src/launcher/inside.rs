//! In the new process: enters the jail layer by layer, then runs the program.
//! The order matters: each step needs what the next ones take away.

use super::clone::{Namespaces, close_others_with_exec};
use super::{Failed, Teller, landlock, mounts, privileges, resources};
use std::convert::Infallible;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use vfun_jail::constants::{SCRATCH, SHARED_SCRATCH};
use vfun_jail::folders;
use vfun_jail::places::Places;
use vfun_jail::{Layer, Plan, Report};

/// Returns only if it fails.
pub fn enter(
    plan: &Plan,
    spaces: Namespaces,
    teller: &Teller<'_>,
    null: BorrowedFd<'_>,
) -> Result<Infallible, Failed> {
    let has = |layer: Layer| !plan.without.contains(&layer);
    rustix::stdio::dup2_stdout(null).map_err(|e| Failed::plain("standard output")(e.into()))?;

    let mut seen = vec![plan.program.clone()];
    seen.extend(plan.reads.iter().cloned());
    let places = Places::with(&seen);
    let sources = spaces.mount.then(|| mounts::open(&places, plan)).transpose()?;
    privileges::become_inside(spaces, plan)?;
    if let Some(sources) = sources {
        mounts::enter(sources, plan.scratch_bytes)?;
    }
    if spaces.names {
        let _ = rustix::system::sethostname(b"virtfun");
    }
    if has(Layer::Rlimits) {
        resources::limit(plan, spaces)?;
    }
    if has(Layer::NoNewPrivileges) {
        privileges::no_new()?;
    }
    let scratch = match (plan.scratch_bytes > 0, spaces.mount) {
        (false, _) => None,
        (true, true) => Some(SCRATCH),
        (true, false) => Some(SHARED_SCRATCH),
    };
    let mut version = None;
    if has(Layer::Landlock) {
        match landlock::restrict(&places, plan, scratch)? {
            Ok(v) => version = Some(v),
            Err(why) => teller.without(Layer::Landlock, why),
        }
    }
    if has(Layer::Capabilities)
        && let Err(e) = privileges::empty_bounding_set()
    {
        teller.without(
            Layer::Capabilities,
            format!("the bounding set cannot be emptied without a user namespace or root: {e}"),
        );
    }
    privileges::become_outside(spaces, plan)?;
    if has(Layer::Capabilities) {
        vfun_privileges::empty_sets().map_err(Failed::at(Layer::Capabilities, "capabilities"))?;
    }
    folders::measure(&plan.writes).map_err(|reason| Failed { layer: None, reason, errno: None })?;
    close_others_with_exec().map_err(Failed::plain("descriptors"))?;
    teller.say(&Report::Entered { landlock: version });
    let mut program = std::process::Command::new(&plan.program);
    program.args(&plan.arguments).env_clear().envs(&plan.environment);
    // A library whose settings are one file for all clients names its files from here.
    if let Some(folder) = plan.writes.first() {
        program.current_dir(folder);
    }
    let e = program.exec();
    Err(Failed::plain(&format!("running {}", plan.program.display()))(e))
}
