//! Services: how they are started, come up, fail and crash.

use super::breakers::State;
use super::grants::{Grant, GrantState};
use super::services::*;
use super::switch::Phase;
use super::watch::log_of;
use super::{Action, Core, Exit, Level, ServiceId, rules};
use vfun_supervise::{EXIT_CANNOT_START, EXIT_DEADLINE};
use vfun_wire::message::Location;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Nack, NackCode, Status};

/// The signal by which the kernel ends a process that makes a call on the list
/// of those that only an attack makes.
const SIGSYS: i32 = 31;

impl Core {
    /// Finds or starts the service of an activating grant, and opens its channel.
    pub(super) fn serve(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (function, location) = (g.function.clone(), g.location);
        let client = g.client_id;
        let (id, fresh) = self.service_for(now, client, function, location);
        self.grants.get_mut(grant).expect("seen above").service = Some(id);
        if fresh {
            return self.start_service(now, id, out);
        }
        let s = self.services.get_mut(&id).expect("just found");
        s.used_ms = now;
        if s.state == ServiceState::Ready {
            self.open(id, grant, out);
        }
    }

    /// The service of a client's function at a place, and whether it is a new
    /// one that is still to be started.
    pub(super) fn service_for(
        &mut self,
        now: u64,
        client: u32,
        function: String,
        location: Location,
    ) -> (ServiceId, bool) {
        let found = self.services.iter().find(|(_, s)| {
            s.client == client
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
        let service = Service {
            client,
            function,
            location,
            state: ServiceState::Starting,
            since_ms: now,
            used_ms: now,
            ever_ready: false,
            delayed: None,
            overran: None,
            stalled: None,
            devices: Some(vec![]),
            outdated: false,
        };
        self.services.insert(id, service);
        (id, true)
    }

    pub(super) fn start_service(&mut self, now: u64, id: ServiceId, out: &mut Vec<Action>) {
        if self.catalog.policy_unreadable {
            // Nobody knows which layers of the sandbox it must have.
            let reason = "the policy of this host cannot be read";
            return self.service_failed(now, id, reason, out);
        }
        let s = self.services.get_mut(&id).expect("the caller's");
        let key = (s.client, s.function.clone(), s.location.to_wire());
        if let Some(State::Open(until)) = self.breakers.get(&key).map(|b| b.state(now)) {
            s.state = ServiceState::Backoff(until);
            return;
        }
        if !self.starts.take(now, s.client) {
            let wait = self.starts.wait(now, &s.client);
            s.state = ServiceState::Backoff(now + wait.max(1));
            return;
        }
        if s.outdated && vfun_submit::is_own(&s.function) {
            // What its grants were given is not kept any more, and another
            // module in its place would answer them in its own way.
            let reason = "its module was replaced or removed, and its service had to end: negotiate it again";
            return self.service_failed(now, id, reason, out);
        }
        // It starts as what its function is now, which may name another device.
        let f = self.catalog.function(key.0, &key.1);
        if let Some((f, c)) = f.zip(self.catalog.clients.get(&key.0))
            && let Err(nack) = rules::check_devices(&self.catalog, c, f, s.location)
        {
            return self.service_failed(now, id, &nack.sentence, out);
        }
        if self.breakers.contains_key(&key) {
            self.breakers.get_mut(&key).expect("just seen").starts(now);
        }
        s.state = ServiceState::Starting;
        s.since_ms = now;
        let (name, client) = (s.function.clone(), s.client);
        let driver = self.catalog.function(client, &name).and_then(|f| {
            let driver = f.driver_at(s.location)?.clone();
            s.devices = Some(f.devices_of(&driver).to_vec());
            Some((driver, f.version.0, f.settings.clone(), f.lengths()))
        });
        let client_name = self.catalog.clients.get(&client).map(|c| c.name.clone());
        match (driver, client_name) {
            (Some((driver, version, settings, args)), Some(client)) => {
                out.push(Action::StartService {
                    service: id,
                    client,
                    function: name,
                    version,
                    driver,
                    settings,
                    args,
                })
            }
            _ => {
                let reason = format!("'{name}' or its client was removed");
                self.service_failed(now, id, &reason, out);
            }
        }
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
            let state = self.grants.get(channel).expect("just listed").state;
            if matches!(state, GrantState::Activating | GrantState::Recovering) {
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
        out.push(Action::LogOf {
            client: service.client,
            level: Level::Warn,
            text: format!("service of '{}': {reason}", service.function),
        });
        for grant in self.beside(id) {
            self.note_trouble(grant, reason);
        }
        self.moves_failed(now, id, out);
        for channel in self.channels_of(id) {
            if self.fall_back(now, channel, Status::DriverCrashed, out) {
                continue;
            }
            let g = self.grants.get_mut(channel).expect("just listed");
            g.service = None;
            match g.state {
                GrantState::Activating => self.nack_activation(now, channel, reason, out),
                GrantState::Closing => self.free_grant(channel, out),
                _ => self.break_off(
                    channel,
                    Status::ServiceLost,
                    BreakReason::NoService,
                    reason,
                    out,
                ),
            }
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
        let (client, text) = (s.client, format!("service of '{}' waits: {reason}", s.function));
        out.push(Action::LogOf { client, level: Level::Warn, text });
        let mut wanted = false;
        for channel in self.channels_of(id) {
            match self.grants.get(channel).expect("just listed").state {
                GrantState::Activating => {
                    let sentence = format!("{reason}: try again");
                    self.nack_activation_as(NackCode::NoCapacity, channel, &sentence, out);
                }
                GrantState::Closing => self.free_grant(channel, out),
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
        let key = (s.client, s.function.clone(), s.location.to_wire());
        if self.breakers.contains_key(&key) {
            self.breakers.get_mut(&key).expect("just seen").untried(now);
        }
    }

    /// Refuses an activation whose service would wait behind many others for
    /// its start.
    pub(super) fn check_starts(&self, g: &Grant) -> Result<(), Nack> {
        let waits =
            |s: &Service| s.client == g.client_id && matches!(s.state, ServiceState::Backoff(_));
        if self.services.values().filter(|s| waits(s)).count() < STARTS_WAITING {
            return Ok(());
        }
        Err(Nack::new(
            NackCode::NoCapacity,
            format!(
                "{STARTS_WAITING} services of client {} wait for their start already: try again in a moment",
                g.client
            ),
        ))
    }

    pub(super) fn service_exited(
        &mut self,
        now: u64,
        id: ServiceId,
        exit: Exit,
        out: &mut Vec<Action>,
    ) {
        self.asked.remove(&id);
        let last = self.services.get_mut(&id).map(|s| (s.overran.take(), s.stalled.take()));
        let (overran, stalled) = last.unwrap_or_default();
        // Of one that was nobody's child its last word tells; of one that the
        // manager ended, what the manager saw.
        let deadline = exit == Exit::Code(EXIT_DEADLINE)
            || (overran.is_some() && (exit == Exit::Unknown || stalled.is_some()));
        let status = |channel: Handle| match (deadline, overran == Some(channel)) {
            (true, true) => Status::Deadline,
            (true, false) => Status::ServiceLost,
            (false, _) => Status::DriverCrashed,
        };
        self.note_half_done(id, status);
        self.moves_failed(now, id, out);
        let Some(s) = self.services.get(&id) else { return };
        let function = s.function.clone();
        if s.state == ServiceState::Stopping || exit == Exit::Code(EXIT_CANNOT_START) {
            let reason = format!("the service of '{function}' could not start");
            let stopping = s.state == ServiceState::Stopping;
            if stopping {
                self.services.remove(&id);
                for channel in self.channels_of(id) {
                    self.restart_elsewhere(now, channel, out);
                }
            } else {
                self.service_failed(now, id, &reason, out);
            }
            return;
        }
        let how = match exit {
            _ if stalled.is_some() => {
                format!("it did not run and was ended: {}", stalled.unwrap_or_default())
            }
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
            Exit::Unknown if deadline => "a call ran past its deadline".to_owned(),
            Exit::Unknown => "it ended while no manager was there".to_owned(),
        };
        if !s.ever_ready && exit == Exit::Unknown {
            // It may never have been started: the manager was killed on the way.
            self.start_service(now, id, out);
            return;
        }
        let (client, location) = (s.client, s.location.to_wire());
        let key = (client, function.clone(), location);
        if !s.ever_ready {
            let reason = format!("the driver of '{function}' crashed while it loaded: {how}");
            // Nobody waits for another try, but it counts.
            let _ = self.crashed(now, key, out);
            self.service_failed(now, id, &reason, out);
            return;
        }
        let again = self.crashed(now, key, out);
        let text = format!("service {id} of '{function}' died: {how}");
        out.push(Action::LogOf { client, level: Level::Warn, text });
        for channel in self.channels_of(id) {
            let g = self.grants.get_mut(channel).expect("just listed");
            match g.state {
                GrantState::Active | GrantState::Recovering => {
                    // The other one's call, if that was over its deadline: it had
                    // its turn, so this one was in none.
                    let status = match g.left.take() {
                        Some(Status::Deadline) => Status::Deadline,
                        _ => status(channel),
                    };
                    g.state = GrantState::Recovering;
                    // Counted here: the next service may serve, and die, before
                    // it has said that it opened the channel.
                    g.restarts = g.restarts.saturating_add(1);
                    let geometry = g.geometry.expect("an active grant has a channel");
                    // In the middle of a hand-over nobody but the one that takes
                    // the channel up knows whose call is under way.
                    if g.moving.is_none_or(|m| m.phase != Phase::Handing) {
                        out.push(Action::FailCurrent { window: g.window, geometry, status });
                    }
                    self.record(channel, Some(&how), out);
                    if self.grants.get(channel).is_ok_and(|g| g.leased && g.location.is_hardware())
                    {
                        self.note_trouble(channel, &how);
                    }
                    self.fall_back(now, channel, status, out);
                }
                GrantState::Closing => {
                    self.leave_vf_of(now, channel);
                    self.free_grant(channel, out);
                }
                GrantState::Broken => {
                    self.leave_vf_of(now, channel);
                    self.off_broken(channel, out);
                }
                // Another try would take as long and end in the same way.
                GrantState::Activating if deadline && overran == Some(channel) => {
                    let reason = format!(
                        "the driver of '{function}' did not open the channel in time: see {} under the manager's root",
                        log_of(&g.client, &function)
                    );
                    self.nack_activation(now, channel, &reason, out);
                }
                _ => {}
            }
        }
        match again {
            Ok(0) => self.start_service(now, id, out),
            Ok(delay) => {
                self.services.get_mut(&id).expect("still there").state =
                    ServiceState::Backoff(now + delay);
            }
            Err(_) => {
                self.services.remove(&id);
                for channel in self.channels_of(id) {
                    let g = self.grants.get_mut(channel).expect("just listed");
                    g.service = None;
                    let why = format!("its service crashed too often; the last time {how}");
                    match g.state {
                        GrantState::Activating => self.nack_activation(now, channel, &why, out),
                        GrantState::Closing => self.free_grant(channel, out),
                        _ => self.break_off(
                            channel,
                            Status::ServiceLost,
                            BreakReason::CrashLoop,
                            &why,
                            out,
                        ),
                    }
                }
            }
        }
    }

    /// A grant was about to use a service that was on its way out.
    pub(super) fn restart_elsewhere(&mut self, now: u64, channel: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        g.service = None;
        match g.state {
            GrantState::Closing => self.free_grant(channel, out),
            GrantState::Activating | GrantState::Recovering => self.serve(now, channel, out),
            _ => {}
        }
    }
}
