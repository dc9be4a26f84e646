//! Goes on where another manager was killed: what it noted and what services
//! say is made one.

use super::grants::GrantState;
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
        self.mend_moves(now, out);
        // What ended with much else takes several packets to note: some of it
        // may not have been.
        let unowned: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, s)| !self.windows.contains_key(&s.window))
            .map(|(h, _)| h)
            .collect();
        for session in unowned {
            self.end_session(now, session, "its app is gone", out);
        }
        let unowned: Vec<_> = self
            .grants
            .iter()
            .filter(|(_, g)| self.sessions.get(g.session).is_err())
            .map(|(h, _)| h)
            .collect();
        for grant in unowned {
            self.end_grant(now, grant, "its app is gone", out);
        }
        // Policy may have been changed while no manager was there.
        self.apply_policy(now, out);
        // What was told while no manager was there may not have been heard.
        let keep: Vec<_> =
            self.grants.iter().filter(|(_, g)| g.keeps_vf()).map(|(handle, _)| handle).collect();
        for grant in keep {
            self.grants.get_mut(grant).expect("just listed").closing_ms = now;
        }
        // Their apps may not have been told. A reason that is there stays. One that
        // a service may be on still is told when that has let go.
        let told = |g: &super::Grant| g.state == GrantState::Broken && !g.keeps_vf();
        for (_, g) in self.grants.iter().filter(|(_, g)| told(g)) {
            if let Some(geometry) = g.geometry {
                out.push(Action::BreakChannel {
                    window: g.window,
                    geometry,
                    status: Status::ServiceLost,
                    reason: BreakReason::NoService,
                });
            }
        }
        // Grants whose window is gone, and those that lost their service on the way.
        let lost: Vec<_> = self
            .grants
            .iter()
            .filter(|(_, g)| {
                let service = g.service.is_some_and(|s| self.services.contains_key(&s));
                let over = g.state == GrantState::Closing || !self.windows.contains_key(&g.window);
                over && !service
            })
            .map(|(h, _)| h)
            .collect();
        for grant in lost {
            self.free_grant(grant, out);
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
            let serves = self.grants.get(channel).is_ok_and(|g| g.service == Some(id));
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
            if channels.contains(&channel) {
                let Ok(g) = self.grants.get(channel) else { continue };
                let over = matches!(g.state, GrantState::Closing | GrantState::Broken);
                out.push(if over || self.lets_go(channel) {
                    Action::CloseChannel { service: id, channel }
                } else {
                    // The manager may have been killed before it had said a new one.
                    Action::SetRate { service: id, channel, calls_per_s: g.calls_per_s }
                });
                if self.opens(channel) {
                    let status = Status::DriverCrashed;
                    out.push(Action::TakeUp { service: id, channel, status });
                }
                continue;
            }
            if self.lets_go(channel) {
                self.change_over(now, channel, out);
                continue;
            }
            let g = self.grants.get_mut(channel).expect("just listed");
            g.moving = g.moving.filter(|m| m.phase.lingers());
            match g.state {
                GrantState::Activating | GrantState::Recovering => self.open(id, channel, out),
                GrantState::Active => {
                    // It let go of it and said so to nobody; opening it again
                    // shows why.
                    g.state = GrantState::Recovering;
                    self.open(id, channel, out);
                }
                GrantState::Closing => self.free_grant(channel, out),
                GrantState::Broken => self.off_broken(channel, out),
                GrantState::Granted | GrantState::Released => {}
            }
        }
    }
}
