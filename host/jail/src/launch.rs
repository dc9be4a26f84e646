//! The manager's side of a start. Nothing here waits for a process to end: one
//! that the kernel does not let go must not hold up whoever serves all others.

use crate::constants::LAUNCHER_ENDS;
use crate::{Missing, Plan, Report};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use vfun_supervise::Error;

/// A service that is being made. Its descriptor is readable when there is more
/// to [`hear`](Launch::hear).
pub struct Launch {
    /// Process and process group. The number stays theirs until they are
    /// reaped, which [`Remains`] alone does.
    launcher: Pid,
    report: OwnedFd,
    made: Option<(i32, OwnedFd)>,
    missing: Vec<Missing>,
    entered: Option<Option<u32>>,
    failed: Option<Failure>,
}

/// Why there is no service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The layer that failed, if it was one.
    pub layer: Option<crate::Layer>,
    /// A sentence for people.
    pub reason: String,
    /// The error of the system behind it, if there was one.
    pub errno: Option<i32>,
}

/// A service in its jail.
#[derive(Debug)]
pub struct Launched {
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
    /// Its program runs. The launcher has only to be [reaped](Launch::remains).
    Done(Launched),
    /// It did not come to pass. What there was of it was killed, and has only
    /// to be [reaped](Launch::remains).
    Failed(Failure),
}

impl Launch {
    /// Starts the launcher `program`. The service gets `stdin` as its standard
    /// input, `log` as its standard error, and no other descriptor.
    pub fn start(program: &Path, plan: &Plan, stdin: OwnedFd, log: File) -> io::Result<Self> {
        let (report, theirs) = vfun_supervise::pair()?;
        rustix::io::ioctl_fionbio(&report, true)?;
        // Into the socket's buffer, before there is anybody to read it: what
        // fails here leaves no process.
        vfun_supervise::send(&report, plan, &[])?;
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
        let launcher = Pid::from_child(&launcher);
        Ok(Launch { launcher, report, made: None, missing: vec![], entered: None, failed: None })
    }

    /// Takes in what was said. After anything but [`Progress::Waiting`] there
    /// is nothing more to hear.
    pub fn hear(&mut self) -> Progress {
        loop {
            match vfun_supervise::receive::<Report>(&self.report) {
                Ok(Some((report, _))) => self.take(report),
                Ok(None) => return self.ended(),
                Err(Error::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Progress::Waiting;
                }
                Err(e) => {
                    let errno = if let Error::Io(e) = &e { e.raw_os_error() } else { None };
                    let failure = Failure { layer: None, reason: e.to_string(), errno };
                    self.failed.get_or_insert(failure);
                    return self.ended();
                }
            }
        }
    }

    fn take(&mut self, report: Report) {
        match report {
            // It is this process's child and not reaped yet, so that its number is
            // nobody else's.
            Report::Made { pid } => match watch(pid) {
                Ok(pidfd) => self.made = Some((pid, pidfd)),
                Err(e) => {
                    let reason = format!("the new process cannot be watched: {e}");
                    let failure = Failure { layer: None, reason, errno: e.raw_os_error() };
                    self.failed.get_or_insert(failure);
                }
            },
            Report::Without(missing) => self.missing.push(missing),
            Report::Entered { landlock } => self.entered = Some(landlock),
            Report::Failed { layer, reason, errno } => {
                self.failed.get_or_insert(Failure { layer, reason, errno });
            }
        }
    }

    /// Everybody has closed the other end: the program runs, or nothing does.
    fn ended(&mut self) -> Progress {
        match (self.failed.take(), self.entered, self.made.take()) {
            (None, Some(landlock), Some((pid, pidfd))) => Progress::Done(Launched {
                pid,
                pidfd,
                missing: std::mem::take(&mut self.missing),
                landlock,
            }),
            (failed, _, _) => {
                self.entered = None;
                self.kill();
                Progress::Failed(failed.unwrap_or_else(|| Failure {
                    layer: None,
                    reason: "the launcher ended before the service was made".into(),
                    errno: None,
                }))
            }
        }
    }

    /// Ends the launcher and what it made, which is in its group: the launcher
    /// was not reaped, so the group's number is nobody else's.
    fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.launcher, Signal::KILL);
    }

    /// Ends it, whatever it is at.
    pub fn abandon(mut self) -> Remains {
        self.entered = None;
        self.kill();
        self.remains()
    }

    /// What of it is still to be reaped, once [`hear`](Launch::hear) has said how
    /// it came out.
    pub fn remains(self) -> Remains {
        let whole = self.entered.is_none();
        let kill = (!whole).then(|| Instant::now() + LAUNCHER_ENDS);
        Remains { group: self.launcher, whole, kill, gone: false }
    }
}

fn watch(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

impl AsFd for Launch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

/// Processes of a launch that end or were killed, until the kernel lets go of
/// them. Whoever drops it before leaves them as zombies.
#[derive(Debug)]
#[must_use = "its processes are reaped by asking whether they are gone"]
pub struct Remains {
    group: Pid,
    /// All that is in the group, or the launcher alone: the service goes on.
    whole: bool,
    /// When the launcher is ended that does not end by itself.
    kill: Option<Instant>,
    gone: bool,
}

impl Remains {
    /// Whether nothing is left of it. It never waits.
    pub fn gone(&mut self) -> bool {
        let of =
            || if self.whole { WaitId::Pgid(Some(self.group)) } else { WaitId::Pid(self.group) };
        while !self.gone {
            match rustix::process::waitid(of(), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                // The group may have another one; the launcher was the one.
                Ok(Some(_)) => self.gone = !self.whole,
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                // No such child: all were reaped.
                Err(_) => self.gone = true,
            }
        }
        if !self.gone && self.kill.is_some_and(|at| at <= Instant::now()) {
            self.kill = None;
            let _ = rustix::process::kill_process(self.group, Signal::KILL);
        }
        self.gone
    }

    /// Waits until nothing is left of it, for so long at most; whether it came
    /// to that. Not for whoever serves others.
    pub fn wait(mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        while !self.gone() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}
