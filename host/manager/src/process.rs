//! Service processes: made by the launcher as this process's children, told
//! things over one socket, watched by pidfd.

use crate::core::{Exit, WindowId};
use crate::limits::LEFT_ENDS;
use rustix::process::{Pid, PidfdFlags, Signal, WaitIdOptions, WaitIdStatus};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfun_jail::group::Group;
use vfun_jail::standing::{Meant, Standing};
use vfun_supervise::ToService;

/// What a service is kept in.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Sandbox {
    /// Name of the client that it serves.
    pub client: String,
    /// Name of the function that it serves.
    pub function: String,
    /// As the kernel told last.
    pub standing: Standing,
    /// As it was meant.
    pub meant: Meant,
    pub group: Group,
    pub limits: vfun_jail::Limits,
    /// How it computes, in its own words.
    #[serde(default)]
    pub note: Option<String>,
    /// Windows it was passed that are still there.
    #[serde(default)]
    pub windows: BTreeSet<WindowId>,
    /// Their bytes at most so far: so much more its group may hold.
    #[serde(default)]
    pub shared: u64,
    /// Channels at most so far: so many threads more it may have.
    #[serde(default)]
    pub channels: u32,
}

impl Sandbox {
    /// Counts a window as shared. `bytes` tells the size of those that are there.
    /// True if its bound must grow.
    ///
    /// Windows of channels that were closed count too, as pages count where they
    /// were touched first, until the window is gone. The bound never shrinks:
    /// what a program or a VM has still mapped of a window is not free yet.
    pub fn shares(&mut self, window: WindowId, bytes: impl Fn(WindowId) -> Option<u64>) -> bool {
        self.windows.insert(window);
        self.windows.retain(|w| bytes(*w).is_some());
        let sum = self.windows.iter().filter_map(|w| bytes(*w)).fold(0, u64::saturating_add);
        let more = sum > self.shared;
        self.shared = self.shared.max(sum);
        more
    }
}

/// A service's process, and its control socket.
pub struct Process {
    pub pid: i32,
    pub sandbox: Sandbox,
    socket: OwnedFd,
    pidfd: OwnedFd,
}

impl Process {
    /// One that was just made, or that another manager started, which was
    /// killed since.
    pub fn new(pid: i32, socket: OwnedFd, pidfd: OwnedFd, sandbox: Sandbox) -> Self {
        Process { pid, sandbox, socket, pidfd }
    }

    /// Its control socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// Readable when it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends a message to it, with descriptors.
    pub fn send(&self, message: &ToService, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        Ok(vfun_supervise::send(&self.socket, message, fds)?)
    }

    /// Kills it: SIGKILL.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// How it ended, once its pidfd is readable.
    pub fn reap(&self) -> Option<Exit> {
        let status = rustix::process::waitid(
            rustix::process::WaitId::PidFd(self.pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
        match status {
            Ok(status) => Some(exit_of(&status?)),
            // Taken up: not this process's child, so only its end can be seen.
            Err(rustix::io::Errno::CHILD) if self.has_ended() => Some(Exit::Unknown),
            Err(_) => None,
        }
    }
}

impl Process {
    fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
    }
}

fn exit_of(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}

/// Start time of a process in clock ticks since boot, from /proc; `None` if there is none.
pub fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold spaces and brackets; fields count from its end.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Ends a process that an earlier manager left, if it is still the same one.
/// Waits until it has ended: it touches nothing more then.
pub fn end_left(pid: i32, start: u64) -> bool {
    let Some(p) = Pid::from_raw(pid) else { return false };
    // First the descriptor, then the look at whose it is: a number may be
    // another process's by the time it is used.
    let Ok(pidfd) = rustix::process::pidfd_open(p, PidfdFlags::empty()) else { return false };
    if started(pid) != Some(start)
        || rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).is_err()
    {
        return false;
    }
    await_end(&pidfd);
    true
}

/// Waits until a process that was killed has ended, at most [`LEFT_ENDS`].
pub fn await_end(pidfd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: LEFT_ENDS.as_secs() as i64, tv_nsec: 0 }));
}

/// This process's resident memory, bytes.
pub fn resident_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_follows_the_bytes_that_are_shared() {
        let mut there = std::collections::BTreeMap::from([(1, 10u64), (2, 10)]);
        let mut s = Sandbox::default();
        let shares = |s: &mut Sandbox, there: &std::collections::BTreeMap<u32, u64>, w| {
            s.shares(w, |w| there.get(&w).copied()).then_some(s.shared)
        };
        assert_eq!(shares(&mut s, &there, 1), Some(10));
        assert_eq!(shares(&mut s, &there, 1), None);
        assert_eq!(shares(&mut s, &there, 2), Some(20));
        // As many windows as before, and more bytes.
        there.remove(&2);
        there.insert(3, 100);
        assert_eq!(shares(&mut s, &there, 3), Some(110));
        // Fewer bytes change nothing.
        there.remove(&3);
        there.insert(4, 5);
        assert_eq!(shares(&mut s, &there, 4), None);
        assert_eq!(s.shared, 110);
    }
}
