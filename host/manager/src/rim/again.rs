//! SIGHUP: the program on disk takes this one's place. It is tried first, by a
//! process that does nothing but look whether it could start: one that could not
//! would leave no manager where one served.

use super::{Daemon, Kind};
use crate::limits::{HELD_TIME, TRIAL_ENDS, TRIAL_TIME};
use crate::process::await_end;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument by which the program only looks.
pub const CHECK: &str = "--check-again";
/// What is read of its words.
const WORDS: u64 = 4096;

/// How long a trial is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// For its answer, until then.
    Answer(Instant),
    /// It gave none and was killed: for its end, until then.
    End(Instant),
    /// The kernel does not let go of it. Nobody waits any more.
    Over,
}

/// The program on disk, looking. Ended and reaped when it is dropped, with all that it
/// started, which is in its process group.
pub(super) struct Trial {
    child: Child,
    pidfd: OwnedFd,
    patience: Patience,
}

impl Trial {
    fn start() -> io::Result<Self> {
        let mut arguments = std::env::args_os();
        let program = arguments.next().unwrap_or_else(|| "vfund".into());
        let mut command = Command::new(&program);
        command.args(arguments).arg(CHECK);
        Self::of(command)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", program.display())))
    }

    fn of(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let watched = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .and_then(|pidfd| {
                // Whoever else has its end may keep it open for ever.
                let words = child.stderr.as_ref().expect("piped above");
                rustix::io::ioctl_fionbio(words, true).map(|()| pidfd)
            })
            .map_err(io::Error::from);
        match watched {
            Ok(pidfd) => {
                let patience = Patience::Answer(Instant::now() + TRIAL_TIME);
                Ok(Trial { child, pidfd, patience })
            }
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(e)
            }
        }
    }

    /// Ends all that is in its group. Only before it is reaped: the number may be
    /// another group's then.
    fn kill(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// How it went, when it has ended.
    fn outcome(mut self) -> Result<(), String> {
        let mut said = vec![];
        if let Some(words) = self.child.stderr.take() {
            // As much as there is: an error only says that there is no more.
            let _ = words.take(WORDS).read_to_end(&mut said);
        }
        if !matches!(self.patience, Patience::Answer(_)) {
            return Err(late());
        }
        self.kill();
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let said = String::from_utf8_lossy(&said);
                Err(format!("the program on disk would not start ({status}): {}", said.trim()))
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// Ends it when it takes too long; true when it is not waited for any more.
    fn mind(&mut self, now: Instant) -> bool {
        match self.patience {
            Patience::Answer(until) if until <= now => {
                self.kill();
                // Its end is heard like any other.
                self.patience = Patience::End(now + TRIAL_ENDS);
                false
            }
            Patience::End(until) if until <= now => {
                self.patience = Patience::Over;
                true
            }
            _ => false,
        }
    }

    /// When to look at it again, if ever.
    fn due(&self) -> Option<Instant> {
        match self.patience {
            Patience::Answer(until) | Patience::End(until) => Some(until),
            Patience::Over => None,
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // One that was reaped has nothing left to end.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.kill();
        if self.patience != Patience::Over {
            await_end(&self.pidfd);
        }
        let _ = self.child.try_wait();
    }
}

fn late() -> String {
    format!(
        "the program on disk did not say within {} s whether it would start, and was ended",
        TRIAL_TIME.as_secs()
    )
}

impl Daemon {
    /// Told to start anew: tries whether that would do.
    pub(super) fn try_again(&mut self) {
        let mut bytes = [0; 64];
        while (&self.hangups).read(&mut bytes).is_ok_and(|n| n > 0) {}
        match &self.trial {
            Some(t) if t.patience == Patience::Over => {
                let pid = t.child.id();
                return self.stay(format!("{}: process {pid} does not end", late()));
            }
            Some(_) => return,
            None if self.again_by.is_some() => return,
            None => {}
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
            Ok(()) => self.again_by = Some(Instant::now() + HELD_TIME),
            Err(why) => self.stay(why),
        }
        if self.again_by.is_some() && !self.unheld.is_empty() {
            tracing::warn!(
                "told to restart, and waits until the keeper has {} windows and services more",
                self.unheld.len()
            );
        }
    }

    /// Starts anew once the keeper has everything: the next manager has what it has.
    pub(super) fn again_when_held(&mut self) {
        let Some(until) = self.again_by else { return };
        let kept = self.keeper.is_some() && self.keeper_due.is_none();
        if kept && self.unheld.is_empty() {
            tracing::info!("told to restart in place");
            self.again = true;
            self.ending = true;
        } else if until <= Instant::now() {
            self.again_by = None;
            if !kept {
                return self.stay("there is no keeper, so that all windows and services would be lost: the log says why it cannot be started".into());
            }
            self.stay(format!(
                "within {} s there was no room for descriptors on their way, so that {} windows and services would be lost",
                HELD_TIME.as_secs(),
                self.unheld.len()
            ));
        }
    }

    /// Ends a trial that takes too long.
    pub(super) fn mind_the_trial(&mut self) {
        if let Some(trial) = &mut self.trial
            && trial.mind(Instant::now())
        {
            let pid = trial.child.id();
            self.stay(format!("{}: process {pid} does not end", late()));
        }
    }

    pub(super) fn trial_patience(&self) -> Option<Duration> {
        let due = self.again_by.or_else(|| self.trial.as_ref()?.due())?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn stay(&mut self, why: String) {
        tracing::error!("told to restart, and stays as it is: {why}");
        self.not_again = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(script: &str) -> Trial {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Trial::of(command).unwrap()
    }

    /// Whether a process runs: one that ended and that nobody reaped does not.
    fn runs(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    fn until_ended(t: &Trial) {
        use rustix::event::{PollFd, PollFlags, poll};
        poll(&mut [PollFd::new(&t.pidfd, PollFlags::IN)], None).unwrap();
    }

    #[test]
    fn what_a_trial_left_behind_holds_nobody_up() {
        // What it started has its standard error, and keeps it.
        let t = trial("sleep 1000 & echo $! >&2; exit 3");
        until_ended(&t);
        let why = t.outcome().unwrap_err();
        assert!(why.contains("exit status: 3"), "{why}");
        let left: u32 = why.rsplit_once(' ').unwrap().1.parse().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while runs(left) {
            assert!(Instant::now() < until, "what it started is ended with it");
            std::thread::yield_now();
        }
        let t = trial("exit 0");
        until_ended(&t);
        t.outcome().unwrap();
    }

    #[test]
    fn a_trial_that_is_dropped_is_ended_and_reaped() {
        let t = trial("exec sleep 1000");
        let pid = t.child.id();
        assert!(runs(pid));
        drop(t);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_trial_that_never_ends_is_waited_for_so_long_and_no_longer() {
        let mut t = trial("exec sleep 1000");
        let late = t.due().unwrap();
        assert!(!t.mind(late - Duration::from_millis(1)));
        assert_eq!(t.due(), Some(late));
        assert!(!t.mind(late));
        // Killed: there is time for its end, in which nothing is to be done.
        assert_eq!(t.due(), Some(late + TRIAL_ENDS));
        assert!(!t.mind(late), "once");
        // One that the kernel does not let go of wakes nobody any more.
        assert!(t.mind(late + TRIAL_ENDS));
        assert_eq!(t.due(), None);
        assert!(!t.mind(late + 2 * TRIAL_ENDS), "said once");
        until_ended(&t);
        let why = t.outcome().unwrap_err();
        assert!(why.contains("did not say within 10 s"), "{why}");
    }
}
