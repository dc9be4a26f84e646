//! Services: how they are started, come up and fail.

use super::breakers::State;
use super::catalog::Function;
use super::grant::{Grant, Stage};
use super::services::*;
use super::{Action, Core, Level, ServiceId, nacks, rules};
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Nack, NackCode, Status};

impl Core {
    /// Finds or starts the service of a grant that waits for one, and opens its channel.
    pub(super) fn serve(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (owner, location) = (Owner::Client(g.holder.client_id), g.subject.location);
        let (id, fresh) = self.service_for(now, owner, g.subject.function.clone(), location);
        if let Some(g) = self.grants.get_mut(grant) {
            g.stage.serve_by(id);
        }
        self.begin_to_serve(now, grant, id, fresh, out);
    }

    /// A grant was given to this service: it is started if it is `fresh`, and opens the
    /// channel if it can.
    pub(super) fn begin_to_serve(
        &mut self,
        now: u64,
        grant: Handle,
        id: ServiceId,
        fresh: bool,
        out: &mut Vec<Action>,
    ) {
        if fresh {
            return self.start_service(now, id, out);
        }
        let Some(s) = self.services.get_mut(&id) else { return };
        s.used_ms = now;
        if s.state == ServiceState::Ready {
            self.open(id, grant, out);
        }
    }

    /// The service of an owner's function at a place, and whether it is a new
    /// one that is still to be started.
    pub(super) fn service_for(
        &mut self,
        now: u64,
        owner: Owner,
        function: String,
        location: Location,
    ) -> (ServiceId, bool) {
        let found = self.services.iter().find(|(_, s)| {
            s.owner == owner
                && s.function == function
                && s.location == location
                && s.state != ServiceState::Stopping
                && !s.outdated
        });
        if let Some((id, _)) = found {
            return (*id, false);
        }
        let id = self.next_service;
        self.next_service += 1;
        self.services.insert(id, Service::new(now, owner, function, location));
        (id, true)
    }

    pub(super) fn set_state(&mut self, id: ServiceId, state: ServiceState) {
        if let Some(s) = self.services.get_mut(&id) {
            s.state = state;
        }
    }

    /// A line of the log about a service.
    pub(super) fn log_of_service(
        &self,
        owner: Owner,
        level: Level,
        text: String,
        out: &mut Vec<Action>,
    ) {
        let Owner::Client(client) = owner;
        out.push(Action::LogOf { client, level, text });
    }

    pub(super) fn start_service(&mut self, now: u64, id: ServiceId, out: &mut Vec<Action>) {
        let Some(s) = self.services.get(&id) else { return };
        let key = s.key();
        if !self.catalog.policy_unreadable {
            if let Some(State::Open(until)) = self.breakers.get(&key).map(|b| b.state(now)) {
                return self.set_state(id, ServiceState::Backoff(until));
            }
            if !self.starts.take(now, s.owner) {
                let wait = self.starts.wait(now, &s.owner);
                return self.set_state(id, ServiceState::Backoff(now + wait.max(1)));
            }
        }
        if let Some(reason) = self.may_not_start(id) {
            return self.service_failed(now, id, &reason, out);
        }
        if self.breakers.contains_key(&key)
            && let Some(b) = self.breakers.get_mut(&key)
        {
            b.starts(now);
        }
        if let Some(s) = self.services.get_mut(&id) {
            (s.state, s.since_ms) = (ServiceState::Starting, now);
        }
        match self.start(id) {
            Some(start) => out.push(start),
            None => {
                let reason = format!("'{}' or its client was removed", key.1);
                self.service_failed(now, id, &reason, out);
            }
        }
    }

    /// Why a service is not to be started, if so.
    fn may_not_start(&self, id: ServiceId) -> Option<String> {
        if self.catalog.policy_unreadable {
            // Nobody knows which layers of the sandbox it must have.
            return Some("the policy of this host cannot be read".into());
        }
        let s = self.services.get(&id)?;
        if s.outdated && vfun_submit::is_own(&s.function) {
            // What its grants were given is not kept any more, and another
            // module in its place would answer them in its own way.
            return Some("its module was replaced or removed, and its service had to end: negotiate it again".into());
        }
        // It starts as what its function is now, which may name another device.
        let f = self.catalog.function_of(s.owner, &s.function)?;
        let Owner::Client(client) = s.owner;
        let client = self.catalog.clients.get(&client)?;
        rules::check_devices(&self.catalog, client, f, s.location).err().map(|n| n.sentence)
    }

    /// The start of a service as what its function is now, if that and its owner are there.
    fn start(&mut self, id: ServiceId) -> Option<Action> {
        let s = self.services.get_mut(&id)?;
        let f: &Function = self.catalog.function_of(s.owner, &s.function)?;
        let driver = f.driver_at(s.location)?.clone();
        s.devices = Some(f.devices_of(&driver).to_vec());
        let mut settings = f.settings.clone();
        if vfun_kinds::of(&driver).takes_rdma
            && let Owner::Client(client) = s.owner
            && let Some(client) = self.catalog.clients.get(&client)
        {
            settings.extend(client.rdma.settings());
        }
        Some(Action::StartService {
            service: id,
            client: self.catalog.owner_name(s.owner)?.to_owned(),
            function: s.function.clone(),
            version: f.version.0,
            driver,
            settings,
            args: f.lengths(),
        })
    }

    pub(super) fn service_ready(&mut self, now: u64, id: ServiceId, out: &mut Vec<Action>) {
        let Some(s) = self.services.get_mut(&id) else { return };
        if s.state != ServiceState::Starting {
            return;
        }
        s.state = ServiceState::Ready;
        s.ever_ready = true;
        s.delayed = None;
        s.used_ms = now;
        for channel in self.channels_of(id) {
            let stage = self.grants.get(channel).map(|g| &g.stage);
            if let Ok(Stage::Activating { .. } | Stage::Recovering { .. }) = stage {
                self.open(id, channel, out);
            }
        }
        self.advance_to(id, out);
    }

    /// A service cannot serve: those who wait for it are told, those who had it are broken off.
    pub(super) fn service_failed(
        &mut self,
        now: u64,
        id: ServiceId,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(service) = self.services.remove(&id) else { return };
        self.asked.remove(&id);
        if !service.ever_ready {
            self.untried(now, &service);
        }
        out.push(Action::KillService { service: id });
        let text = format!("service of '{}': {reason}", service.function);
        self.log_of_service(service.owner, Level::Warn, text, out);
        for grant in self.beside(id) {
            self.note_trouble(grant, reason);
        }
        self.moves_failed(now, id, out);
        for channel in self.channels_of(id) {
            if self.fall_back(now, channel, Status::DriverCrashed, out) {
                continue;
            }
            self.abandon(channel, BreakReason::NoService, reason, out);
        }
    }

    /// The host has no means to start a service now: who waits for it is told,
    /// who had it waits for the next try.
    pub(super) fn service_delayed(
        &mut self,
        now: u64,
        id: ServiceId,
        reason: &str,
        out: &mut Vec<Action>,
    ) {
        if let Some(s) = self.services.get(&id).cloned() {
            self.untried(now, &s);
        }
        let Some(s) = self.services.get_mut(&id) else { return };
        let since = *s.delayed.get_or_insert(now);
        let delayed = now.saturating_sub(since);
        if delayed > DELAYED_MS {
            return self.service_failed(now, id, reason, out);
        }
        // As long again as it has waited already.
        s.state = ServiceState::Backoff(now + delayed.clamp(DELAY_MS, DELAY_MOST_MS));
        let (owner, text) = (s.owner, format!("service of '{}' waits: {reason}", s.function));
        self.log_of_service(owner, Level::Warn, text, out);
        let mut wanted = false;
        for channel in self.channels_of(id) {
            match self.grants.get(channel).map(|g| &g.stage) {
                Ok(Stage::Activating { .. }) => {
                    let sentence = format!("{reason}: try again");
                    self.nack_activation(NackCode::NoCapacity, channel, &sentence, out);
                }
                Ok(Stage::Closing { .. }) => self.free_grant(channel, out),
                _ => wanted = true,
            }
        }
        if !wanted {
            self.moves_failed(now, id, out);
            self.services.remove(&id);
        }
    }

    /// The start of this service told nothing about its driver: if it was a
    /// breaker's trial, the next start is.
    pub(super) fn untried(&mut self, now: u64, s: &Service) {
        let key = s.key();
        if self.breakers.contains_key(&key)
            && let Some(b) = self.breakers.get_mut(&key)
        {
            b.untried(now);
        }
    }

    /// Refuses an activation whose service would wait behind many others for
    /// its start.
    pub(super) fn check_starts(&self, g: &Grant) -> Result<(), Nack> {
        let owner = Owner::Client(g.holder.client_id);
        let waits = |s: &&Service| s.owner == owner && matches!(s.state, ServiceState::Backoff(_));
        match self.services.values().filter(waits).count() < STARTS_WAITING {
            true => Ok(()),
            false => Err(nacks::many_starts(g, STARTS_WAITING)),
        }
    }
}
