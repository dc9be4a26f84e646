//! Sessions: how apps come, and how they go.

use super::nacks::{self, malformed};
use super::requests::{Answer, body, empty, zero};
use super::table::NoSuch;
use super::{Action, Core, ReplyTo, WindowId, rules, serial};
use crate::limits::APP_NAMES_KEPT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use vfun_wire::limits::{HEARTBEAT_MS, NAME_BYTES};
use vfun_wire::message::{Hello, HelloAck, Kind};
use vfun_wire::version::{Features, VERSION, VERSION_MIN, agree};
use vfun_wire::{Handle, Nack, names};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// One app. This is what is noted, too.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    pub window: WindowId,
    #[serde(deserialize_with = "serial::line")]
    pub line: u16,
    #[serde(deserialize_with = "serial::name")]
    pub app: String,
    pub app_id: u32,
    #[serde(with = "serial")]
    pub features: Features,
    /// Protocol version in force.
    pub version: u16,
    /// The token that its app presented, if it did.
    pub token: Option<u64>,
    /// The request that opened it; see [`Replay`](super::grant::Replay).
    pub asked: ReplyTo,
}

impl Core {
    /// An app's session.
    pub(super) fn session(&self, session: Handle) -> Result<&Session, Nack> {
        self.sessions.get(session).map_err(|e| match e {
            NoSuch::Unknown => nacks::no_session(session),
            NoSuch::Stale => {
                nacks::session_ended(session, "its app is gone, or the manager started again")
            }
        })
    }

    /// The session that a request of this window names.
    pub(super) fn own_session(&self, window: WindowId, session: Handle) -> Result<&Session, Nack> {
        match (self.session(session), self.ended.get(&session.index())) {
            (Ok(s), _) if s.window == window => Ok(s),
            (Ok(_), _) => Err(nacks::another_windows_session()),
            // Why another window's ended is nobody's business here.
            (Err(_), Some((of, at, why))) if (*of, *at) == (session, window) => {
                Err(nacks::session_ended(session, why))
            }
            (Err(nack), _) => Err(nack),
        }
    }

    /// The session that a request was answered with, if it was: a manager that takes over
    /// reads it again.
    fn opened_by(&self, to: ReplyTo) -> Option<Handle> {
        let by = |h: &Handle| self.sessions.get(*h).is_ok_and(|s| s.asked == to);
        self.windows.get(&to.window)?.sessions().find(by)
    }

    pub(super) fn hello(&mut self, now: u64, to: ReplyTo, bytes: &[u8]) -> Answer {
        let window = to.window;
        let h: Hello = body(bytes, Kind::Hello)?;
        if let Some(session) = self.opened_by(to) {
            return self.hello_ack(session);
        }
        let (min, max) = (h.version_min.get(), h.version_max.get());
        let version =
            agree((VERSION_MIN, VERSION), (min, max)).ok_or_else(|| nacks::protocol(min, max))?;
        zero("hello's reserved bytes", h.reserved == [0; 6])?;
        let app = names::decode(&h.app).map_err(|e| malformed(format!("the app's name: {e}")))?;
        let credential = h
            .credential
            .get(..usize::from(h.credential_len.get()))
            .ok_or_else(|| malformed("the credential is longer than its room"))?;
        let client = self.client_of(window)?;
        let w = self.windows.get(&window).ok_or_else(nacks::client_removed)?;
        let token = rules::admit(&self.catalog, now, client, Some(app), credential, w.proven)?;
        let client_id = client.id;
        let features = Core::features_of(w).both(Features(h.features.get()));
        let line = w.lines.iter().position(Option::is_none).ok_or_else(nacks::no_line)?;
        let session = Session {
            window,
            line: line as u16,
            app: app.to_owned(),
            app_id: self.app_id(client_id, app),
            features,
            asked: to,
            version,
            token,
        };
        let session = self.sessions.insert(session);
        if let Some(w) = self.windows.get_mut(&window) {
            w.lines[line] = Some(session);
            w.beats[line] = (0, now);
        }
        self.hello_ack(session)
    }

    fn hello_ack(&self, session: Handle) -> Answer {
        let s = self.session(session)?;
        let w = self.windows.get(&s.window).ok_or_else(nacks::client_removed)?;
        let client = self.catalog.clients.get(&w.client);
        let ack = HelloAck {
            version: U16::new(s.version),
            session_line: U16::new(s.line),
            client_id: U32::new(w.client),
            features: U64::new(s.features.0),
            session: U64::new(session.0),
            heartbeat_ms: U32::new(if w.death_seen { 0 } else { HEARTBEAT_MS as u32 }),
            app_id: U32::new(s.app_id),
            client: client.and_then(|c| names::encode(&c.name).ok()).unwrap_or([0; NAME_BYTES]),
            reserved: [U64::ZERO; 2],
        };
        Ok(ack.as_bytes().to_vec())
    }

    /// A guest's kernel module starts: a reset ended those that had sessions
    /// through the one before it. Sessions of programs that reach the window by
    /// themselves are left to their heartbeats.
    pub(super) fn reset(&mut self, now: u64, window: WindowId, out: &mut Vec<Action>) -> Answer {
        for session in self.sessions_of(window) {
            let s = self.sessions.get(session);
            if s.is_ok_and(|s| s.features.has(Features::MODULE)) {
                self.end_session(now, session, "its guest's kernel started again", out);
            }
        }
        self.no_window_here(window, out);
        Ok(empty())
    }

    /// The sessions in a window.
    pub(super) fn sessions_of(&self, window: WindowId) -> Vec<Handle> {
        self.windows.get(&window).map_or(vec![], |w| w.sessions().collect())
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
}
