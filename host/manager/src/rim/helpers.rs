//! Helpers: processes that stand between the manager and the network, so that
//! nothing from there is read in the manager: the gateway for callers over TCP
//! and the one that shows the counters to Prometheus. They are ordinary clients
//! of the manager's sockets. The one that lends network VFs and the one that watches
//! switches are none: they and the manager speak by the socket that is their standard
//! input. One that dies is started again, later and later while it keeps dying.

use super::{Daemon, Kind};
use crate::limits::{HELPER_AGAIN, HELPER_AGAIN_MOST, HELPER_LIVED, LEFT_ENDS};
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A helper, running or about to be started again.
pub(super) struct Helper {
    /// What it is for, for messages.
    what: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    /// It and the manager speak by its standard input, and what the manager's end of that is.
    packets: Option<Kind>,
    running: Option<(Child, OwnedFd)>,
    /// When it was last started.
    since: Instant,
    /// When it is to be started again.
    due: Option<Instant>,
    /// Deaths in a row.
    deaths: u32,
}

/// What shows the end of one that was started, and the manager's end of its socket.
type Watched<'a> = (BorrowedFd<'a>, Option<BorrowedFd<'a>>);

/// How long to wait after so many deaths in a row.
fn pause(deaths: u32) -> Duration {
    HELPER_AGAIN.saturating_mul(1 << deaths.saturating_sub(1).min(16)).min(HELPER_AGAIN_MOST)
}

impl Helper {
    /// One that is to run `program`; it is told to end with its standard
    /// input, so that it does not outlive a manager that was killed.
    pub fn new(what: &'static str, program: &Path, args: Vec<OsString>) -> Self {
        Helper {
            what,
            program: program.to_owned(),
            args,
            packets: None,
            running: None,
            since: Instant::now(),
            due: Some(Instant::now()),
            deaths: 0,
        }
    }

    /// The same for one to which the manager speaks by packets over its standard input.
    /// `socket`: what the manager's end of that is.
    pub fn with_packets(
        what: &'static str,
        program: &Path,
        args: Vec<OsString>,
        socket: Kind,
    ) -> Self {
        Helper { packets: Some(socket), ..Helper::new(what, program, args) }
    }

    /// Starts it, and has its end watched, and the manager's end of its socket if it has
    /// one, which this gives back.
    fn start(
        &mut self,
        watch: impl FnOnce(Watched<'_>) -> io::Result<()>,
    ) -> io::Result<Option<OwnedFd>> {
        let (ours, stdin) = match self.packets {
            None => (None, Stdio::piped()),
            Some(_) => {
                let (ours, theirs) = vfun_supervise::pair()?;
                (Some(ours), Stdio::from(theirs))
            }
        };
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .arg("--until-stdin-closes")
            .stdin(stdin)
            .spawn()?;
        let watched = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(io::Error::from)
            .and_then(|pidfd| {
                watch((pidfd.as_fd(), ours.as_ref().map(AsFd::as_fd)))?;
                Ok(pidfd)
            });
        match watched {
            Ok(pidfd) => {
                self.since = Instant::now();
                self.due = None;
                self.running = Some((child, pidfd));
                Ok(ours)
            }
            Err(e) => {
                // One that nobody watches would keep its address from the next, and its
                // end would not be noticed.
                let _ = child.kill();
                let _ = child.wait();
                Err(e)
            }
        }
    }

    /// What it runs.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// It is gone: when it is to be started again.
    fn died(&mut self) -> Duration {
        self.deaths = if self.since.elapsed() >= HELPER_LIVED { 1 } else { self.deaths + 1 };
        let pause = pause(self.deaths);
        self.due = Some(Instant::now() + pause);
        pause
    }
}

impl Daemon {
    /// Takes a helper on and starts it. That its program is missing is an
    /// error here; later troubles are waited out.
    pub(super) fn add_helper(&mut self, helper: Helper) -> io::Result<()> {
        self.helpers.push(helper);
        self.start_helper(self.helpers.len() - 1)
    }

    fn start_helper(&mut self, index: usize) -> io::Result<()> {
        let epoll = &self.epoll;
        let packets = self.helpers[index].packets;
        let socket = self.helpers[index].start(|(end, socket)| {
            epoll::add(epoll, end, Kind::HelperEnd.token(index as u32), EventFlags::IN)?;
            if let Some((socket, kind)) = socket.zip(packets) {
                epoll::add(epoll, socket, kind.token(0), EventFlags::IN)?;
            }
            Ok(())
        })?;
        match (packets, socket) {
            (Some(Kind::NicsSocket), Some(socket)) => self.nics_started(socket),
            (Some(Kind::LinksSocket), Some(socket)) => self.links_started(socket),
            _ => {}
        }
        Ok(())
    }

    /// Ends the helper that runs this program; its end is heard like any other.
    pub(super) fn kill_helper(&mut self, program: &Path) {
        for helper in self.helpers.iter_mut().filter(|h| h.program == program) {
            if let Some((child, _)) = &mut helper.running {
                let _ = child.kill();
            }
        }
    }

    /// One of them is gone.
    pub(super) fn helper_ended(&mut self, index: u32) {
        let Some(helper) = self.helpers.get_mut(index as usize) else { return };
        let Some((mut child, pidfd)) = helper.running.take() else { return };
        let _ = epoll::delete(&self.epoll, &pidfd);
        let how = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        let pause = helper.died();
        tracing::error!(
            "the {} ended ({how}): it is started again in {} ms",
            helper.what,
            pause.as_millis()
        );
        match helper.packets {
            Some(Kind::NicsSocket) => self.nics_ended(),
            Some(Kind::LinksSocket) => self.links_ended(),
            _ => {}
        }
    }

    /// Starts those whose time has come.
    pub(super) fn start_due_helpers(&mut self) {
        for index in 0..self.helpers.len() {
            if self.helpers[index].due.is_some_and(|due| due <= Instant::now())
                && let Err(e) = self.start_helper(index)
            {
                let helper = &mut self.helpers[index];
                let pause = helper.died();
                tracing::error!(
                    "the {} could not be started: {}: {e}; next try in {} ms",
                    helper.what,
                    helper.program.display(),
                    pause.as_millis()
                );
            }
        }
    }

    /// How long until the next of them is to be started again.
    pub(super) fn helpers_patience(&self) -> Option<Duration> {
        let due = self.helpers.iter().filter_map(|h| h.due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Whether the helper that runs this program does.
    pub(super) fn helper_runs(&self, program: &Path) -> bool {
        self.helpers.iter().any(|h| h.program == program && h.runs())
    }

    /// Ends them all.
    pub(super) fn end_helpers(&mut self) {
        let mut ending = vec![];
        for helper in &mut self.helpers {
            helper.due = None;
            if let Some((mut child, _)) = helper.running.take() {
                let _ = child.kill();
                ending.push(child);
            }
        }
        let until = Instant::now() + LEFT_ENDS;
        while !ending.is_empty() && Instant::now() < until {
            ending.retain_mut(|c| c.try_wait().is_ok_and(|s| s.is_none()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process of this id is there, reaped or not.
    fn is_there(pid: &str) -> bool {
        Path::new("/proc").join(pid).exists()
    }

    #[test]
    fn one_that_fails_half_way_through_its_start_is_ended_and_reaped() {
        for packets in [None, Some(Kind::NicsSocket)] {
            let dir = tempfile::tempdir().unwrap();
            let (file, program) = (dir.path().join("pid"), Path::new("/bin/sh"));
            let script = format!("echo $$ > {0}.new; mv {0}.new {0}; read _", file.display());
            let args = vec!["-c".into(), script.into()];
            let mut helper = Helper { packets, ..Helper::new("test", program, args) };
            let mut pid = String::new();
            let failed = helper.start(|(_, socket)| {
                assert_eq!(socket.is_some(), packets.is_some());
                while pid.is_empty() {
                    pid = std::fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
                }
                assert!(is_there(&pid));
                Err(io::Error::other("no epoll"))
            });
            assert_eq!(failed.unwrap_err().to_string(), "no epoll");
            assert!(!is_there(&pid) && !helper.runs());
            assert!(helper.due.is_some(), "it is started again");
            assert!(
                helper.start(|_| Ok(())).unwrap().is_some() == packets.is_some() && helper.runs()
            );
            let (mut child, _) = helper.running.take().unwrap();
            child.kill().and_then(|()| child.wait()).unwrap();
        }
    }

    #[test]
    fn one_that_keeps_dying_is_tried_less_and_less() {
        let mut helper = Helper::new("test", Path::new("/bin/true"), vec![]);
        let pauses: Vec<Duration> = (0..40).map(|_| helper.died()).collect();
        assert_eq!(pauses[0], HELPER_AGAIN);
        assert!(pauses.windows(2).all(|p| p[0] <= p[1]));
        assert_eq!(pauses[39], HELPER_AGAIN_MOST);
        // One that lived for long begins anew.
        helper.since = Instant::now().checked_sub(HELPER_LIVED).unwrap();
        assert_eq!(helper.died(), HELPER_AGAIN);
    }
}
