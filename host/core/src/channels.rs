//! Channels: how they are opened, refused, closed and broken.

use super::grants::GrantState;
use super::switch::Phase;
use super::{Action, Core, Level, ServiceId};
use vfun_wire::message::{ActivateAck, Location};
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Nack, NackCode, Status};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

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
            && g.moving.is_some_and(|m| {
                m.service == service && matches!(m.phase, Phase::Leaving | Phase::Off)
            })
        {
            return;
        }
        let geometry = g.geometry.expect("laid out before its service is asked for");
        if g.state == GrantState::Activating {
            // Here and not when it is laid out: whichever manager and service
            // it takes until somebody serves it, that one begins with zeros.
            out.push(Action::Zero { window: g.window, geometry });
        }
        out.push(Action::OpenChannel {
            service,
            channel: grant,
            window: g.window,
            geometry,
            app: g.app.clone(),
            deadline_ms: g.deadline_ms,
            calls_per_s: g.calls_per_s,
            wait: g.wait,
            vf: g.vf.filter(|_| standby.unwrap_or(g.location).is_hardware()),
            standby: standby.is_some(),
        });
    }

    pub(super) fn nack_activation(
        &mut self,
        _now: u64,
        grant: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        self.nack_activation_as(NackCode::ServiceFailed, grant, reason, out);
    }

    pub(super) fn nack_activation_as(
        &mut self,
        code: NackCode,
        grant: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let (waiting, geometry, window) = (g.waiting.take(), g.geometry.take(), g.window);
        g.state = GrantState::Granted;
        g.service = None;
        if let (Some(geo), Some(w)) = (geometry, self.windows.get_mut(&window)) {
            w.heap.give(geo.dataout_off.get(), geo.side_bytes.get());
            w.heap.give(geo.datain_off.get(), geo.side_bytes.get());
        }
        if let Some(to) = waiting {
            let nack = Nack::new(code, reason);
            out.push(Action::Answer { to, result: Err(nack) });
        }
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
        let Some(g) = self.grants.get_mut(channel).filter(|g| g.service == Some(service)) else {
            return;
        };
        match g.state {
            GrantState::Activating => {
                g.state = GrantState::Active;
                g.activated = g.waiting;
                let ack = ActivateAck {
                    channel: U64::new(channel.0),
                    geometry: g.geometry.expect("an activating grant has one"),
                };
                if let Some(to) = g.waiting.take() {
                    out.push(Action::Answer { to, result: Ok(ack.as_bytes().to_vec()) });
                }
            }
            GrantState::Recovering => {
                g.state = GrantState::Active;
                g.moving = g.moving.filter(|m| m.phase != Phase::Opening);
            }
            GrantState::Active if g.moving.is_some_and(|m| m.phase == Phase::Opening) => {
                g.moving = None;
                return;
            }
            _ => return,
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
        if self.grants.get(channel).is_ok_and(|g| g.leased) {
            self.note_trouble(channel, reason);
        }
        if self.beside(service).contains(&channel) {
            return self.beside_gone(now, channel, service, false, out);
        }
        let Some(g) = self.grants.get_mut(channel).filter(|g| g.service == Some(service)) else {
            return;
        };
        match g.state {
            GrantState::Activating => self.nack_activation(now, channel, reason, out),
            GrantState::Closing => self.free_grant(channel, out),
            GrantState::Active if g.moving.is_none_or(|m| m.phase != Phase::Opening) => {}
            GrantState::Active | GrantState::Recovering => {
                if self.fall_back(now, channel, Status::DriverCrashed, out) {
                    return;
                }
                let g = self.grants.get_mut(channel).expect("just seen");
                g.service = None;
                self.break_off(channel, Status::ServiceLost, BreakReason::NoService, reason, out);
            }
            _ => {}
        }
    }

    pub(super) fn channel_closed(
        &mut self,
        now: u64,
        service: ServiceId,
        channel: Handle,
        out: &mut Vec<Action>,
    ) {
        if self.beside(service).contains(&channel) {
            self.beside_gone(now, channel, service, true, out);
        }
        let closing = self
            .grants
            .get(channel)
            .is_ok_and(|g| g.service == Some(service) && g.state == GrantState::Closing);
        if closing {
            self.free_grant(channel, out);
        } else if self.grants.get(channel).is_ok_and(|g| g.service == Some(service)) {
            if self.lets_go(channel) {
                self.change_over(now, channel, out);
            } else if self.grants.get(channel).is_ok_and(|g| g.state == GrantState::Broken) {
                self.off_broken(channel, out);
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
        let mine = self.grants.get(channel).is_ok_and(|g| {
            g.service == Some(service)
                && matches!(g.state, GrantState::Active | GrantState::Recovering)
        });
        if !mine {
            return;
        }
        // The service has stopped serving it but still maps it: it is asked to
        // let go, and the pages stay the grant's until it is released.
        self.break_off(channel, Status::ChannelBroken, BreakReason::BadSequence, reason, out);
        out.push(Action::CloseChannel { service, channel });
    }

    /// Nothing serves this channel any more; its grant can only be released.
    pub(super) fn break_off(
        &mut self,
        channel: Handle,
        status: Status,
        reason: BreakReason,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        self.tell_broken(channel, status, reason, out);
        self.leave_broken(channel, why, out);
    }

    /// The same, but that its app is told when no service is on the channel any
    /// more: one that serves it still would answer what was answered here.
    pub(super) fn leave_broken(&mut self, channel: Handle, why: &str, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        (g.state, g.closing_ms) = (GrantState::Broken, self.now);
        self.part(channel, out);
        self.free_vf_of_broken(channel);
        let Ok(g) = self.grants.get(channel) else { return };
        out.push(Action::LogOf {
            client: g.client_id,
            level: Level::Warn,
            text: format!("channel {channel} of '{}' is broken: {why}", g.function),
        });
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
            && let Some(geometry) = g.geometry
        {
            out.push(Action::BreakChannel { window: g.window, geometry, status, reason });
        }
    }

    /// No service serves a broken grant's channel any more. If its app has not
    /// been told why it is broken, it is because it was to leave a VF to others.
    pub(super) fn off_broken(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        g.service = None;
        if let Some(reason) = g.over.take() {
            self.tell_broken(grant, Status::ServiceLost, reason, out);
        }
        self.free_vf_of_broken(grant);
    }
}
