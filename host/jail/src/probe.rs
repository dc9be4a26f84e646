//! Which layers this host gives to services that the caller would start: found
//! out by putting a program that does nothing into a jail.

use crate::constants::{LAUNCHER_ENDS, USER_BASE};
use crate::group::Groups;
use crate::standing::Meant;
use crate::{
    Launch, Launched, Layer, Limits, Missing, Plan, Progress, Standing, may_become_others, seccomp,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// Longest wait for the launcher to say something.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Tries all of them, with the launcher `program`.
pub fn try_out(program: &Path) -> Result<Standing, String> {
    let mut without = BTreeSet::new();
    let mut missing = vec![];
    // At most once for each layer that fails half way.
    for _ in Layer::ALL {
        match once(program, &without, &missing) {
            Ok(standing) => return Ok(standing),
            Err((Some(layer), reason)) if without.insert(layer) => {
                missing.push(Missing::new(layer, reason));
            }
            Err((_, reason)) => return Err(reason),
        }
    }
    Err("no layer can be had".into())
}

type ProbeFailure = (Option<Layer>, String);

fn plain(what: &str) -> impl FnOnce(std::io::Error) -> ProbeFailure + use<> {
    let what = what.to_owned();
    move |e| (None, format!("{what}: {e}"))
}

fn once(
    program: &Path,
    without: &BTreeSet<Layer>,
    known: &[Missing],
) -> Result<Standing, ProbeFailure> {
    let groups = Groups::find(&format!("doctor-{}", std::process::id()));
    let mut missing = known.to_vec();
    missing.extend_from_slice(groups.missing());
    let limits = Limits::default();
    let (group, ungrouped) = groups.make("doctor", "trial", &limits, 0, without);
    missing.extend(ungrouped);
    let user = may_become_others().then_some(USER_BASE);
    if user.is_none() {
        missing.push(Missing::new(Layer::OwnUser, crate::NO_OTHER_USERS));
    }
    let plan = Plan {
        program: program.to_owned(),
        arguments: vec!["--stand-in".into()],
        reads: vec![],
        writes: vec![],
        environment: Default::default(),
        devices: vec![],
        groups: vec![],
        scratch_bytes: 0,
        user: user.filter(|_| !without.contains(&Layer::OwnUser)),
        limits,
        without: without.clone(),
        tasks: group.tasks(),
        group: group.unified(),
        memory_grouped: group.bounds_memory(),
    };
    let meant = Meant { user, groups: group.dirs.clone(), missing, landlock: None, writes: vec![] };
    let tried = stand_in(program, &plan, meant);
    group.remove();
    groups.end();
    tried
}

/// Puts the program into a jail, looks how it stands there, and ends it.
fn stand_in(program: &Path, plan: &Plan, mut meant: Meant) -> Result<Standing, ProbeFailure> {
    let (ours, theirs) = vfun_supervise::pair().map_err(plain("a socket"))?;
    let log = File::options().write(true).open("/dev/null").map_err(plain("/dev/null"))?;
    let launch =
        Launch::start(program, plan, theirs, log).map_err(plain(&program.display().to_string()))?;
    let done = launched(launch)?;
    meant.missing.extend(done.missing);
    meant.landlock = done.landlock;
    let mut standing = Standing::of(done.pid, done.pidfd.as_fd(), &meant);
    // A service installs its list itself.
    if let Some(at) = standing.missing.iter().position(|m| m.layer == Layer::Seccomp) {
        match seccomp::available() {
            Ok(()) => {
                standing.missing.remove(at);
                standing.layers.insert(Layer::Seccomp);
            }
            Err(why) => standing.missing[at].why = why,
        }
    }
    drop(ours);
    let _ = rustix::process::pidfd_send_signal(&done.pidfd, Signal::KILL);
    let _ = rustix::process::waitid(WaitId::PidFd(done.pidfd.as_fd()), WaitIdOptions::EXITED);
    Ok(standing)
}

/// Waits until the launcher has done its work, or says why it cannot.
fn launched(mut launch: Launch) -> Result<Launched, ProbeFailure> {
    loop {
        match launch.hear() {
            Progress::Done(done) => {
                launch.remains().wait(LAUNCHER_ENDS);
                return Ok(done);
            }
            Progress::Failed(f) => {
                launch.remains().wait(LAUNCHER_ENDS);
                return Err((f.layer, f.reason));
            }
            Progress::Waiting => {
                let mut fds = [PollFd::new(&launch, PollFlags::IN)];
                if !matches!(poll(&mut fds, Some(&PATIENCE)), Ok(n) if n > 0) {
                    launch.abandon().wait(LAUNCHER_ENDS);
                    return Err((None, "the launcher does not answer".into()));
                }
            }
        }
    }
}

/// What the lack of layers means, in plain words: one sentence for each way out
/// that is open.
pub fn gaps(standing: &Standing) -> Vec<&'static str> {
    let lacks = |layer: Layer| !standing.layers.contains(&layer);
    let mut open = vec![];
    if lacks(Layer::Mount) && lacks(Layer::Landlock) {
        open.push("a driver that was taken over reads every file that its user may read");
        open.push("a function whose manifest names devices does not start");
    } else if lacks(Layer::Mount) || lacks(Layer::Landlock) {
        open.push("one layer instead of two hides this host's files from drivers");
    }
    if lacks(Layer::Network) && lacks(Layer::Seccomp) {
        open.push("a driver that was taken over reaches the network");
    }
    if lacks(Layer::OwnUser) && lacks(Layer::User) {
        open.push("drivers run as the manager's own user: what protects the manager from them is the other layers");
    } else if lacks(Layer::OwnUser) {
        open.push(
            "all clients' drivers run as one user: what keeps them apart is the other layers",
        );
    }
    if lacks(Layer::Pid) && lacks(Layer::Seccomp) {
        open.push("a driver that was taken over signals whatever its user may signal");
    }
    if lacks(Layer::Seccomp) {
        open.push("drivers may make any system call: a fault in the kernel is within their reach");
    }
    if lacks(Layer::NoNewPrivileges) || lacks(Layer::Capabilities) {
        open.push("drivers keep privileges, or may gain some");
    }
    if lacks(Layer::CgroupCpu) {
        open.push("nothing bounds the processor time of one client's drivers: a driver's own threads weigh as one, and each of its channels as another");
    }
    if lacks(Layer::CgroupMemory) {
        open.push("memory of drivers is bounded by address space only, for each service by itself");
    }
    if lacks(Layer::CgroupPids) && lacks(Layer::User) {
        open.push("threads of drivers are not bounded");
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_open_with_all_layers_and_much_with_none() {
        let all = Standing { layers: Layer::ALL.into(), ..Standing::default() };
        assert_eq!(gaps(&all), [""; 0]);
        let open = gaps(&Standing::default());
        assert!(open.len() > 6 && open.iter().any(|o| o.contains("devices does not start")));
        for layer in Layer::ALL {
            let mut layers = all.layers.clone();
            layers.remove(&layer);
            let open = gaps(&Standing { layers, ..Standing::default() });
            assert!(open.len() <= 1, "{layer}: {open:?}");
        }
    }
}
