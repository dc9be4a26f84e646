//! What is left of services that are over: their control groups, and processes
//! to be reaped. Nothing here waits for a process that does not end.
//!
//! When a manager starts anew in place, the process stays the same, and with it
//! the children of the program before. Its keeper goes on; launchers were
//! killed, services may end at any time. All of them must be reaped, and only
//! this process can.

use super::{Daemon, Kind};
use crate::core::ServiceId;
use crate::limits::GROUPS_SWEEP;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_jail::Remains;
use vfun_jail::group::Group;

/// Children of this process; none where the kernel does not tell.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let text = |t: std::fs::DirEntry| std::fs::read_to_string(t.path().join("children"));
    let all: Vec<String> = threads.filter_map(|t| text(t).ok()).collect();
    let pids = all.iter().flat_map(|t| t.split_whitespace());
    pids.filter_map(|p| Pid::from_raw(p.parse().ok()?)).collect()
}

impl Daemon {
    /// Finds them, once everything that goes on was taken up and before
    /// anything new is started.
    pub(super) fn find_strays(&mut self) {
        for child in children() {
            let pid = child.as_raw_nonzero().get();
            // Reaped when it ends, like all services.
            if self.rim.services.values().any(|p| p.pid == pid) {
                continue;
            }
            let Ok(pidfd) = pidfd_open(child, PidfdFlags::empty()) else { continue };
            let id = pid.unsigned_abs();
            if self.watch(&pidfd, Kind::StrayEnd, id, EventFlags::IN).is_ok() {
                self.strays.insert(id, pidfd);
            }
        }
    }

    /// One of them has ended.
    pub(super) fn stray_ended(&mut self, id: u32) {
        let Some(pidfd) = self.strays.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, &pidfd);
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }

    /// Removes a service's group, now or later.
    pub(super) fn remove_group(&mut self, group: Group) {
        if !group.remove() {
            self.jails.leaving.push(group);
        }
    }

    /// Takes up what is left of a launch, now or later.
    pub(super) fn reap(&mut self, mut remains: Remains) {
        if !remains.gone() {
            self.jails.remains.push(remains);
        }
    }

    /// Tries again to remove groups that were still in use, and to reap
    /// launchers that had not ended.
    pub(super) fn see_to_what_jails_leave(&mut self) {
        self.jails.leaving.retain(|g| !g.remove());
        self.jails.remains.retain_mut(|r| !r.gone());
        if self.jails.sweep.is_none_or(|at| at > Instant::now()) {
            return;
        }
        // Services that an earlier manager left end only after this one has begun.
        let ours = self.rim.services.values().chain(&self.leaving).map(|p| &p.sandbox.group);
        let ours = ours.chain(self.launching.values().map(|l| &l.begun.group));
        let ours = ours.chain(&self.jails.leaving).flat_map(|g| &g.dirs);
        let ours: BTreeSet<&Path> = ours.map(|(_, dir)| dir.as_path()).collect();
        let clean = self.jails.groups.sweep(&ours);
        self.jails.sweep = (!clean).then(|| Instant::now() + GROUPS_SWEEP);
    }

    /// When to see to them again, if there is anything.
    pub(super) fn jails_patience(&self) -> Option<Duration> {
        if !self.jails.leaving.is_empty() || !self.jails.remains.is_empty() {
            return Some(Duration::from_millis(100));
        }
        Some(self.jails.sweep?.saturating_duration_since(Instant::now()))
    }

    /// Before another program takes this process's place: it would know nothing
    /// of services that are being made, whose processes are its children.
    pub(super) fn abandon_launches(&mut self) {
        let all: Vec<ServiceId> = self.launching.keys().copied().collect();
        for id in all {
            self.abandon_launch(id);
        }
    }
}
