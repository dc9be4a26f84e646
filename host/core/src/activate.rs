//! Activations: a grant gets its place, and its service opens it, or does not.

use super::catalog::Function;
use super::grant::{Grant, Stage};
use super::services::Owner;
use super::{Action, ControlRequest, Core, ReplyTo, nacks};
use vfun_wire::message::Kind;
use vfun_wire::{Handle, Nack, NackCode};

impl Core {
    pub(super) fn activate(
        &mut self,
        now: u64,
        session: Handle,
        r: &ControlRequest,
        out: &mut Vec<Action>,
    ) -> Result<(), Nack> {
        let handle = self.own_grant(session, &r.body, Kind::Activate)?;
        if self.activated_before(handle, r.to, out)? {
            return Ok(());
        }
        let g = self.grants.get(handle).map_err(|_| nacks::no_grant(handle))?;
        self.may_activate(now, g)?;
        let shape = g.subject.shape.clone();
        let owner = Owner::Client(g.holder.client_id);
        let (function, location) = (g.subject.function.clone(), g.subject.location);
        let w = self.windows.get_mut(&g.holder.window).ok_or_else(nacks::client_removed)?;
        if w.control.is_shut(now) {
            return Err(nacks::window_shut());
        }
        let Some(place) = w.take(&shape) else { return Err(nacks::window_full(&shape, w)) };
        let (service, fresh) = self.service_for(now, owner, function, location);
        if let Some(g) = self.grants.get_mut(handle) {
            g.stage = Stage::Activating { place, service, waiting: Some(r.to) };
        }
        self.begin_to_serve(now, handle, service, fresh, out);
        Ok(())
    }

    /// Whether nothing more is to be done for an activation: it is read again by a manager
    /// that took over before it was answered, or asked again by an app that was told that
    /// it takes its time.
    fn activated_before(
        &mut self,
        grant: Handle,
        to: ReplyTo,
        out: &mut Vec<Action>,
    ) -> Result<bool, Nack> {
        let Some(g) = self.grants.get_mut(grant) else { return Err(nacks::no_grant(grant)) };
        let untold = g.replay.activated.is_none();
        match &mut g.stage {
            Stage::Granted => return Ok(false),
            Stage::Activating { waiting, .. } if waiting.is_none_or(|before| before == to) => {
                *waiting = Some(to);
                return Ok(true);
            }
            Stage::Broken { .. } if untold => return Err(nacks::lost_before_told(grant, g)),
            _ => {}
        }
        let late = untold && g.stage.goes_on();
        if late || g.replay.activated == Some(to) {
            g.replay.activated = Some(to);
            out.extend(ack(grant, g, to));
            return Ok(true);
        }
        Err(nacks::already(grant, g))
    }

    /// Whether what was granted is there still, and may be started.
    fn may_activate(&self, now: u64, g: &Grant) -> Result<(), Nack> {
        let (client, function) = (g.holder.client_id, &g.subject.function);
        let f = self.catalog.function(client, function);
        let own = f.and_then(Function::own_print);
        if g.subject.of.is_some() && g.subject.of != own {
            return Err(nacks::another_module(g));
        }
        f.map_or(Ok(()), |f| self.check_right(self.session(g.holder.session)?, f))?;
        self.check_breaker(now, Owner::Client(client), function, g.subject.location)?;
        self.check_starts(g)
    }

    /// Its service has opened the channel of an activating grant.
    pub(super) fn activated(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        match g.stage.take() {
            Stage::Activating { place, service, waiting } => {
                g.stage = Stage::Active { place, service };
                g.replay.activated = waiting;
                out.extend(waiting.and_then(|to| ack(grant, g, to)));
            }
            other => g.stage = other,
        }
    }

    /// Nothing serves an activating grant: it is as it was when it was granted.
    pub(super) fn nack_activation(
        &mut self,
        code: NackCode,
        grant: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let (place, waiting) = match g.stage.take() {
            Stage::Activating { place, waiting, .. } => (place, waiting),
            other => return g.stage = other,
        };
        if let Some(w) = self.windows.get_mut(&g.holder.window) {
            w.give(&place, None);
        }
        let nack = Nack::new(code, reason);
        out.extend(waiting.map(|to| Action::Answer { to, result: Err(nack) }));
    }
}

/// The answer to who activated a grant.
fn ack(grant: Handle, g: &Grant, to: ReplyTo) -> Option<Action> {
    Some(Action::Answer { to, result: Ok(g.channel()?.ack(grant.0)) })
}
