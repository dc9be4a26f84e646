//! The manager's side of a start.

use crate::{Missing, Plan, Report};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use vfun_supervise::Error;

/// A service that is being made. Its descriptor is readable when there is more
/// to [`hear`](Launch::hear).
pub struct Launch {
    launcher: Child,
    report: OwnedFd,
    made: Option<(i32, OwnedFd)>,
    missing: Vec<Missing>,
    entered: Option<Option<u32>>,
    failed: Option<(Option<crate::Layer>, String)>,
}

/// A service in its jail.
#[derive(Debug)]
pub struct Launched {
    /// Its process id.
    pub pid: i32,
    /// The same as a descriptor.
    pub pidfd: OwnedFd,
    /// Layers the launcher could not give it.
    pub missing: Vec<Missing>,
    /// The version of Landlock's interface in force.
    pub landlock: Option<u32>,
}

/// How far it is.
#[derive(Debug)]
pub enum Progress {
    /// There will be more to hear.
    Waiting,
    /// Its program runs.
    Done(Launched),
    /// It did not come to pass, and nothing of it is left.
    Failed {
        /// The layer that failed, if it was one.
        layer: Option<crate::Layer>,
        /// A sentence for people.
        reason: String,
    },
}

impl Launch {
    /// Starts the launcher `program`. The service gets `stdin` as its standard
    /// input, `log` as its standard error, and no other descriptor.
    pub fn start(program: &Path, plan: &Plan, stdin: OwnedFd, log: File) -> io::Result<Self> {
        let (report, theirs) = vfun_supervise::pair()?;
        rustix::io::ioctl_fionbio(&report, true)?;
        let launcher = Command::new(program)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(theirs))
            .stderr(log)
            // Its own: a terminal's Ctrl-C is not for it, and whatever of it is
            // left after a failure can be found.
            .process_group(0)
            .spawn()?;
        let launch =
            Launch { launcher, report, made: None, missing: vec![], entered: None, failed: None };
        match vfun_supervise::send(&launch.report, plan, &[]) {
            Ok(()) => Ok(launch),
            Err(e) => {
                launch.abandon();
                Err(io::Error::other(e))
            }
        }
    }

    /// Takes in what was said.
    pub fn hear(&mut self) -> Progress {
        loop {
            match vfun_supervise::receive::<Report>(&self.report) {
                Ok(Some((report, fds))) => self.take(report, fds),
                Ok(None) => return self.ended(),
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Progress::Waiting;
                }
                Err(e) => {
                    self.failed.get_or_insert((None, e.to_string()));
                    return self.ended();
                }
            }
        }
    }

    fn take(&mut self, report: Report, fds: Vec<OwnedFd>) {
        match report {
            Report::Made { pid } => {
                self.made = fds.into_iter().next().map(|pidfd| (pid, pidfd));
            }
            Report::Without(missing) => self.missing.push(missing),
            Report::Entered { landlock } => self.entered = Some(landlock),
            Report::Failed { layer, reason } => {
                self.failed.get_or_insert((layer, reason));
            }
        }
    }

    /// Everybody has closed the other end: the program runs, or nothing does.
    fn ended(&mut self) -> Progress {
        let _ = self.launcher.wait();
        match (self.failed.take(), self.entered, self.made.take()) {
            (None, Some(landlock), Some((pid, pidfd))) => Progress::Done(Launched {
                pid,
                pidfd,
                missing: std::mem::take(&mut self.missing),
                landlock,
            }),
            (failed, _, made) => {
                self.made = made;
                self.clear();
                let (layer, reason) = failed
                    .unwrap_or((None, "the launcher ended before the service was made".into()));
                Progress::Failed { layer, reason }
            }
        }
    }

    /// Ends it, whatever it is at.
    pub fn abandon(mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
        while let Ok(Some((report, fds))) = vfun_supervise::receive::<Report>(&self.report) {
            self.take(report, fds);
        }
        self.clear();
    }

    /// Takes what was made off the system's list.
    fn clear(&mut self) {
        if let Some((_, pidfd)) = &self.made {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
            let _ = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            return;
        }
        // A launcher that was killed before it could tell of it: the process
        // is in the launcher's group, and ends without it.
        let group = Pid::from_child(&self.launcher);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = rustix::process::waitid(WaitId::Pgid(Some(group)), WaitIdOptions::EXITED);
    }
}

impl AsFd for Launch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}
