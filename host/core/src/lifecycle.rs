//! Grants, sessions and windows: how they end, and what time brings.

use super::grants::{Grant, GrantState};
use super::services::*;
use super::watch::log_of;
use super::{Action, Core, GrantRecord, Level, ServiceId, WindowId};
use vfun_wire::limits::HEARTBEAT_DEAD_MS;
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{Handle, Nack, NackCode, Status};

impl Core {
    pub(super) fn record(&self, grant: Handle, why: Option<&str>, out: &mut Vec<Action>) {
        if let Ok(g) = self.grants.get(grant) {
            out.push(Action::Record(self.grant_record(grant, g, why)));
        }
    }

    /// Every grant as it is recorded.
    pub fn grant_records(&self) -> Vec<GrantRecord> {
        self.grants.iter().map(|(handle, g)| self.grant_record(handle, g, None)).collect()
    }

    pub(super) fn grant_record(&self, grant: Handle, g: &Grant, why: Option<&str>) -> GrantRecord {
        GrantRecord {
            grant,
            client_id: g.client_id,
            client: g.client.clone(),
            app_id: g.app_id,
            app: g.app.clone(),
            function_id: self.catalog.function(g.client_id, &g.function).map_or(0, |f| f.id),
            function: g.function.clone(),
            location: g.location,
            state: g.state,
            why: why.map(str::to_owned),
        }
    }

    /// The channels of a service, by handle.
    pub(super) fn channels_of(&self, service: ServiceId) -> Vec<Handle> {
        self.grants.iter().filter(|(_, g)| g.service == Some(service)).map(|(h, _)| h).collect()
    }

    /// Ends a grant for whatever reason. Its pages are given out again only
    /// when no service touches them any more.
    pub(super) fn end_grant(&mut self, now: u64, grant: Handle, why: &str, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(grant) else { return };
        if g.state == GrantState::Closing {
            return;
        }
        g.state = GrantState::Closing;
        g.closing_ms = now;
        let service = g.service;
        if let Some(to) = g.waiting.take() {
            let nack = Nack::new(
                NackCode::WrongState,
                format!("the grant ended while it was being activated: {why}"),
            );
            out.push(Action::Answer { to, result: Err(nack) });
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

    /// Gives a grant's pages and name back.
    pub(super) fn free_grant(&mut self, grant: Handle, out: &mut Vec<Action>) {
        if let Some(g) = self.grants.get_mut(grant) {
            if g.also.is_some() {
                // Another service has its channel still.
                (g.state, g.service) = (GrantState::Closing, None);
                return;
            }
            g.state = GrantState::Released;
        }
        self.record(grant, None, out);
        let Some(g) = self.grants.remove(grant) else { return };
        if let (Some(geo), Some(w)) = (g.geometry, self.windows.get_mut(&g.window)) {
            // Also of a channel that is broken for another reason: only this one
            // tells the guest's module that the pages are another's soon.
            out.push(Action::BreakChannel {
                window: g.window,
                geometry: geo,
                status: Status::Released,
                reason: BreakReason::Released,
            });
            for off in [geo.dataout_off.get(), geo.datain_off.get()] {
                match g.hold_back {
                    true => w.hold_back(self.now, off, geo.side_bytes.get()),
                    false => w.heap.give(off, geo.side_bytes.get()),
                }
            }
        }
    }

    /// A grant is about to be taken away by the host. A guest's module takes
    /// its pages from the program when it is interrupted, which takes a moment.
    pub(super) fn hold_back(&mut self, grant: Handle) {
        let module =
            |s: Handle| self.sessions.get(s).is_ok_and(|s| s.features.has(Features::MODULE));
        if self.grants.get(grant).is_ok_and(|g| module(g.session))
            && let Some(g) = self.grants.get_mut(grant)
        {
            g.hold_back = true;
        }
    }

    /// Gives out again what was held back for long enough.
    pub(super) fn give_held(&mut self, now: u64) {
        let ids: Vec<_> =
            self.windows.iter().filter(|(_, w)| w.held_is_due(now)).map(|(id, _)| *id).collect();
        for id in ids {
            self.windows.get_mut(&id).expect("just listed").give_held(now);
        }
    }

    pub(super) fn end_session(
        &mut self,
        now: u64,
        session: Handle,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let grants: Vec<_> =
            self.grants.iter().filter(|(_, g)| g.session == session).map(|(h, _)| h).collect();
        for grant in grants {
            self.end_grant(now, grant, why, out);
        }
        let Some(s) = self.sessions.remove(session) else { return };
        if let Some(w) = self.windows.get_mut(&s.window) {
            w.lines[usize::from(s.line)] = None;
        }
        self.ended.insert(session.index(), (session, s.window, why.to_owned()));
    }

    pub(super) fn window_down(&mut self, now: u64, window: WindowId, out: &mut Vec<Action>) {
        let sessions: Vec<_> =
            self.sessions.iter().filter(|(_, s)| s.window == window).map(|(h, _)| h).collect();
        for session in sessions {
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
            } else if now.saturating_sub(*since) > HEARTBEAT_DEAD_MS {
                dead.push(handle);
            }
        }
        for handle in dead {
            let app = self.sessions.get(handle).map_or("", |s| &s.app);
            out.push(Action::LogOf {
                client,
                level: Level::Info,
                text: format!(
                    "app '{app}' has not moved its heartbeat for {HEARTBEAT_DEAD_MS} ms: cleaned up"
                ),
            });
            let of = |g: &Grant| g.session == handle;
            let grants: Vec<_> =
                self.grants.iter().filter(|(_, g)| of(g)).map(|(h, _)| h).collect();
            grants.into_iter().for_each(|g| self.hold_back(g));
            self.end_session(now, handle, "its heartbeat stopped", out);
        }
    }

    pub(super) fn tick(&mut self, now: u64, out: &mut Vec<Action>) {
        self.give_held(now);
        self.look_for_life(now, out);
        self.end_those_who_keep_channels(now, out);
        self.tell_of_slow_starts(now, out);
        let ids: Vec<_> = self.services.keys().copied().collect();
        for id in ids {
            let channels = self.channels_of(id);
            let wanted = !channels.is_empty() || !self.beside(id).is_empty();
            let s = self.services.get_mut(&id).expect("just listed");
            if wanted {
                s.used_ms = now;
            }
            match s.state {
                ServiceState::Starting if now.saturating_sub(s.since_ms) > LOAD_MS => {
                    let (client, function) = (s.client, s.function.clone());
                    let client = self.catalog.clients.get(&client).map_or("", |c| &c.name);
                    let reason = format!(
                        "the driver of '{function}' did not load within {LOAD_MS} ms: see {} under the manager's root",
                        log_of(client, &function)
                    );
                    self.service_failed(now, id, &reason, out);
                    continue;
                }
                ServiceState::Backoff(at) if !wanted && now >= at => {
                    self.services.remove(&id);
                    continue;
                }
                ServiceState::Backoff(at) if now >= at => {
                    self.start_service(now, id, out);
                    continue;
                }
                ServiceState::Ready
                    if channels.is_empty() && now.saturating_sub(s.used_ms) >= LINGER_MS =>
                {
                    s.state = ServiceState::Stopping;
                    s.since_ms = now;
                    out.push(Action::StopService { service: id });
                }
                ServiceState::Stopping if now.saturating_sub(s.since_ms) > CLOSE_GRACE_MS => {
                    out.push(Action::KillService { service: id });
                }
                _ => {}
            }
            // A call that does not end holds a released channel: its service
            // goes, unless it serves somebody else.
            let beside = self.beside(id);
            let closing = |g: &Grant, ms| {
                self.counts_from(id, g.closing_ms).is_some_and(|t| now.saturating_sub(t) > ms)
            };
            let overdue = channels.iter().chain(&beside).all(|c| {
                self.grants
                    .get(*c)
                    .is_ok_and(|g| g.state == GrantState::Closing && closing(g, CLOSE_GRACE_MS))
            });
            if wanted && overdue {
                let s = self.services.get_mut(&id).expect("just listed");
                s.state = ServiceState::Stopping;
                out.push(Action::KillService { service: id });
                continue;
            }
            // One that serves somebody else, too, does not keep a VF by that.
            let keeps = |c: &Handle| {
                self.grants.get(*c).is_ok_and(|g| g.keeps_vf() && closing(g, g.step_ms()))
            };
            if channels.iter().chain(&beside).any(keeps) {
                out.push(Action::KillService { service: id });
            }
        }
    }
}
