//! Goes on where another manager was killed: what it noted and what services
//! say is made one.

use super::grant::{Grant, Stage};
use super::services::ServiceState;
use super::{Action, Core, Exit, ServiceId};
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Status};

impl Core {
    /// Goes on where another manager was killed. What is still served goes on;
    /// services that ended meanwhile are treated as if they ended now.
    pub(super) fn resume(&mut self, now: u64, alive: &[ServiceId], out: &mut Vec<Action>) {
        self.forget_standby();
        self.asked = alive.iter().copied().filter(|id| self.services.contains_key(id)).collect();
        let gone: Vec<_> = self
            .services
            .iter()
            .filter(|(id, s)| !alive.contains(id) && !matches!(s.state, ServiceState::Backoff(_)))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.service_exited(now, id, Exit::Unknown, out);
        }
        self.mend(now, out);
        self.end_unowned(now, out);
        self.resume_buffers(out);
        // Policy may have been changed while no manager was there.
        self.apply_policy(now, out);
        // So may manifests.
        self.take_changed_ports(now, out);
        // What was told while no manager was there may not have been heard.
        for grant in self.all_of(Grant::keeps_vf) {
            if let Some(Stage::Broken { since_ms, .. } | Stage::Closing { since_ms, .. }) =
                self.grants.get_mut(grant).map(|g| &mut g.stage)
            {
                *since_ms = now;
            }
        }
        // Their apps may not have been told. A reason that is there stays. One that
        // a service may be on still is told when that has let go.
        let told = |g: &Grant| matches!(g.stage, Stage::Broken { .. }) && !g.keeps_vf();
        for (_, g) in self.grants.iter().filter(|(_, g)| told(g)) {
            if let Some(place) = g.channel() {
                let (status, reason) = (Status::ServiceLost, BreakReason::NoService);
                let window = g.holder.window;
                out.push(Action::BreakChannel { window, place, status, reason });
            }
        }
        // Those that lost their service on the way.
        let lost = |g: &Grant| {
            let over = matches!(g.stage, Stage::Closing { .. });
            over && !g.service().is_some_and(|s| self.services.contains_key(&s))
        };
        for grant in self.all_of(lost) {
            self.free_grant(grant, out);
        }
        self.resumed = true;
    }

    /// All grants of which this is so.
    pub(super) fn all_of(&self, so: impl Fn(&Grant) -> bool) -> Vec<Handle> {
        self.grants.iter().filter(|(_, g)| so(g)).map(|(h, _)| h).collect()
    }

    /// What ended with much else takes several packets to note: some of it may not
    /// have been.
    fn end_unowned(&mut self, now: u64, out: &mut Vec<Action>) {
        let gone = |s: &super::Session| !self.windows.contains_key(&s.window);
        let unowned: Vec<_> =
            self.sessions.iter().filter(|(_, s)| gone(s)).map(|(h, _)| h).collect();
        for session in unowned {
            self.end_session(now, session, "its app is gone", out);
        }
        for grant in self.all_of(|g| self.sessions.get(g.holder.session).is_err()) {
            self.end_grant(now, grant, "its app is gone", out);
        }
    }

    /// Of what happened at once only a part may have been noted: services that
    /// were never noted are asked for anew.
    fn mend(&mut self, now: u64, out: &mut Vec<Action>) {
        self.mend_moves();
        for grant in self.all_of(|g| g.service().is_some_and(|s| !self.services.contains_key(&s))) {
            if self.dies_with_service(grant, "its service is gone", out) {
                continue;
            }
            let Some(g) = self.grants.get_mut(grant) else { continue };
            match g.stage {
                Stage::Activating { .. } | Stage::Active { .. } | Stage::Recovering { .. } => {
                    g.stage.recover();
                    self.serve(now, grant, out);
                }
                Stage::Broken { .. } => self.off_broken(grant, out),
                // It is freed in the end.
                Stage::Closing { .. } | Stage::Granted => {}
            }
        }
    }

    /// A service says, when asked, what it serves: what only one of the two
    /// knows of is put right. Whatever it said to the manager that was killed
    /// may not have been noted.
    pub(super) fn serving(
        &mut self,
        now: u64,
        id: ServiceId,
        channels: &[Handle],
        out: &mut Vec<Action>,
    ) {
        // One that was not asked has nothing to say.
        if !self.asked.remove(&id) {
            return;
        }
        let Some(s) = self.services.get(&id) else { return };
        let starting = s.state == ServiceState::Starting;
        if starting {
            // It can answer, so it is ready.
            return self.service_ready(now, id, out);
        }
        for &channel in channels {
            let serves = self.grants.get(channel).is_ok_and(|g| g.service() == Some(id));
            if !serves && !self.is_handed(channel, id) {
                out.push(Action::CloseChannel { service: id, channel });
            }
        }
        let beside = self.beside(id);
        for &channel in &beside {
            if !channels.contains(&channel) {
                self.beside_gone(now, channel, id, true, out);
            }
        }
        for channel in self.channels_of(id).into_iter().filter(|c| !beside.contains(c)) {
            match channels.contains(&channel) {
                true => self.still_serves(id, channel, out),
                false => self.serves_no_more(now, id, channel, out),
            }
        }
    }

    /// A service has a channel, as it should, or should not any more.
    fn still_serves(&mut self, id: ServiceId, channel: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(channel) else { return };
        out.push(if g.is_over() {
            Action::CloseChannel { service: id, channel }
        } else if g.is_let_go() {
            // To close it would end the calls that were begun and are answered later.
            Action::HandOver { service: id, channel }
        } else {
            // The manager may have been killed before it had said a new one.
            Action::SetRate { service: id, channel, calls_per_s: g.terms.calls_per_s }
        });
        if g.opens() {
            out.push(Action::TakeUp { service: id, channel, status: Status::DriverCrashed });
        }
    }

    /// A service does not have a channel that it should have, or has let go of.
    fn serves_no_more(&mut self, now: u64, id: ServiceId, channel: Handle, out: &mut Vec<Action>) {
        if self.dies_with_service(channel, "its service has let go of it", out) {
            return;
        }
        let Some(g) = self.grants.get_mut(channel) else { return };
        if g.is_let_go() {
            return self.change_over(now, channel, out);
        }
        g.set_moving(g.moving().filter(|m| m.phase.lingers()));
        match g.stage {
            Stage::Granted => {}
            // It may have let go of one that is active and have said so to nobody; opening
            // it again shows why.
            Stage::Activating { .. } | Stage::Active { .. } | Stage::Recovering { .. } => {
                g.stage.recover();
                self.open(id, channel, out);
            }
            Stage::Closing { .. } => self.free_grant(channel, out),
            Stage::Broken { .. } => self.off_broken(channel, out),
        }
    }
}
