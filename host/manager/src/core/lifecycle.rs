//! Services, channels, crashes and releases: how things come up and go away.

use super::breakers::State;
use super::grants::{Grant, GrantState};
use super::services::*;
use super::{Action, Core, Exit, GrantRecord, Level, ServiceId, Window, WindowId};
use vfun_supervise::{EXIT_CANNOT_START, EXIT_DEADLINE};
use vfun_wire::limits::HEARTBEAT_DEAD_MS;
use vfun_wire::message::ActivateAck;
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{Handle, Nack, NackCode, Status};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// The signal by which the kernel ends a process that makes a call on the list
/// of those that only an attack makes.
const SIGSYS: i32 = 31;

/// How long pages of a grant that the host takes away are held back before
/// they are given out again: a guest whose processor takes no interrupt for as
/// long has other troubles.
pub const HOLD_MS: u64 = 1_000;

impl Window {
    /// Bytes given out to channels.
    pub(super) fn given_out(&self) -> u64 {
        let held: u64 = self.held.iter().map(|(_, _, bytes)| bytes).sum();
        self.heap.total() - self.heap.free_bytes() - held
    }
}

impl Core {
    fn record(&self, grant: Handle, why: Option<&str>, out: &mut Vec<Action>) {
        if let Ok(g) = self.grants.get(grant) {
            out.push(Action::Record(self.grant_record(grant, g, why)));
        }
    }

    /// Every grant as it is recorded.
    pub fn grant_records(&self) -> Vec<GrantRecord> {
        self.grants.iter().map(|(handle, g)| self.grant_record(handle, g, None)).collect()
    }

    fn grant_record(&self, grant: Handle, g: &Grant, why: Option<&str>) -> GrantRecord {
        GrantRecord {
            grant,
            client_id: g.client_id,
            client: g.client.clone(),
            app_id: g.app_id,
            app: g.app.clone(),
            function_id: self.catalog.functions.get(&g.function).map_or(0, |f| f.id),
            function: g.function.clone(),
            location: g.location,
            state: g.state,
            why: why.map(str::to_owned),
        }
    }

    /// The channels of a service, by handle.
    fn channels_of(&self, service: ServiceId) -> Vec<Handle> {
        self.grants.iter().filter(|(_, g)| g.service == Some(service)).map(|(h, _)| h).collect()
    }

    /// Finds or starts the service of an activating grant, and opens its channel.
    pub(super) fn serve(&mut self, now: u64, grant: Handle, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        let (function, location) = (g.function.clone(), g.location);
        let client = g.client_id;
        let found = self.services.iter().find(|(_, s)| {
            s.client == client
                && s.function == function
                && s.location == location
                && s.state != ServiceState::Stopping
                && !s.outdated
        });
        let id = match found {
            Some((id, _)) => *id,
            None => {
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
                    outdated: false,
                };
                self.services.insert(id, service);
                self.grants.get_mut(grant).expect("seen above").service = Some(id);
                self.start_service(now, id, out);
                return;
            }
        };
        self.grants.get_mut(grant).expect("seen above").service = Some(id);
        let s = self.services.get_mut(&id).expect("just found");
        s.used_ms = now;
        if s.state == ServiceState::Ready {
            self.open(id, grant, out);
        }
    }

    fn start_service(&mut self, now: u64, id: ServiceId, out: &mut Vec<Action>) {
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
        if self.breakers.contains_key(&key) {
            self.breakers.get_mut(&key).expect("just seen").starts(now);
        }
        s.state = ServiceState::Starting;
        s.since_ms = now;
        let (name, hardware, client) = (s.function.clone(), s.location.is_hardware(), s.client);
        let driver = self.catalog.functions.get(&name).and_then(|f| {
            let driver = if hardware {
                f.hardware.as_ref().map(|h| h.driver.clone())
            } else {
                f.software.clone()
            };
            Some((driver?, f.version.0, f.settings.clone(), f.lengths()))
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

    fn open(&mut self, service: ServiceId, grant: Handle, out: &mut Vec<Action>) {
        // Its report is read as what it serves of that which it was told before
        // it was asked, so it is told of nothing more until then.
        if self.asked.contains(&service) {
            return;
        }
        let Ok(g) = self.grants.get(grant) else { return };
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
        });
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
        out.push(Action::KillService { service: id });
        out.push(Action::LogOf {
            client: service.client,
            level: Level::Warn,
            text: format!("service of '{}': {reason}", service.function),
        });
        for channel in self.channels_of(id) {
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
            self.services.remove(&id);
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

    fn nack_activation(&mut self, _now: u64, grant: Handle, reason: &str, out: &mut Vec<Action>) {
        self.nack_activation_as(NackCode::ServiceFailed, grant, reason, out);
    }

    fn nack_activation_as(
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
        let Some(g) = self.grants.get_mut(channel).filter(|g| g.service == Some(service)) else {
            return;
        };
        match g.state {
            GrantState::Activating => self.nack_activation(now, channel, reason, out),
            GrantState::Closing => self.free_grant(channel, out),
            GrantState::Recovering => {
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
        let closing = self
            .grants
            .get(channel)
            .is_ok_and(|g| g.service == Some(service) && g.state == GrantState::Closing);
        if closing {
            self.free_grant(channel, out);
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
    fn break_off(
        &mut self,
        channel: Handle,
        status: Status,
        reason: BreakReason,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        g.state = GrantState::Broken;
        if let Some(geometry) = g.geometry {
            out.push(Action::BreakChannel { window: g.window, geometry, status, reason });
        }
        out.push(Action::LogOf {
            client: g.client_id,
            level: Level::Warn,
            text: format!("channel {channel} of '{}' is broken: {why}", g.function),
        });
        self.record(channel, Some(why), out);
    }

    pub(super) fn service_exited(
        &mut self,
        now: u64,
        id: ServiceId,
        exit: Exit,
        out: &mut Vec<Action>,
    ) {
        self.asked.remove(&id);
        let Some(s) = self.services.get_mut(&id) else { return };
        let overran = s.overran.take();
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
        // Of one that was nobody's child its last word tells.
        let deadline =
            exit == Exit::Code(EXIT_DEADLINE) || (exit == Exit::Unknown && overran.is_some());
        let how = match exit {
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
                    let status = match (deadline, overran == Some(channel)) {
                        (true, true) => Status::Deadline,
                        (true, false) => Status::ServiceLost,
                        (false, _) => Status::DriverCrashed,
                    };
                    g.state = GrantState::Recovering;
                    // Counted here: the next service may serve, and die, before
                    // it has said that it opened the channel.
                    g.restarts = g.restarts.saturating_add(1);
                    let geometry = g.geometry.expect("an active grant has a channel");
                    out.push(Action::FailCurrent { window: g.window, geometry, status });
                    self.record(channel, Some(&how), out);
                }
                GrantState::Closing => self.free_grant(channel, out),
                GrantState::Broken => g.service = None,
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
    fn restart_elsewhere(&mut self, now: u64, channel: Handle, out: &mut Vec<Action>) {
        let Some(g) = self.grants.get_mut(channel) else { return };
        g.service = None;
        match g.state {
            GrantState::Closing => self.free_grant(channel, out),
            GrantState::Activating | GrantState::Recovering => self.serve(now, channel, out),
            _ => {}
        }
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
                "the grant was released while it was being activated",
            );
            out.push(Action::Answer { to, result: Err(nack) });
        }
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
    fn free_grant(&mut self, grant: Handle, out: &mut Vec<Action>) {
        if let Some(g) = self.grants.get_mut(grant) {
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
            let (bytes, until) = (geo.side_bytes.get(), self.now + HOLD_MS);
            for off in [geo.dataout_off.get(), geo.datain_off.get()] {
                if g.hold_back {
                    w.held.push((until, off, bytes));
                } else {
                    w.heap.give(off, bytes);
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
    fn give_held(&mut self, now: u64) {
        let due = |w: &Window| w.held.iter().any(|(until, ..)| *until <= now);
        let ids: Vec<_> = self.windows.iter().filter(|(_, w)| due(w)).map(|(id, _)| *id).collect();
        for id in ids {
            let w = self.windows.get_mut(&id).expect("just listed");
            let heap = &mut w.heap;
            w.held.retain(|&(until, off, bytes)| {
                if until <= now {
                    heap.give(off, bytes);
                }
                until > now
            });
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
        if let Some(s) = self.sessions.remove(session)
            && let Some(w) = self.windows.get_mut(&s.window)
        {
            w.lines[usize::from(s.line)] = None;
        }
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

    /// Goes on where another manager was killed. What is still served goes on;
    /// services that ended meanwhile are treated as if they ended now.
    pub(super) fn resume(&mut self, now: u64, alive: &[ServiceId], out: &mut Vec<Action>) {
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
        // Their apps may not have been told. A reason that is there stays.
        for (_, g) in self.grants.iter().filter(|(_, g)| g.state == GrantState::Broken) {
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
            if !self.grants.get(channel).is_ok_and(|g| g.service == Some(id)) {
                out.push(Action::CloseChannel { service: id, channel });
            }
        }
        for channel in self.channels_of(id) {
            if channels.contains(&channel) {
                let Ok(g) = self.grants.get(channel) else { continue };
                out.push(if g.state == GrantState::Closing {
                    Action::CloseChannel { service: id, channel }
                } else {
                    // The manager may have been killed before it had said a new one.
                    Action::SetRate { service: id, channel, calls_per_s: g.calls_per_s }
                });
                continue;
            }
            let g = self.grants.get_mut(channel).expect("just listed");
            match g.state {
                GrantState::Activating | GrantState::Recovering => self.open(id, channel, out),
                GrantState::Active => {
                    // It let go of it and said so to nobody; opening it again
                    // shows why.
                    g.state = GrantState::Recovering;
                    self.open(id, channel, out);
                }
                GrantState::Closing => self.free_grant(channel, out),
                GrantState::Granted | GrantState::Broken | GrantState::Released => {}
            }
        }
    }

    pub(super) fn tick(&mut self, now: u64, out: &mut Vec<Action>) {
        self.give_held(now);
        let ids: Vec<_> = self.services.keys().copied().collect();
        for id in ids {
            let channels = self.channels_of(id);
            let s = self.services.get_mut(&id).expect("just listed");
            if !channels.is_empty() {
                s.used_ms = now;
            }
            match s.state {
                ServiceState::Starting if now.saturating_sub(s.since_ms) > START_MS => {
                    let reason =
                        format!("the driver of '{}' did not load within {START_MS} ms", s.function);
                    self.service_failed(now, id, &reason, out);
                    continue;
                }
                ServiceState::Backoff(at) if channels.is_empty() && now >= at => {
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
            let overdue = channels.iter().all(|c| {
                self.grants.get(*c).is_ok_and(|g| {
                    g.state == GrantState::Closing
                        && now.saturating_sub(g.closing_ms) > CLOSE_GRACE_MS
                })
            });
            if !channels.is_empty() && overdue {
                let s = self.services.get_mut(&id).expect("just listed");
                s.state = ServiceState::Stopping;
                out.push(Action::KillService { service: id });
            }
        }
    }
}
