//! Channels: how they are opened, closed and broken.

use super::grant::{Grant, Holder, Stage};
use super::switch::Phase;
use super::{Action, Core, Level, ServiceId};
use core::net::IpAddr;
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, NackCode, Status};

impl Core {
    pub(super) fn open(&mut self, service: ServiceId, grant: Handle, out: &mut Vec<Action>) {
        self.open_at(service, grant, None, out);
    }

    /// Lets a service serve a channel, or stand by at `standby` while another
    /// one serves it.
    pub(super) fn open_at(
        &mut self,
        service: ServiceId,
        grant: Handle,
        standby: Option<Location>,
        out: &mut Vec<Action>,
    ) {
        // Its report is read as what it serves of that which it was told before
        // it was asked, so it is told of nothing more until then.
        if self.asked.contains(&service) {
            return;
        }
        let Ok(g) = self.grants.get(grant) else { return };
        // It has it still, from before a move: when it has let go it is told.
        if standby.is_none()
            && g.moving().is_some_and(|m| {
                m.service == service && matches!(m.phase, Phase::Leaving | Phase::Off)
            })
        {
            return;
        }
        let Some(place) = g.channel() else { return };
        let (window, session) = (g.holder.window, g.holder.session);
        // Before the channel: its first call may name one.
        self.bring_buffers(service, session, out);
        let Ok(g) = self.grants.get(grant) else { return };
        if matches!(g.stage, Stage::Activating { .. }) {
            // Here and not when it is laid out: whichever manager and service
            // it takes until somebody serves it, that one begins with zeros.
            out.push(Action::Zero { window, place });
        }
        out.push(Action::OpenChannel {
            service,
            channel: grant,
            window,
            place,
            app: g.holder.app.clone(),
            vm: g.holder.vm.clone(),
            address: self.address_of(&g.holder),
            session: g.holder.session,
            deadline_ms: g.terms.deadline_ms,
            calls_per_s: g.terms.calls_per_s,
            wait: g.terms.wait,
            vf: g.vf().filter(|_| standby.unwrap_or(g.subject.location).is_hardware()),
            standby: standby.is_some(),
            port: self.catalog.port_of(g).cloned(),
        });
    }

    /// The address that a manifest gives where a holder is.
    fn address_of(&self, holder: &Holder) -> Option<IpAddr> {
        let client = self.catalog.clients.get(&holder.client_id)?;
        client.addresses.get(holder.vm.as_ref().unwrap_or(&client.name)).copied()
    }

    pub(super) fn channel_opened(
        &mut self,
        now: u64,
        service: ServiceId,
        channel: Handle,
        out: &mut Vec<Action>,
    ) {
        if self.is_handed(channel, service) {
            return self.handed_over(now, channel);
        }
        let mine = self.grants.get(channel).is_ok_and(|g| g.service() == Some(service));
        let Some(g) = self.grants.get_mut(channel).filter(|_| mine) else { return };
        let opening = g.moving().filter(|m| m.phase == Phase::Opening);
        match g.stage.take() {
            Stage::Recovering { place, service } => {
                g.stage = Stage::Active { place, service };
                if opening.is_some() {
                    g.set_moving(None);
                }
            }
            activating @ Stage::Activating { .. } => {
                g.stage = activating;
                self.activated(channel, out);
            }
            active @ Stage::Active { .. } if opening.is_some() => {
                g.stage = active;
                return g.set_moving(None);
            }
            other => return g.stage = other,
        }
        if let Some(s) = self.services.get_mut(&service) {
            s.used_ms = now;
        }
        self.record(channel, None, out);
    }

    pub(super) fn channel_open_failed(
        &mut self,
        now: u64,
        service: ServiceId,
        channel: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        if self.grants.get(channel).is_ok_and(Grant::movable) {
            self.note_trouble(channel, reason);
        }
        let Ok(g) = self.grants.get(channel) else { return };
        if g.is_beside(service) {
            return self.beside_gone(now, channel, service, false, out);
        }
        if g.service() != Some(service) {
            return;
        }
        match g.stage {
            Stage::Active { .. } if g.moving().is_none_or(|m| m.phase != Phase::Opening) => {}
            Stage::Active { .. } | Stage::Recovering { .. } => {
                if !self.fall_back(now, channel, Status::DriverCrashed, out) {
                    self.break_off(channel, BreakReason::NoService, reason, out);
                }
            }
            Stage::Activating { .. } => {
                self.nack_activation(NackCode::ServiceFailed, channel, reason, out);
            }
            Stage::Closing { .. } => self.free_grant(channel, out),
            Stage::Granted | Stage::Broken { .. } => {}
        }
    }

    pub(super) fn channel_closed(
        &mut self,
        now: u64,
        service: ServiceId,
        channel: Handle,
        out: &mut Vec<Action>,
    ) {
        if self.grants.get(channel).is_ok_and(|g| g.is_beside(service)) {
            self.beside_gone(now, channel, service, true, out);
        }
        if let Ok(g) = self.grants.get(channel)
            && g.service() == Some(service)
        {
            match g.stage {
                Stage::Closing { .. } => self.free_grant(channel, out),
                Stage::Broken { .. } => self.off_broken(channel, out),
                _ if g.is_let_go() => self.change_over(now, channel, out),
                // Unasked: R-ARN-5. Of calls, a service that was asked by the manager
                // before this one may say so late.
                _ => _ = self.dies_with_service(channel, "its service has let go of it", out),
            }
        }
        if let Some(s) = self.services.get_mut(&service) {
            s.used_ms = now;
        }
    }

    pub(super) fn channel_broken(
        &mut self,
        service: ServiceId,
        channel: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(channel) else { return };
        if g.service() != Some(service) || !g.stage.goes_on() {
            return;
        }
        // The service has stopped serving it but still maps it: it is asked to
        // let go, and the pages stay the grant's until it is released.
        self.tell_broken(channel, Status::ChannelBroken, BreakReason::BadSequence, out);
        self.leave_broken(channel, Some(service), None, reason, out);
        out.push(Action::CloseChannel { service, channel });
    }

    /// Nothing serves this channel any more; its grant can only be released.
    pub(super) fn break_off(
        &mut self,
        channel: Handle,
        reason: BreakReason,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        self.tell_broken(channel, Status::ServiceLost, reason, out);
        self.leave_broken(channel, None, None, why, out);
    }

    /// Breaks a channel that `service` has still. With `over` its app is told so, and
    /// why, when no service has it any more: one that serves it still would answer what
    /// was answered here.
    pub(super) fn leave_broken(
        &mut self,
        channel: Handle,
        service: Option<ServiceId>,
        over: Option<BreakReason>,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        match g.stage.take() {
            Stage::Active { place, .. } | Stage::Recovering { place, .. } => {
                g.stage = Stage::Broken { place, service, since_ms: self.now, over };
            }
            other => return g.stage = other,
        }
        let (client, function) = (g.holder.client_id, g.subject.function.clone());
        self.part(channel, out);
        self.free_vf_of_broken(channel);
        let text = format!("channel {channel} of '{function}' is broken: {why}");
        out.push(Action::LogOf { client, level: Level::Warn, text });
        self.record(channel, Some(why), out);
    }

    fn tell_broken(
        &self,
        grant: Handle,
        status: Status,
        reason: BreakReason,
        out: &mut Vec<Action>,
    ) {
        if let Ok(g) = self.grants.get(grant)
            && let Some(place) = g.channel()
        {
            out.push(Action::BreakChannel { window: g.holder.window, place, status, reason });
        }
    }

    /// No service serves a broken grant's channel any more. If its app has not
    /// been told why it is broken, it is because it was to leave a VF to others.
    pub(super) fn off_broken(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let Stage::Broken { service, over, .. } = &mut g.stage else { return };
        *service = None;
        if let Some(reason) = over.take() {
            self.tell_broken(grant, Status::ServiceLost, reason, out);
        }
        self.free_vf_of_broken(grant);
    }

    /// The service of a grant is gone and does not come again: who waits for it is told,
    /// and what it served is broken off.
    pub(super) fn abandon(
        &mut self,
        grant: Handle,
        reason: BreakReason,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(grant) else { return };
        match g.stage {
            Stage::Granted => {}
            Stage::Activating { .. } => {
                self.nack_activation(NackCode::ServiceFailed, grant, why, out);
            }
            Stage::Active { .. } | Stage::Recovering { .. } => {
                self.break_off(grant, reason, why, out);
            }
            Stage::Broken { .. } => self.off_broken(grant, out),
            Stage::Closing { .. } => self.free_grant(grant, out),
        }
    }
}
