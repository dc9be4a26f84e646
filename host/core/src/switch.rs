//! The switch: a channel goes from the service that serves it to another one,
//! between two calls.
//!
//! 1. *warming*: the service that it goes to is started; calls go on.
//! 2. *standby*: that one maps the channel and lets its driver make itself
//!    ready, but touches nothing; calls go on. Then it has *stood* by.
//! 3. *handing*: the service that it comes from is told. It answers the call
//!    under way, says where it stopped and passes a baton straight to the other,
//!    which takes the channel up, as after a crash: what was posted and not
//!    answered is served. The manager has no part in that step.
//! 4. *leaving*: the first one lets its driver end (which scrubs a VF), and says
//!    that it no longer maps the channel.
//!
//! The baton is only the fast way. Whatever is lost on it, the word that
//! somebody has let go, or has died, makes the manager tell the other to take the
//! channel up, which means nothing to one that has.
//!
//! Beside these: *off*, a move was called off while the other stood by;
//! *closing* and *opening*, the same without a service that stands by, after
//! something failed.

use super::grant::{Grant, Stage};
use super::grants::Key;
use super::services::{CLOSE_GRACE_MS, Owner, START_MS, ServiceState};
use super::{Action, Core, Level, ServiceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use vfun_admin::switch::Phase;
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Status};

/// A grant on its way from one service to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(u8, ServiceId, Phase)", try_from = "(u8, ServiceId, Phase)")]
pub struct Moving {
    /// The other service's place: where it will run, or, once that is done, where it ran.
    pub to: Location,
    /// The other service: what will serve it, or did.
    pub service: ServiceId,
    /// How far it is.
    pub phase: Phase,
}

impl Grant {
    /// How long a service may take for what it was told of this grant, ms: the call
    /// under way and a driver's `init` or `exit` come before.
    pub(super) fn step_ms(&self) -> u64 {
        u64::from(self.terms.deadline_ms).max(START_MS).saturating_add(CLOSE_GRACE_MS)
    }

    /// Whether it is over, and a service that was told to let go of it has not said
    /// that its VF is free: nobody else can have that.
    pub(super) fn keeps_vf(&self) -> bool {
        let held = self.service().is_some() || self.also().is_some();
        self.is_over() && self.vf().is_some() && held
    }

    /// Its move, if that can still be called off.
    pub(super) fn callable_off(&self) -> Option<Moving> {
        let active = matches!(self.stage, Stage::Active { .. });
        self.moving().filter(|m| active && m.phase.may_be_called_off())
    }

    /// Whether a service other than the one that serves it has, or may have,
    /// its channel mapped on the way of a move.
    pub(super) fn is_beside(&self, service: ServiceId) -> bool {
        self.also() == Some(service)
            || self.moving().is_some_and(|m| {
                m.service == service && (self.service() != Some(service) || m.phase.lingers())
            })
    }

    /// Whether the service that serves it was told to let go of it.
    pub(super) fn is_let_go(&self) -> bool {
        let told = |m: Moving| matches!(m.phase, Phase::Closing | Phase::Handing);
        matches!(self.stage, Stage::Active { .. }) && self.moving().is_some_and(told)
    }

    /// Whether its service was told to take it up and has not said that it has.
    pub(super) fn opens(&self) -> bool {
        self.moving().is_some_and(|m| m.phase == Phase::Opening)
    }

    fn set_phase(&mut self, phase: Phase) {
        self.set_moving(self.moving().map(|m| Moving { phase, ..m }));
    }

    /// It does not move, of which nobody has been told.
    fn stay(&mut self) {
        self.set_moving(None);
        if !self.subject.location.is_hardware() {
            self.set_vf(None);
        }
    }
}

impl Core {
    pub(super) fn begin_move(
        &mut self,
        now: u64,
        grant: Handle,
        to: Location,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (owner, function) = (Owner::Client(g.holder.client_id), g.subject.function.clone());
        let (service, fresh) = self.service_for(now, owner, function, to);
        if let Some(g) = self.grants.get_mut(grant) {
            g.set_moving(Some(Moving { to, service, phase: Phase::Warming }));
        }
        // It may be at the same step as the last one was when that was looked at.
        self.steps.remove(&grant);
        if fresh {
            self.start_service(now, service, out);
        } else if let Some(s) = self.services.get_mut(&service) {
            s.used_ms = now;
        }
        self.advance(grant, out);
    }

    fn set_phase(&mut self, grant: Handle, phase: Phase) {
        if let Some(g) = self.grants.get_mut(grant) {
            g.set_phase(phase);
        }
    }

    /// The next step of a move, if both services are there for it.
    pub(super) fn advance(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (Some(m), Stage::Active { service: from, .. }) = (g.moving(), &g.stage) else { return };
        let from = *from;
        let ready = |id: &ServiceId| {
            self.services.get(id).is_some_and(|s| s.state == ServiceState::Ready)
                && !self.asked.contains(id)
        };
        if !ready(&m.service) || !ready(&from) {
            return;
        }
        match m.phase {
            Phase::Warming => {
                self.set_phase(grant, Phase::Standby);
                self.open_at(m.service, grant, Some(m.to), out);
            }
            Phase::Stood => {
                self.set_phase(grant, Phase::Handing);
                out.push(Action::HandOver { service: from, channel: grant });
            }
            _ => {}
        }
    }

    /// Notes since when each grant that moves is at its step.
    fn time_moves(&mut self, now: u64) {
        let steps: BTreeMap<_, _> = self
            .grants
            .with_lease()
            .into_iter()
            .filter_map(|h| Some((h, self.grants.get(h).ok()?.moving()?.phase)))
            .map(|(h, phase)| match self.steps.get(&h) {
                Some(&(was, since)) if was == phase => (h, (phase, since)),
                _ => (h, (phase, now)),
            })
            .collect();
        self.steps = steps;
    }

    /// Ends services that do not do what they were told for a move. What they
    /// serve besides goes on elsewhere, as after a crash.
    pub(super) fn end_those_who_hold_up(&mut self, now: u64, out: &mut Vec<Action>) {
        self.time_moves(now);
        let late: Vec<_> =
            self.services.keys().copied().filter(|id| self.holds_up_a_move(now, *id)).collect();
        out.extend(late.into_iter().map(|service| Action::KillService { service }));
    }

    /// Whether a service was told something of a move longer ago than the call
    /// under way, and a driver's `init`, may take, and has not done it. A VF that
    /// it is on, or may be on, would stay with it for ever.
    fn holds_up_a_move(&self, now: u64, id: ServiceId) -> bool {
        self.steps.iter().any(|(handle, &(phase, since))| {
            let Ok(g) = self.grants.get(*handle) else { return false };
            let Some(m) = g.moving() else { return false };
            let whose = match phase {
                Phase::Handing | Phase::Closing => g.service(),
                Phase::Standby | Phase::Leaving | Phase::Off => Some(m.service),
                // It says so after its first call at the latest.
                Phase::Opening if g.subject.location.is_hardware() => g.service(),
                Phase::Warming | Phase::Stood | Phase::Opening => None,
            };
            let late = |since| now.saturating_sub(since) > g.step_ms();
            whose == Some(id) && self.counts_from(id, since).is_some_and(late)
        })
    }

    /// Whether what a grant is to go to waits for its turn to be started, because it
    /// crashed or its client used up its starts; not where the host has no means for one.
    pub(super) fn waits_for_its_turn(&self, now: u64, m: Moving) -> bool {
        m.phase == Phase::Warming
            && self.services.get(&m.service).is_some_and(|s| {
                s.delayed.is_none()
                    && matches!(s.state, ServiceState::Backoff(until) if until > now)
            })
    }

    /// A service can serve: moves to it go on.
    pub(super) fn advance_to(&mut self, id: ServiceId, out: &mut Vec<Action>) {
        for grant in self.beside(id) {
            self.advance(grant, out);
        }
    }

    /// Grants that a service does not serve, and will, or did until now.
    pub(super) fn beside(&self, id: ServiceId) -> Vec<Handle> {
        let mut all = self.grants.of(&Key::Service(id));
        all.retain(|h| self.grants.get(*h).is_ok_and(|g| g.is_beside(id)));
        all
    }

    /// A move is not wanted any more, and may be called off.
    pub(super) fn call_off(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        match g.moving() {
            None => {}
            // Nothing was told to anybody yet: it is simply not done.
            Some(m) if m.phase == Phase::Warming => g.stay(),
            Some(m) => {
                g.set_phase(Phase::Off);
                out.push(Action::CloseChannel { service: m.service, channel: grant });
            }
        }
    }

    fn take_up(&self, service: ServiceId, grant: Handle, status: Status, out: &mut Vec<Action>) {
        out.push(Action::TakeUp { service, channel: grant, status });
    }

    /// A service stands by for a channel.
    pub(super) fn channel_standing(
        &mut self,
        service: ServiceId,
        grant: Handle,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(grant) else { return };
        let Some(m) = g.moving().filter(|m| m.service == service) else { return };
        match m.phase {
            Phase::Standby => {
                self.set_phase(grant, Phase::Stood);
                self.advance(grant, out);
            }
            // Whoever served it has died meanwhile.
            Phase::Opening => self.take_up(service, grant, Status::DriverCrashed, out),
            _ => {}
        }
    }

    /// Whether it is for this service to say that it has taken a channel over.
    pub(super) fn is_handed(&self, grant: Handle, to: ServiceId) -> bool {
        let handed = |m: Moving| m.phase == Phase::Handing && m.service == to;
        self.grants.get(grant).is_ok_and(|g| g.moving().is_some_and(handed))
    }

    fn goes_over(&mut self, now: u64, grant: Handle, m: Moving, phase: Phase) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let from = g.subject.location;
        g.set_moving(Some(match (phase, g.service()) {
            (Phase::Leaving, Some(service)) => Moving { to: from, service, phase },
            _ => Moving { phase, ..m },
        }));
        g.goes_to(m.to);
        g.stage.serve_by(m.service);
        if let Some(s) = self.services.get_mut(&m.service) {
            s.used_ms = now;
        }
    }

    /// Whoever stood by serves it now.
    pub(super) fn handed_over(&mut self, now: u64, grant: Handle) {
        if let Ok(g) = self.grants.get(grant)
            && let Some(m) = g.moving()
        {
            self.goes_over(now, grant, m, Phase::Leaving);
        }
    }

    /// The service that it came from no longer touches the channel: the other's
    /// turn, if that has not begun already.
    pub(super) fn change_over(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (Some(m), from) = (g.moving(), g.subject.location) else { return };
        let state = self.services.get(&m.service).map(|s| s.state);
        let Some(g) = self.grants.get_mut(grant) else { return };
        if m.phase == Phase::Handing {
            if from.is_hardware() {
                g.set_vf(None);
            }
            self.goes_over(now, grant, m, Phase::Opening);
            return self.take_up(m.service, grant, Status::DriverCrashed, out);
        }
        // It is to serve it again. Nobody is on it now, and what the other one left
        // half done nobody else knows how to answer.
        if let (Some(status), Some(place)) = (g.take_left(), g.channel()) {
            out.push(Action::FailCurrent { window: g.holder.window, place, status });
        }
        if state == Some(ServiceState::Ready) {
            g.set_phase(Phase::Opening);
            return self.open(m.service, grant, out);
        }
        g.set_moving(None);
        g.stage.recover();
        if state.is_none() {
            self.serve(now, grant, out);
        }
    }

    /// A service that does not serve this grant no longer has its channel.
    /// `clean`: because it let go of it.
    pub(super) fn beside_gone(
        &mut self,
        now: u64,
        grant: Handle,
        id: ServiceId,
        clean: bool,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        if g.also() == Some(id) {
            g.set_also(None);
            // It was on the VF, or on its way there.
            if !clean && !g.subject.location.is_hardware() {
                self.leave_vf(now, grant);
            }
            return self.parted(grant, out);
        }
        let Some(m) = g.moving().filter(|m| m.service == id) else { return };
        g.set_moving(match m.phase {
            Phase::Closing | Phase::Opening => return,
            // Its turn may have come, so the one that is told to let go has
            // it first, and then again.
            Phase::Handing => {
                let to = g.subject.location;
                g.service().map(|service| Moving { to, service, phase: Phase::Closing })
            }
            _ => None,
        });
        match (m.to.is_hardware(), clean && m.phase.lingers()) {
            (true, true) => g.set_vf(None),
            (true, false) => self.leave_vf(now, grant),
            _ => {}
        }
        // It was wanted there again meanwhile.
        let Ok(g) = self.grants.get(grant) else { return };
        let ready = self.services.get(&id).is_some_and(|s| s.state == ServiceState::Ready);
        let waits = matches!(g.stage, Stage::Recovering { .. }) && g.service() == Some(id);
        if m.phase.lingers() && waits && ready {
            self.open(id, grant, out);
        }
    }

    /// Another service than the one that served it has parted from what is over.
    fn parted(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        match (&g.stage, g.service()) {
            (Stage::Closing { .. }, None) => self.free_grant(grant, out),
            (Stage::Broken { .. }, _) => self.free_vf_of_broken(grant),
            _ => {}
        }
    }

    /// A service is gone that grants were handed to. Nobody heard yet whether it had
    /// its turn: if it did, a call of it may be under way.
    pub(super) fn note_half_done(&mut self, id: ServiceId, status: impl Fn(Handle) -> Status) {
        for grant in self.grants.of(&Key::Service(id)) {
            if self.is_handed(grant, id)
                && let Some(l) = self.grants.get_mut(grant).and_then(|g| g.lease.as_mut())
            {
                l.left = Some(status(grant));
            }
        }
    }

    /// A service is gone that moves went to or came from: grants stay where
    /// they are, or go back there.
    pub(super) fn moves_failed(&mut self, now: u64, id: ServiceId, out: &mut Vec<Action>) {
        for grant in self.beside(id) {
            self.beside_gone(now, grant, id, false, out);
        }
    }

    /// A grant ends or is broken: whoever stands by for it, or has not let go of
    /// it yet, is to let go as well.
    pub(super) fn part(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let service = g.service();
        let Some(m) = g.moving() else { return };
        g.set_moving(None);
        if service == Some(m.service) {
            return;
        }
        match m.phase {
            Phase::Standby | Phase::Stood | Phase::Handing => {
                g.set_also(Some(m.service));
                out.push(Action::CloseChannel { service: m.service, channel: grant });
            }
            Phase::Leaving | Phase::Off => g.set_also(Some(m.service)),
            Phase::Warming | Phase::Closing | Phase::Opening => {}
        }
    }

    /// A broken grant keeps its VF for as long as a service may be on it.
    pub(super) fn free_vf_of_broken(&mut self, grant: Handle) {
        if let Some(g) = self.grants.get_mut(grant)
            && g.movable()
            && g.also().is_none()
            && (g.service().is_none() || !g.subject.location.is_hardware())
        {
            g.set_vf(None);
        }
    }

    /// A grant's service is gone, or cannot serve it: if it was moving, it goes
    /// on there; if it held a VF, it goes on in software. What is posted waits
    /// for whoever takes it up; a call that was left half done and that nobody
    /// has answered is answered with `status`. False if neither is so.
    pub(super) fn fall_back(
        &mut self,
        now: u64,
        grant: Handle,
        status: Status,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(g) = self.grants.get_mut(grant) else { return false };
        if !g.movable() || !g.stage.goes_on() || g.dies_with_service() {
            return false;
        }
        match g.moving() {
            Some(m) if !m.phase.lingers() && g.service() != Some(m.service) => {
                self.goes_on_there(now, grant, m, status, out);
                return true;
            }
            Some(m) if m.phase.lingers() => {}
            _ => g.set_moving(None),
        }
        let f = self.catalog.functions.get(&g.subject.function);
        if !g.subject.location.is_hardware() || f.is_none_or(|f| f.software.is_none()) {
            return false;
        }
        g.stage.recover();
        g.goes_to(Location::Software);
        self.leave_vf(now, grant);
        self.serve(now, grant, out);
        true
    }

    /// The service of a grant is gone that was moving to another one: that one goes on
    /// with it.
    fn goes_on_there(
        &mut self,
        now: u64,
        grant: Handle,
        m: Moving,
        status: Status,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        g.stage.recover();
        if g.subject.location.is_hardware() {
            self.leave_vf(now, grant);
        }
        self.goes_over(now, grant, m, Phase::Opening);
        match m.phase {
            Phase::Stood | Phase::Handing => self.take_up(m.service, grant, status, out),
            // It is told when it says that it stands by.
            Phase::Standby => {}
            _ => {
                if let Some(g) = self.grants.get_mut(grant) {
                    g.set_moving(None);
                }
                let s = self.services.get(&m.service);
                if s.is_some_and(|s| s.state == ServiceState::Ready) {
                    self.open(m.service, grant, out);
                }
            }
        }
    }

    /// Another manager goes on. What was told to nobody was not begun; what was
    /// told to those that stood by is taken back, as their batons are gone.
    pub(super) fn forget_standby(&mut self) {
        let moves = |g: &Grant| g.moving().is_some_and(|m| m.phase.may_be_called_off());
        for grant in self.all_of(moves) {
            let Some(g) = self.grants.get_mut(grant) else { continue };
            match g.moving().is_some_and(|m| m.phase == Phase::Warming) {
                true => g.stay(),
                false => g.set_phase(Phase::Off),
            }
        }
    }

    /// Moves to and from services that were never noted are not made.
    pub(super) fn mend_moves(&mut self) {
        for grant in self.grants.with_lease() {
            let services = &self.services;
            let unknown = |id: &ServiceId| !services.contains_key(id);
            let Some(g) = self.grants.get_mut(grant) else { continue };
            let parted = g.also().is_some_and(|id| unknown(&id));
            if parted {
                g.set_also(None);
            }
            if let Some(m) = g.moving().filter(|m| unknown(&m.service)) {
                g.set_moving(None);
                if m.to.is_hardware() && g.service() != Some(m.service) {
                    g.set_vf(None);
                }
            }
            if parted && matches!(g.stage, Stage::Broken { .. }) {
                self.free_vf_of_broken(grant);
            }
        }
    }

    /// The device of a channel is gone. The service that used it has let go, and
    /// left the call that met it in its cell.
    pub(super) fn channel_lost(
        &mut self,
        now: u64,
        service: ServiceId,
        grant: Handle,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let Ok(g) = self.grants.get(grant) else { return };
        if g.is_beside(service) {
            return self.beside_gone(now, grant, service, false, out);
        }
        if g.service() != Some(service) {
            return;
        }
        self.note_trouble(grant, reason);
        let Some(g) = self.grants.get_mut(grant) else { return };
        match g.stage {
            Stage::Closing { .. } => self.free_grant(grant, out),
            Stage::Broken { .. } => self.off_broken(grant, out),
            Stage::Active { .. } | Stage::Recovering { .. } => {
                let function = &g.subject.function;
                let text =
                    format!("the device of channel {grant} of '{function}' is lost: {reason}");
                out.push(Action::LogOf { client: g.holder.client_id, level: Level::Warn, text });
                g.stage.recover();
                if !self.fall_back(now, grant, Status::DriverCrashed, out) {
                    self.break_off(grant, BreakReason::NoService, reason, out);
                }
            }
            Stage::Granted | Stage::Activating { .. } => {}
        }
    }

    /// Whether a grant is on its way from one service to another.
    pub fn is_moving(&self, grant: Handle) -> bool {
        self.grants.get(grant).is_ok_and(|g| g.moving().is_some())
    }
}
