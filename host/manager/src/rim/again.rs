//! SIGHUP: the program on disk takes this one's place. It is tried first, by a
//! process that does nothing but look whether it could start: one that could not
//! would leave no manager where one served.

use super::{Daemon, Kind};
use crate::limits::TRIAL_TIME;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument by which the program only looks.
pub const CHECK: &str = "--check";
/// What is read of its words.
const WORDS: u64 = 4096;

/// The program on disk, looking.
pub(super) struct Trial {
    child: Child,
    pidfd: OwnedFd,
    until: Instant,
}

impl Trial {
    fn start() -> io::Result<Self> {
        let mut arguments = std::env::args_os();
        let program = arguments.next().unwrap_or_else(|| "vfund".into());
        let mut child = Command::new(&program)
            .args(arguments)
            .arg(CHECK)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::other(format!("{}: {e}", program.display())))?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Trial { child, pidfd, until: Instant::now() + TRIAL_TIME }),
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(e.into())
            }
        }
    }

    /// How it went, when it has ended.
    fn outcome(mut self) -> Result<(), String> {
        let mut said = vec![];
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(WORDS).read_to_end(&mut said);
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let said = String::from_utf8_lossy(&said);
                Err(format!("the program on disk would not start ({status}): {}", said.trim()))
            }
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Daemon {
    /// Told to start anew: tries whether that would do.
    pub(super) fn try_again(&mut self) {
        let mut bytes = [0; 64];
        while (&self.hangups).read(&mut bytes).is_ok_and(|n| n > 0) {}
        if self.trial.is_some() {
            return;
        }
        self.not_again = None;
        let begun = self.check_root().and_then(|()| Trial::start().map_err(|e| e.to_string()));
        let watched = begun.and_then(|trial| {
            self.watch(&trial.pidfd, Kind::TrialEnd, 0, EventFlags::IN)
                .map_err(|e| e.to_string())?;
            Ok(trial)
        });
        match watched {
            Ok(trial) => self.trial = Some(trial),
            Err(why) => self.stay(why),
        }
    }

    /// The trial ended.
    pub(super) fn tried(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        let _ = epoll::delete(&self.epoll, &trial.pidfd);
        match trial.outcome() {
            Ok(()) => {
                tracing::info!("told to start anew in place");
                self.again = true;
                self.ending = true;
            }
            Err(why) => self.stay(why),
        }
    }

    /// Ends a trial that takes too long.
    pub(super) fn mind_the_trial(&mut self) {
        if let Some(trial) = &mut self.trial
            && trial.until <= Instant::now()
        {
            // Its end is heard like any other.
            let _ = trial.child.kill();
        }
    }

    pub(super) fn trial_patience(&self) -> Option<Duration> {
        Some(self.trial.as_ref()?.until.saturating_duration_since(Instant::now()))
    }

    fn stay(&mut self, why: String) {
        tracing::error!("told to start anew, and stays as it is: {why}");
        self.not_again = Some(why);
    }
}
