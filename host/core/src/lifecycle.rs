//! Grants, sessions and windows: how they end, and what time brings.

use super::grant::{Grant, GrantState, Stage};
use super::grants::Key;
use super::services::*;
use super::watch::log_of;
use super::{Action, Core, GrantRecord, Level, ServiceId, WindowId, nacks};
use vfun_wire::limits::HEARTBEAT_DEAD_MS;
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{Handle, Status};

impl Core {
    pub(super) fn record(&self, grant: Handle, why: Option<&str>, out: &mut Vec<Action>) {
        if let Ok(g) = self.grants.get(grant) {
            out.push(Action::Record(self.grant_record(grant, g, g.state(), why)));
        }
    }

    /// Every grant as it is recorded.
    pub fn grant_records(&self) -> Vec<GrantRecord> {
        self.grants.iter().map(|(h, g)| self.grant_record(h, g, g.state(), None)).collect()
    }

    fn grant_record(
        &self,
        grant: Handle,
        g: &Grant,
        state: GrantState,
        why: Option<&str>,
    ) -> GrantRecord {
        let function = self.catalog.function(g.holder.client_id, &g.subject.function);
        GrantRecord {
            grant,
            client_id: g.holder.client_id,
            client: g.holder.client.clone(),
            vm: g.holder.vm.clone(),
            app_id: g.holder.app_id,
            app: g.holder.app.clone(),
            function_id: function.map_or(0, |f| f.id),
            function: g.subject.function.clone(),
            location: g.subject.location,
            state,
            why: why.map(str::to_owned),
        }
    }

    /// The channels of a service, by handle.
    pub(super) fn channels_of(&self, service: ServiceId) -> Vec<Handle> {
        let mut all = self.grants.of(&Key::Service(service));
        all.retain(|h| self.grants.get(*h).is_ok_and(|g| g.service() == Some(service)));
        all
    }

    /// Whether a service has channels.
    pub(super) fn has_channels(&self, service: ServiceId) -> bool {
        self.grants.any(&Key::Service(service), |g| g.service() == Some(service))
    }

    /// Ends a grant for whatever reason. Its pages are given out again only
    /// when no service touches them any more.
    pub(super) fn end_grant(&mut self, now: u64, grant: Handle, why: &str, out: &mut Vec<Action>) {
        self.close(now, grant, false, why, out);
    }

    /// The host takes a grant away. A guest's module takes its pages from the program
    /// when it is interrupted, which takes a moment: they are held back for it.
    pub(super) fn take_grant(&mut self, now: u64, grant: Handle, why: &str, out: &mut Vec<Action>) {
        let module = |s: Handle| self.session(s).is_ok_and(|s| s.features.has(Features::MODULE));
        let held = self.grants.get(grant).is_ok_and(|g| module(g.holder.session));
        self.close(now, grant, held, why, out);
    }

    fn close(&mut self, now: u64, grant: Handle, held: bool, why: &str, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        let (place, service, waiting) = match g.stage.take() {
            Stage::Granted => {
                self.end_buffers_of_grant(grant, held, why, out);
                return self.forget(grant, why, out);
            }
            Stage::Activating { place, service, waiting } => (place, Some(service), waiting),
            Stage::Active { place, service } | Stage::Recovering { place, service } => {
                (place, Some(service), None)
            }
            Stage::Broken { place, service, .. } => (place, service, None),
            Stage::Closing { place, service, since_ms, hold_back } => {
                let hold_back = hold_back || held;
                return g.stage = Stage::Closing { place, service, since_ms, hold_back };
            }
        };
        g.stage = Stage::Closing { place, service, since_ms: now, hold_back: held };
        // Their pages wait for the channel's, which is closing from here on.
        self.end_buffers_of_grant(grant, held, why, out);
        if let Some(to) = waiting {
            out.push(Action::Answer { to, result: Err(nacks::ended_meanwhile(why)) });
        }
        self.part(grant, out);
        self.record(grant, Some(why), out);
        let state = service.and_then(|s| self.services.get(&s)).map(|s| s.state);
        match (service, state) {
            (Some(service), Some(ServiceState::Ready | ServiceState::Stopping)) => {
                out.push(Action::CloseChannel { service, channel: grant });
            }
            _ => self.free_grant(grant, out),
        }
    }

    /// A grant that never had a place ends.
    fn forget(&mut self, grant: Handle, why: &str, out: &mut Vec<Action>) {
        let Some(g) = self.grants.remove(grant) else { return };
        let record = |state, why| Action::Record(self.grant_record(grant, &g, state, why));
        out.push(record(GrantState::Closing, Some(why)));
        out.push(record(GrantState::Released, None));
    }

    /// Gives a closing grant's pages and name back.
    pub(super) fn free_grant(&mut self, grant: Handle, out: &mut Vec<Action>) {
        let closing = |g: &&mut Grant| matches!(g.stage, Stage::Closing { .. });
        let Some(g) = self.grants.get_mut(grant).filter(closing) else { return };
        g.stage.let_go();
        if g.also().is_some() || g.at_switch.is_some() {
            // Another service, or a switch, has its channel still.
            return;
        }
        let window = g.holder.window;
        let Stage::Closing { place, hold_back, .. } = g.stage.take() else { return };
        let Some(g) = self.grants.remove(grant) else { return };
        out.push(Action::Record(self.grant_record(grant, &g, GrantState::Released, None)));
        if let Some(w) = self.windows.get_mut(&window) {
            // Also of a channel that is broken for another reason: only this one
            // tells the guest's module that the pages are another's soon.
            let (status, reason) = (Status::Released, BreakReason::Released);
            out.push(Action::BreakChannel { window, place: place.channel(), status, reason });
            w.give(&place, hold_back.then_some(self.now));
        }
        // After its guest was told.
        self.free_buffers_of_grant(grant);
    }

    /// Gives out again what was held back for long enough.
    pub(super) fn give_held(&mut self, now: u64) {
        let ids: Vec<_> =
            self.windows.iter().filter(|(_, w)| w.held_is_due(now)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(w) = self.windows.get_mut(&id) {
                w.give_held(now);
            }
        }
    }

    /// An app is gone, and so is what it was granted.
    pub(super) fn end_session(
        &mut self,
        now: u64,
        session: Handle,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        for grant in self.grants.of(&Key::Session(session)) {
            self.end_grant(now, grant, why, out);
        }
        self.end_buffers_of(session, false, why, out);
        self.forget_session(session, why);
    }

    /// The host ends an app's session, as [`Core::take_grant`] does a grant.
    pub(super) fn take_session(
        &mut self,
        now: u64,
        session: Handle,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        for grant in self.grants.of(&Key::Session(session)) {
            self.take_grant(now, grant, why, out);
        }
        let held = self.session(session).is_ok_and(|s| s.features.has(Features::MODULE));
        self.end_buffers_of(session, held, why, out);
        self.forget_session(session, why);
    }

    fn forget_session(&mut self, session: Handle, why: &str) {
        let Some(s) = self.sessions.remove(session) else { return };
        if let Some(w) = self.windows.get_mut(&s.window) {
            w.lines[usize::from(s.line)] = None;
        }
        self.ended.insert(session.index(), (session, s.window, why.to_owned()));
    }

    pub(super) fn window_down(&mut self, now: u64, window: WindowId, out: &mut Vec<Action>) {
        for session in self.sessions_of(window) {
            self.end_session(now, session, "its app is gone", out);
        }
        self.windows.remove(&window);
    }

    pub(super) fn heartbeats(
        &mut self,
        now: u64,
        window: WindowId,
        values: &[(u16, u64)],
        out: &mut Vec<Action>,
    ) {
        let Some(w) = self.windows.get_mut(&window) else { return };
        if w.death_seen {
            return;
        }
        let client = w.client;
        let mut dead = vec![];
        for &(line, value) in values {
            let Some(handle) = w.lines.get(usize::from(line)).copied().flatten() else { continue };
            let (beat, since) = &mut w.beats[usize::from(line)];
            if *beat != value {
                (*beat, *since) = (value, now);
            } else if now.saturating_sub(*since) > self.heartbeat_dead_ms {
                dead.push(handle);
            }
        }
        for handle in dead {
            let app = self.sessions.get(handle).map_or("", |s| &s.app);
            out.push(Action::LogOf {
                client,
                level: Level::Info,
                text: format!(
                    "app '{app}' has not moved its heartbeat for {} ms: cleaned up",
                    self.heartbeat_dead_ms
                ),
            });
            self.take_session(now, handle, "its heartbeat stopped", out);
        }
    }

    /// Takes an app for gone when its heartbeat stands still for `ms`, which is at most
    /// what apps are told ([`HEARTBEAT_DEAD_MS`]). For tests, which would wait long.
    pub fn miss_heartbeats_after(&mut self, ms: u64) {
        self.heartbeat_dead_ms = ms.min(HEARTBEAT_DEAD_MS);
    }

    pub(super) fn tick(&mut self, now: u64, out: &mut Vec<Action>) {
        self.give_held(now);
        self.look_for_life(now, out);
        self.end_those_who_keep_channels(now, out);
        self.end_those_who_keep_buffers(now, out);
        self.refuse_untaken_buffers(now, out);
        self.tell_of_slow_starts(now, out);
        let ids: Vec<_> = self.services.keys().copied().collect();
        for id in ids {
            let mut users = self.channels_of(id);
            let has_channels = !users.is_empty();
            users.extend(self.beside(id));
            if self.time_of_service(now, id, has_channels, !users.is_empty(), out) {
                self.end_who_is_late(now, id, &users, out);
            }
        }
    }

    /// What time brings a service, and whether it goes on. `wanted`: grants use it, or
    /// will, or have not parted from it.
    fn time_of_service(
        &mut self,
        now: u64,
        id: ServiceId,
        has_channels: bool,
        wanted: bool,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(s) = self.services.get_mut(&id) else { return false };
        if wanted {
            s.used_ms = now;
        }
        match s.state {
            ServiceState::Starting if now.saturating_sub(s.since_ms) > LOAD_MS => {
                let owner = self.catalog.owner_name(s.owner).unwrap_or("");
                let reason = format!(
                    "the driver of '{}' did not load within {LOAD_MS} ms: see {} under the manager's root",
                    s.function,
                    log_of(owner, &s.function)
                );
                self.service_failed(now, id, &reason, out);
                return false;
            }
            ServiceState::Backoff(at) if now >= at => {
                match wanted {
                    true => self.start_service(now, id, out),
                    false => drop(self.services.remove(&id)),
                }
                return false;
            }
            ServiceState::Ready if !has_channels && now.saturating_sub(s.used_ms) >= LINGER_MS => {
                (s.state, s.since_ms) = (ServiceState::Stopping, now);
                out.push(Action::StopService { service: id });
            }
            ServiceState::Stopping if now.saturating_sub(s.since_ms) > CLOSE_GRACE_MS => {
                out.push(Action::KillService { service: id });
            }
            _ => {}
        }
        true
    }

    /// Ends a service that does not let go of what is over.
    fn end_who_is_late(
        &mut self,
        now: u64,
        id: ServiceId,
        users: &[Handle],
        out: &mut Vec<Action>,
    ) {
        let late = |g: &Grant, ms| {
            let since = g.stage.over_since().and_then(|since| self.counts_from(id, since));
            since.is_some_and(|t| now.saturating_sub(t) > ms)
        };
        let all = users.iter().filter_map(|h| self.grants.get(*h).ok());
        // A call that does not end holds a released channel: its service
        // goes, unless it serves somebody else.
        let closing = |g: &Grant| matches!(g.stage, Stage::Closing { .. });
        if !users.is_empty() && all.clone().all(|g| closing(g) && late(g, CLOSE_GRACE_MS)) {
            self.set_state(id, ServiceState::Stopping);
            out.push(Action::KillService { service: id });
            return;
        }
        // One that serves somebody else, too, does not keep a VF by that.
        if all.clone().any(|g| g.keeps_vf() && late(g, g.step_ms())) {
            out.push(Action::KillService { service: id });
        }
    }
}
