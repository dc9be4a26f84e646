//! The end of a service's process: what it was, and what becomes of the service's grants.

use super::grant::{Grant, Stage};
use super::services::{Service, ServiceState};
use super::switch::Phase;
use super::watch::log_of;
use super::{Action, Core, Exit, Level, ServiceId};
use vfun_supervise::{EXIT_CANNOT_START, EXIT_DEADLINE};
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, NackCode, Status};

/// The signal by which the kernel ends a process that makes a call on the list
/// of those that only an attack makes.
const SIGSYS: i32 = 31;

/// How a service ended, with its last word.
struct End {
    exit: Exit,
    /// The channel whose call ran past its deadline, as it said or the manager saw.
    overran: Option<Handle>,
    /// The manager ended it: why.
    stalled: Option<String>,
}

impl End {
    fn of(exit: Exit, s: Option<&mut Service>) -> Self {
        let (overran, stalled) = s.map_or((None, None), |s| (s.overran.take(), s.stalled.take()));
        End { exit, overran, stalled }
    }

    /// Whether a call's deadline ended it. Of one that was nobody's child its last word
    /// tells; of one that the manager ended, what the manager saw.
    fn deadline(&self) -> bool {
        let seen = self.exit == Exit::Unknown || self.stalled.is_some();
        self.exit == Exit::Code(EXIT_DEADLINE) || (self.overran.is_some() && seen)
    }

    /// What the call under way on a channel is answered with.
    fn status(&self, channel: Handle) -> Status {
        match (self.deadline(), self.overran == Some(channel)) {
            (true, true) => Status::Deadline,
            (true, false) => Status::ServiceLost,
            (false, _) => Status::DriverCrashed,
        }
    }

    /// How the process ended, in words.
    fn how(&self) -> String {
        if let Some(stalled) = &self.stalled {
            return format!("it did not run and was ended: {stalled}");
        }
        match self.exit {
            Exit::Code(EXIT_DEADLINE) => "a call ran past its deadline".to_owned(),
            Exit::Code(c) => format!("it exited with status {c}"),
            Exit::Signal(SIGSYS) => {
                "it made a system call that only an attack makes (signal 31 ended it)".to_owned()
            }
            Exit::Signal(n) => format!("signal {n} ended it"),
            Exit::Forbidden(call) => {
                let name = vfun_jail::seccomp::name(call).unwrap_or("a name not known here");
                format!(
                    "its driver used system call {call} ({name}), which the sandbox does not allow"
                )
            }
            Exit::Starved => {
                "it needed more memory than its client may use (policy: memory)".to_owned()
            }
            Exit::Unknown if self.deadline() => "a call ran past its deadline".to_owned(),
            Exit::Unknown => "it ended while no manager was there".to_owned(),
        }
    }
}

impl Core {
    pub(super) fn service_exited(
        &mut self,
        now: u64,
        id: ServiceId,
        exit: Exit,
        out: &mut Vec<Action>,
    ) {
        self.asked.remove(&id);
        let end = End::of(exit, self.services.get_mut(&id));
        self.note_half_done(id, |channel| end.status(channel));
        self.moves_failed(now, id, out);
        let Some(s) = self.services.get(&id) else { return };
        let (owner, function) = (s.owner, s.function.clone());
        if s.state == ServiceState::Stopping {
            self.services.remove(&id);
            for channel in self.channels_of(id) {
                self.restart_elsewhere(now, channel, out);
            }
            return;
        }
        if exit == Exit::Code(EXIT_CANNOT_START) {
            let reason = format!("the service of '{function}' could not start");
            return self.service_failed(now, id, &reason, out);
        }
        if !s.ever_ready && exit == Exit::Unknown {
            // It may never have been started: the manager was killed on the way.
            return self.start_service(now, id, out);
        }
        let (key, how) = (s.key(), end.how());
        if !s.ever_ready {
            let reason = format!("the driver of '{function}' crashed while it loaded: {how}");
            // Nobody waits for another try, but it counts.
            let _ = self.crashed(now, key, out);
            return self.service_failed(now, id, &reason, out);
        }
        let again = self.crashed(now, key, out);
        let text = format!("service {id} of '{function}' died: {how}");
        self.log_of_service(owner, Level::Warn, text, out);
        for channel in self.channels_of(id) {
            self.service_died(now, channel, &end, out);
        }
        match again {
            Ok(0) => self.start_service(now, id, out),
            Ok(delay) => self.set_state(id, ServiceState::Backoff(now + delay)),
            Err(_) => {
                self.services.remove(&id);
                let why = format!("its service crashed too often; the last time {how}");
                for channel in self.channels_of(id) {
                    self.abandon(channel, BreakReason::CrashLoop, &why, out);
                }
            }
        }
    }

    /// The service that has a grant's channel died, and may be started again.
    fn service_died(&mut self, now: u64, channel: Handle, end: &End, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        match g.stage {
            Stage::Active { .. } | Stage::Recovering { .. } => {
                if self.dies_with_service(channel, &end.how(), out) {
                    return;
                }
                let Some(g) = self.grants.get_mut(channel) else { return };
                // The other one's call, if that was over its deadline: it had
                // its turn, so this one was in none.
                let status = match g.take_left() {
                    Some(Status::Deadline) => Status::Deadline,
                    _ => end.status(channel),
                };
                g.stage.recover();
                // Counted here: the next service may serve, and die, before
                // it has said that it opened the channel.
                g.restarts = g.restarts.saturating_add(1);
                // In the middle of a hand-over nobody but the one that takes
                // the channel up knows whose call is under way.
                let handing = g.moving().is_some_and(|m| m.phase == Phase::Handing);
                if let Some(place) = g.channel().filter(|_| !handing) {
                    let window = g.holder.window;
                    out.push(Action::FailCurrent { window, place, status });
                }
                let on_vf = g.movable() && g.subject.location.is_hardware();
                let how = end.how();
                self.record(channel, Some(&how), out);
                if on_vf {
                    self.note_trouble(channel, &how);
                }
                self.fall_back(now, channel, status, out);
            }
            Stage::Closing { .. } => {
                self.leave_vf_of(now, channel);
                self.free_grant(channel, out);
            }
            Stage::Broken { .. } => {
                self.leave_vf_of(now, channel);
                self.off_broken(channel, out);
            }
            // Another try would take as long and end in the same way.
            Stage::Activating { .. } if end.deadline() && end.overran == Some(channel) => {
                let function = &g.subject.function;
                let reason = format!(
                    "the driver of '{function}' did not open the channel in time: see {} under the manager's root",
                    log_of(&g.holder.client, function)
                );
                self.nack_activation(NackCode::ServiceFailed, channel, &reason, out);
            }
            Stage::Activating { .. } | Stage::Granted => {}
        }
    }

    /// The service that had a grant's channel has it no more. Whether the channel is of a
    /// kind that nobody else can serve: it is broken off then.
    pub(super) fn dies_with_service(
        &mut self,
        channel: Handle,
        why: &str,
        out: &mut Vec<Action>,
    ) -> bool {
        let dies = self.grants.get(channel).is_ok_and(Grant::dies_with_service);
        if dies {
            self.break_off(channel, BreakReason::ServiceLost, why, out);
        }
        dies
    }

    /// A grant was about to use a service that was on its way out.
    pub(super) fn restart_elsewhere(&mut self, now: u64, channel: Handle, out: &mut Vec<Action>) {
        if self.dies_with_service(channel, "its service was told to end", out) {
            return;
        }
        let Some(g) = self.grants.get_mut(channel) else { return };
        match g.stage {
            Stage::Granted => {}
            Stage::Closing { .. } => self.free_grant(channel, out),
            Stage::Broken { .. } => self.off_broken(channel, out),
            Stage::Activating { .. } | Stage::Active { .. } | Stage::Recovering { .. } => {
                g.stage.recover();
                self.serve(now, channel, out);
            }
        }
    }
}
