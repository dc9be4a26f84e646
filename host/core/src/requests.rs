//! What apps ask for: every byte comes from a guest and is checked here. What each
//! request does is with its like: [`sessions`](super::sessions),
//! [`negotiate`](super::negotiate), [`activate`](super::activate), [`offers`](super::offers),
//! [`buffers`](super::buffers).

use super::catalog::Client;
use super::nacks::{self, malformed};
use super::table::NoSuch;
use super::{Action, ControlRequest, Core, Refusal, ReplyTo, Stage, WindowId};
use vfun_wire::limits::NAME_BYTES;
use vfun_wire::message::{self, Hello, Kind, Negotiate, OfGrant};
use vfun_wire::{Handle, Nack, NackCode, names};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) type Answer = Result<Vec<u8>, Nack>;

pub(super) fn body<T: FromBytes + KnownLayout + Immutable>(
    bytes: &[u8],
    kind: Kind,
) -> Result<T, Nack> {
    T::read_from_bytes(bytes).map_err(|_| nacks::length(kind, bytes.len(), size_of::<T>()))
}

pub(super) fn zero(field: &str, ok: bool) -> Result<(), Nack> {
    if ok { Ok(()) } else { Err(malformed(format!("{field} must be zero"))) }
}

pub(super) fn empty() -> Vec<u8> {
    message::Empty { reserved: U64::new(0) }.as_bytes().to_vec()
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
            Some(Kind::Codes) => {
                let asked = message::Codes::read_from_bytes(&r.body);
                function = asked.map_or(function, |d| named(&d.function));
            }
            _ => {}
        }
        Refusal {
            client: self.client_of(r.to.window).map_or(String::new(), |c| c.name.clone()),
            vm: self.windows.get(&r.to.window).and_then(|w| w.vm.clone()),
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
        let kind = Kind::from_wire(r.kind).ok_or_else(|| nacks::unknown_message(r.kind))?;
        let row = message::row(kind);
        if r.body.len() != row.request_bytes {
            return Err(nacks::length(kind, r.body.len(), row.request_bytes));
        }
        if kind == Kind::Hello {
            return self.hello(now, r.to, &r.body).map(Some);
        }
        if kind == Kind::Reset {
            return self.reset(now, r.to.window, out).map(Some);
        }
        if kind == Kind::Window {
            return self.window_here(r.to.window, &r.body, out).map(Some);
        }
        if self.ended_already(kind, r.to, out) {
            return Ok(None);
        }
        if kind == Kind::BufferPut
            && let Some(done) = self.table_put(r, out)
        {
            return done.map(Some);
        }
        let session = Handle(r.session);
        if !self.own_session(r.to.window, session)?.features.has(row.needs) {
            return Err(nacks::lacks_feature(kind));
        }
        match kind {
            Kind::Hello | Kind::Reset | Kind::Window => unreachable!("handled above"),
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
            Kind::Codes => self.codes(r.to.window, &r.body).map(Some),
            Kind::BufferGet => self.buffer_get(now, session, r, out),
            Kind::BufferPut => {
                self.buffer_put(session, &r.body, out)?;
                self.note_end(r.to);
                Ok(Some(empty()))
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
            Kind::Goodbye | Kind::BufferPut => {
                out.push(Action::Answer { to, result: Ok(empty()) });
            }
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
            .ok_or_else(nacks::client_removed)
    }

    pub(super) fn own_grant(
        &self,
        session: Handle,
        bytes: &[u8],
        kind: Kind,
    ) -> Result<Handle, Nack> {
        let handle = Handle(body::<OfGrant>(bytes, kind)?.grant.get());
        match self.grants.get(handle) {
            Ok(g) if g.holder.session != session => Err(nacks::another_sessions_grant(handle)),
            Ok(g) if matches!(g.stage, Stage::Closing { .. }) => {
                Err(nacks::another_sessions_grant(handle))
            }
            Ok(_) => Ok(handle),
            Err(NoSuch::Unknown) => Err(nacks::no_grant(handle)),
            Err(NoSuch::Stale) => Err(nacks::grant_released(handle)),
        }
    }

    fn push_stats(&self, now: u64, grant: Handle, to: ReplyTo, out: &mut Vec<Action>) {
        let Ok(g) = self.grants.get(grant) else { return };
        out.push(Action::AnswerStats {
            to,
            channel: g.told().map(|place| (g.holder.window, place)),
            restarts: g.restarts,
            service: g.service(),
            age_ms: now.saturating_sub(g.since_ms),
        });
    }
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
