//! What apps ask for: every byte comes from a guest and is checked here.

use super::catalog::{Client, Function};
use super::grants::{Grant, GrantState, NoSuch};
use super::rules::{self, Wanted};
use super::{Action, ControlRequest, Core, GrantRecord, Refusal, ReplyTo, Session, WindowId};
use crate::limits::APP_NAMES_KEPT;
use std::collections::BTreeSet;
use vfun_wire::channel::{ChannelKind, side_bytes};
use vfun_wire::limits::*;
use vfun_wire::message::{
    self, Hello, HelloAck, Kind, Location, Negotiate, NegotiateAck, OfGrant, Preference, WaitMode,
};
use vfun_wire::version::{Features, FunctionVersion, VERSION, VERSION_MIN, agree};
use vfun_wire::{Handle, LINE, Nack, NackCode, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) type Answer = Result<Vec<u8>, Nack>;

pub(super) fn malformed(what: impl Into<String>) -> Nack {
    Nack::new(NackCode::Malformed, what)
}

pub(super) fn body<T: FromBytes + KnownLayout + Immutable>(
    bytes: &[u8],
    kind: Kind,
) -> Result<T, Nack> {
    T::read_from_bytes(bytes).map_err(|_| {
        malformed(format!(
            "a {kind} request has {} bytes of body, not {}",
            bytes.len(),
            size_of::<T>()
        ))
    })
}

pub(super) fn zero(field: &str, ok: bool) -> Result<(), Nack> {
    if ok { Ok(()) } else { Err(malformed(format!("{field} must be zero"))) }
}

impl Core {
    pub(super) fn request(&mut self, now: u64, r: ControlRequest, out: &mut Vec<Action>) {
        let to = r.to;
        match self.dispatch(now, &r, out) {
            Ok(Some(ack)) => out.push(Action::Answer { to, result: Ok(ack) }),
            Ok(None) => {} // answered already, or later
            Err(nack) => {
                if worth_noting(nack.code) {
                    out.push(Action::Refused(self.refusal(&r, &nack)));
                }
                out.push(Action::Answer { to, result: Err(nack) });
            }
        }
    }

    /// Who was refused what.
    fn refusal(&self, r: &ControlRequest, nack: &Nack) -> Refusal {
        let session = self.sessions.get(Handle(r.session)).ok();
        let session = session.filter(|s| s.window == r.to.window);
        let (mut app, mut function) = (session.map_or("", |s| &s.app).to_owned(), String::new());
        let named = |name: &[u8; NAME_BYTES]| names::decode(name).unwrap_or("").to_owned();
        match Kind::from_wire(r.kind) {
            Some(Kind::Hello) => {
                app = Hello::read_from_bytes(&r.body).map_or(app, |h| named(&h.app));
            }
            Some(Kind::Negotiate) => {
                function =
                    Negotiate::read_from_bytes(&r.body).map_or(function, |n| named(&n.function));
            }
            Some(Kind::Describe) => {
                let asked = message::Describe::read_from_bytes(&r.body);
                function = asked.map_or(function, |d| named(&d.function));
            }
            _ => {}
        }
        Refusal {
            client: self.client_of(r.to.window).map_or(String::new(), |c| c.name.clone()),
            app,
            function,
            nack: nack.clone(),
        }
    }

    fn dispatch(
        &mut self,
        now: u64,
        r: &ControlRequest,
        out: &mut Vec<Action>,
    ) -> Result<Option<Vec<u8>>, Nack> {
        let Some(kind) = Kind::from_wire(r.kind) else {
            return Err(Nack::new(
                NackCode::Unsupported,
                format!("message {} is not one this manager knows", r.kind),
            ));
        };
        let row = message::row(kind);
        if r.body.len() != row.request_bytes {
            return Err(malformed(format!(
                "a {kind} request has {} bytes of body, not {}",
                r.body.len(),
                row.request_bytes
            )));
        }
        if kind == Kind::Hello {
            return self.hello(now, r.to, &r.body).map(Some);
        }
        if kind == Kind::Reset {
            return self.reset(now, r.to.window, out).map(Some);
        }
        if self.ended_already(kind, r.to, out) {
            return Ok(None);
        }
        let session = self.own_session(r.to.window, Handle(r.session))?;
        if !self.sessions.get(session).expect("just found").features.has(row.needs) {
            return Err(Nack::new(
                NackCode::Unsupported,
                format!("{kind} needs a feature that this host does not offer"),
            ));
        }
        match kind {
            Kind::Hello | Kind::Reset => unreachable!("handled above"),
            Kind::Negotiate => self.negotiate(now, session, r.to, &r.body, out).map(Some),
            Kind::Activate => self.activate(now, session, r, out).map(|()| None),
            Kind::Release => {
                let grant = self.own_grant(session, &r.body, kind)?;
                self.push_stats(now, grant, r.to, out);
                self.note_end(r.to);
                self.end_grant(now, grant, "released by the app", out);
                Ok(None)
            }
            Kind::Stats => {
                let grant = self.own_grant(session, &r.body, kind)?;
                self.push_stats(now, grant, r.to, out);
                Ok(None)
            }
            Kind::List => self.list(r.to.window, &r.body).map(Some),
            Kind::KeepAlive => Ok(Some(empty())),
            Kind::Goodbye => {
                self.note_end(r.to);
                self.end_session(now, session, "the app said goodbye", out);
                Ok(Some(empty()))
            }
            Kind::Describe => self.describe(r.to.window, &r.body).map(Some),
            Kind::BufferGet | Kind::BufferPut => {
                Err(Nack::new(NackCode::Unsupported, "buffers are not offered by this version"))
            }
        }
    }

    /// Notes a request by which something ends: what it names is gone then.
    fn note_end(&mut self, by: ReplyTo) {
        if let Some(w) = self.windows.get_mut(&by.window)
            && let Some(cell) = w.ended.get_mut(by.cell)
        {
            *cell = Some(by.seq);
        }
    }

    /// Answers a request once more by which something ended already: it is read
    /// again by a manager that took over before it was answered. Of what a
    /// channel counted nothing is left to tell.
    fn ended_already(&self, kind: Kind, to: ReplyTo, out: &mut Vec<Action>) -> bool {
        let w = self.windows.get(&to.window);
        if w.and_then(|w| w.ended.get(to.cell)) != Some(&Some(to.seq)) {
            return false;
        }
        match kind {
            Kind::Goodbye => out.push(Action::Answer { to, result: Ok(empty()) }),
            Kind::Release => out.push(Action::AnswerStats {
                to,
                channel: None,
                restarts: 0,
                service: None,
                age_ms: 0,
            }),
            _ => return false,
        }
        true
    }

    pub(super) fn client_of(&self, window: WindowId) -> Result<&Client, Nack> {
        self.windows
            .get(&window)
            .and_then(|w| self.catalog.clients.get(&w.client))
            .ok_or_else(|| Nack::new(NackCode::Denied, "this window's client was removed"))
    }

    fn own_session(&self, window: WindowId, session: Handle) -> Result<Handle, Nack> {
        match self.sessions.get(session) {
            Ok(s) if s.window == window => Ok(session),
            Ok(_) => Err(Nack::new(NackCode::BadHandle, "this session is not of this window")),
            Err(NoSuch::Unknown) => Err(Nack::new(
                NackCode::BadHandle,
                format!("there is no session {session}: say hello first"),
            )),
            Err(NoSuch::Stale) => {
                let why = match self.ended.get(&session.index()) {
                    // Another window's is nobody's business here.
                    Some((of, at, why)) if (*of, *at) == (session, window) => why.as_str(),
                    _ => "its app is gone, or the manager started anew",
                };
                let sentence = format!("session {session} has ended ({why}): connect again");
                Err(Nack::new(NackCode::Stale, sentence))
            }
        }
    }

    pub(super) fn own_grant(
        &self,
        session: Handle,
        bytes: &[u8],
        kind: Kind,
    ) -> Result<Handle, Nack> {
        let handle = Handle(body::<OfGrant>(bytes, kind)?.grant.get());
        match self.grants.get(handle) {
            Ok(g) if g.session == session && g.state != GrantState::Closing => Ok(handle),
            Ok(_) => {
                Err(Nack::new(NackCode::BadHandle, format!("grant {handle} is not this session's")))
            }
            Err(NoSuch::Unknown) => Err(Nack::new(
                NackCode::BadHandle,
                format!("there is no grant {handle}: negotiate first"),
            )),
            Err(NoSuch::Stale) => Err(Nack::new(
                NackCode::Stale,
                format!("grant {handle} was released: negotiate again"),
            )),
        }
    }

    fn hello(&mut self, now: u64, to: ReplyTo, bytes: &[u8]) -> Answer {
        let window = to.window;
        let h: Hello = body(bytes, Kind::Hello)?;
        if let Some((session, _)) = self.sessions.iter().find(|(_, s)| s.asked == to) {
            return Ok(self.hello_ack(session)); // read again, as in negotiate
        }
        let (min, max) = (h.version_min.get(), h.version_max.get());
        let version = agree((VERSION_MIN, VERSION), (min, max)).ok_or_else(|| {
            Nack::new(
                NackCode::WrongProtocol,
                format!("the app speaks protocol {min} to {max}, this host {VERSION_MIN} to {VERSION}: update the older one"),
            )
        })?;
        zero("hello's reserved bytes", h.reserved == [0; 6])?;
        let app = names::decode(&h.app).map_err(|e| malformed(format!("the app's name: {e}")))?;
        let credential = h
            .credential
            .get(..usize::from(h.credential_len.get()))
            .ok_or_else(|| malformed("the credential is longer than its room"))?;
        let client = self.client_of(window)?;
        let prove = self.windows[&window].proven;
        let token = rules::admit(&self.catalog, now, client, Some(app), credential, prove)?;
        let client_id = client.id;

        let w = &self.windows[&window];
        let line = w.lines.iter().position(Option::is_none).ok_or_else(|| {
            Nack::new(
                NackCode::NoCapacity,
                format!("this window has {SESSIONS} apps already: wait for one to end"),
            )
        })?;
        let ours = if w.doorbell {
            Features::OFFERED
        } else {
            Features(Features::OFFERED.0 & !Features::DOORBELL.0)
        };
        let features = ours.both(Features(h.features.get()));
        let app_id = self.app_id(client_id, app);
        let session = self.sessions.insert(Session {
            window,
            line: line as u16,
            app: app.to_owned(),
            app_id,
            features,
            asked: to,
            version,
            token,
        });
        let w = self.windows.get_mut(&window).expect("seen above");
        w.lines[line] = Some(session);
        w.beats[line] = (0, now);
        Ok(self.hello_ack(session))
    }

    fn hello_ack(&self, session: Handle) -> Vec<u8> {
        let s = self.sessions.get(session).expect("the caller's");
        let w = &self.windows[&s.window];
        let client = self.catalog.clients.get(&w.client);
        HelloAck {
            version: U16::new(s.version),
            session_line: U16::new(s.line),
            client_id: U32::new(w.client),
            features: U64::new(s.features.0),
            session: U64::new(session.0),
            heartbeat_ms: U32::new(if w.death_seen { 0 } else { HEARTBEAT_MS as u32 }),
            app_id: U32::new(s.app_id),
            client: client.and_then(|c| names::encode(&c.name).ok()).unwrap_or([0; NAME_BYTES]),
        }
        .as_bytes()
        .to_vec()
    }

    /// A guest's kernel module starts: a reset ended those that had sessions
    /// through the one before it. Sessions of programs that reach the window by
    /// themselves are left to their heartbeats.
    fn reset(&mut self, now: u64, window: WindowId, out: &mut Vec<Action>) -> Answer {
        let of_module: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.window == window && s.features.has(Features::MODULE))
            .map(|(h, _)| h)
            .collect();
        for session in of_module {
            self.end_session(now, session, "its guest's kernel started anew", out);
        }
        Ok(empty())
    }

    fn app_id(&mut self, client: u32, app: &str) -> u32 {
        if let Some(id) = self.app_ids.get(&(client, app.to_owned())) {
            return *id;
        }
        let names = self.app_ids.range((client, String::new())..(client + 1, String::new()));
        if names.count() >= APP_NAMES_KEPT {
            let used: BTreeSet<u32> = self.sessions.iter().map(|(_, s)| s.app_id).collect();
            self.app_ids.retain(|(c, _), id| *c != client || used.contains(id));
        }
        let id = self.next_app;
        self.next_app = id.wrapping_add(1).max(1);
        self.app_ids.insert((client, app.to_owned()), id);
        id
    }

    fn negotiate(
        &mut self,
        now: u64,
        session: Handle,
        to: ReplyTo,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Answer {
        let n: Negotiate = body(bytes, Kind::Negotiate)?;
        // Read again by a manager that took over before it was answered.
        let again = self.grants.iter().find(|(_, g)| g.asked == to && g.session == session);
        if let Some((grant, _)) = again {
            return Ok(self.negotiate_ack(grant));
        }
        let reserved = n.reserved2.get() == 0 && n.reserved3.get() == 0;
        zero("negotiate's reserved bytes", reserved)?;
        let name = names::decode(&n.function)
            .map_err(|e| malformed(format!("the function's name: {e}")))?;
        let preference = Preference::from_wire(n.preference)
            .ok_or_else(|| malformed(format!("{} is not a preference", n.preference)))?;
        let wait = WaitMode::from_wire(n.wait)
            .ok_or_else(|| malformed(format!("{} is not a way to wait", n.wait)))?;
        let kind = ChannelKind::from_wire(n.kind.get())
            .ok_or_else(|| malformed(format!("{} is not a kind of channel", n.kind)))?;
        let s = self.sessions.get(session).expect("checked by the caller");
        let (window, app, app_id) = (s.window, s.app.clone(), s.app_id);
        let client = self.client_of(window)?;
        let found = self.catalog.function(client.id, name);
        let f = found.ok_or_else(|| self.no_such_function(client, name))?;
        rules::check_function(&self.catalog, client, name)?;
        rules::check_submits(&self.catalog, client, &app, name)?;
        self.check_drain(&client.name, name)?;
        let wanted = FunctionVersion(n.version.get());
        if !f.version.serves(wanted) {
            return Err(Nack::new(
                NackCode::WrongVersion,
                format!(
                    "'{name}' is offered in version {}, which does not serve a caller of {wanted}",
                    f.version
                ),
            ));
        }
        check_signature(f, n.signature.get())?;
        let floor = matches!(f.software, Some(vfun_supervise::Driver::Floor));
        let fits = if floor { ChannelKind::Floor } else { ChannelKind::Calls };
        if kind != fits {
            return Err(Nack::new(
                NackCode::Unsupported,
                format!("'{name}' has channels of kind {fits}, not {kind}"),
            ));
        }
        let depth = match n.depth.get() {
            0 => DEPTH_DEFAULT,
            d => d,
        };
        let cell_bytes = match n.cell_bytes.get() {
            u32::MAX => CELL_BYTES_DEFAULT.max(least_room(f)).next_multiple_of(LINE as u32),
            b => b.checked_next_multiple_of(LINE as u32).unwrap_or(u32::MAX),
        };
        let side = side_bytes(depth, cell_bytes).ok_or_else(|| {
            Nack::new(
                NackCode::BeyondLimit,
                format!("a channel of {depth} cells with {cell_bytes} bytes each is not possible: depth is a power of two up to {DEPTH_MAX}, cells have at most {CELL_BYTES_MAX} bytes"),
            )
        })?;
        if cell_bytes.max(INLINE_BYTES as u32) < least_room(f) {
            return Err(Nack::new(
                NackCode::BeyondLimit,
                format!(
                    "cells of {cell_bytes} bytes cannot hold a call of '{name}', whose arguments or results have at least {} bytes: ask for cells of as many",
                    least_room(f)
                ),
            ));
        }
        let w = &self.windows[&window];
        if side.saturating_mul(2) > w.heap.total() {
            return Err(Nack::new(
                NackCode::NoCapacity,
                format!(
                    "a channel of {depth} cells with {cell_bytes} bytes of arguments and as many of results takes {} bytes; the window has {} for channels: send less in a call, ask for fewer cells, or give the client a larger window",
                    side * 2,
                    w.heap.total()
                ),
            ));
        }
        let deadline_ms = rules::deadline(&self.catalog, client, f, n.deadline_ms.get())?;
        self.within_quota(client, name, &Wanted { depth, bytes: side.saturating_mul(2) })?;
        let location = self.place(client, f, preference)?;
        rules::check_devices(&self.catalog, client, f, location)?;
        self.check_breaker(now, client.id, name, location)?;
        let hw = f.hardware.as_ref().filter(|hw| hw.leased);
        let leased = hw.is_some() && preference == Preference::Any && f.software.is_some();
        let vf = hw.filter(|_| location.is_hardware()).and_then(|hw| self.free_vf(client.id, hw));
        // A service that spins keeps a processor of the host busy for an idle
        // app: only where policy says so. The answer shows what is in force.
        let wait = match wait {
            WaitMode::Spin if !client.spin => WaitMode::Hybrid,
            mode => mode,
        };

        let grant = Grant {
            session,
            window,
            client_id: client.id,
            client: client.name.clone(),
            app_id,
            app: app.clone(),
            function: name.to_owned(),
            location,
            kind,
            depth,
            cell_bytes,
            deadline_ms,
            calls_per_s: self.catalog.policy.of(&client.name, name).calls_per_s,
            wait,
            state: GrantState::Granted,
            geometry: None,
            service: None,
            waiting: None,
            since_ms: now,
            closing_ms: 0,
            restarts: 0,
            asked: to,
            activated: None,
            hold_back: false,
            device: hw.map_or(String::new(), |hw| hw.device.clone()),
            leased,
            vf,
            moving: None,
            also: None,
            switches: 0,
            of: f.own_print(),
            left: None,
            over: None,
        };
        let record = GrantRecord {
            grant: Handle::NONE,
            client_id: client.id,
            client: client.name.clone(),
            app_id,
            app,
            function_id: f.id,
            function: f.name.clone(),
            location,
            state: GrantState::Granted,
            why: None,
        };
        let handle = self.grants.insert(grant);
        out.push(Action::Record(GrantRecord { grant: handle, ..record }));
        Ok(self.negotiate_ack(handle))
    }

    fn negotiate_ack(&self, grant: Handle) -> Vec<u8> {
        let g = self.grants.get(grant).expect("the caller's");
        let function = self.catalog.function(g.client_id, &g.function);
        NegotiateAck {
            grant: U64::new(grant.0),
            client_id: U32::new(g.client_id),
            app_id: U32::new(g.app_id),
            function_id: U32::new(function.map_or(0, |f| f.id)),
            version: U32::new(function.map_or(0, |f| f.version.0)),
            location: g.location.to_wire(),
            wait: g.wait.to_wire(),
            depth: U16::new(g.depth),
            cell_bytes: U32::new(g.cell_bytes),
            deadline_ms: U32::new(g.deadline_ms),
            reserved2: U32::new(0),
        }
        .as_bytes()
        .to_vec()
    }

    /// Where a grant will run: hardware if there is an instance for it and the
    /// caller wants it, else software.
    fn place(&self, client: &Client, f: &Function, p: Preference) -> Result<Location, Nack> {
        let software = f.software.is_some();
        let busy = |hw: &super::catalog::Hardware| {
            if hw.leased {
                return self.free_vf(client.id, hw).is_none();
            }
            self.grants
                .iter()
                .filter(|(_, g)| g.function == f.name && g.location == hw.location)
                .count()
                >= hw.instances as usize
        };
        let refuse = |code, sentence: String| {
            let n = Nack::new(code, sentence);
            if software { n.offering_software() } else { n }
        };
        let denied = rules::no_hardware(&self.catalog, client, &f.name);
        match (p, &f.hardware) {
            // It begins in software; who gets a VF is decided by what each does.
            (Preference::Any, Some(hw)) if hw.leased && software => Ok(Location::Software),
            (Preference::Any, Some(hw)) if denied.is_none() && !busy(hw) => Ok(hw.location),
            (Preference::Any | Preference::Software, _) if software => Ok(Location::Software),
            (Preference::Software, _) => {
                Err(Nack::new(NackCode::NoCapacity, format!("'{}' runs only on hardware", f.name)))
            }
            (_, None) => Err(refuse(
                NackCode::NoHardware,
                format!("'{}' has no hardware behind it on this host.", f.name),
            )),
            (_, Some(hw)) => match denied {
                Some(n) if software => Err(n.offering_software()),
                Some(n) => Err(n),
                None if busy(hw) => Err(refuse(
                    NackCode::DeviceBusy,
                    format!(
                        "all {} instances of '{}' on {} are taken.",
                        hw.instances, f.name, hw.location
                    ),
                )),
                None => Ok(hw.location),
            },
        }
    }

    fn push_stats(&self, now: u64, grant: Handle, to: ReplyTo, out: &mut Vec<Action>) {
        let g = self.grants.get(grant).expect("just found");
        out.push(Action::AnswerStats {
            to,
            channel: g.told().map(|geo| (g.window, geo)),
            restarts: g.restarts,
            service: g.service,
            age_ms: now.saturating_sub(g.since_ms),
        });
    }
}

/// Bytes that a cell of this function must hold at least.
fn least_room(f: &Function) -> u32 {
    let of = |s: &vfun_signature::Signature| s.args.min_bytes().max(s.results.min_bytes());
    f.signature.as_ref().map_or(0, |s| of(s) as u32)
}

/// Whether a caller that was made for one signature may call this function.
fn check_signature(f: &Function, callers: u64) -> Result<(), Nack> {
    let ours = f.fingerprint();
    if callers == 0 || callers == ours {
        return Ok(());
    }
    let what = match &f.signature {
        None => "has no signature here".to_owned(),
        Some(s) => format!("is {s} ({ours:016x})"),
    };
    Err(Nack::new(
        NackCode::WrongSignature,
        format!(
            "the caller was made for another signature of '{}' ({callers:016x}): make its stubs anew with `vfun bindgen {}`. The function {what}",
            f.name, f.name
        ),
    ))
}

fn empty() -> Vec<u8> {
    message::Empty { reserved: U64::new(0) }.as_bytes().to_vec()
}

/// Whether a refusal is about what somebody may do, or by somebody who makes
/// requests up; the rest are the course of things.
fn worth_noting(code: NackCode) -> bool {
    matches!(
        code,
        NackCode::Malformed
            | NackCode::Unsupported
            | NackCode::UnknownFunction
            | NackCode::Denied
            | NackCode::BadCredential
            | NackCode::OverQuota
            | NackCode::BeyondLimit
    )
}
