//! What must be known of the state to go on where another manager was killed:
//! notes in plain types, one a thing, and the way back from them.
//!
//! Times are on the machine's monotonic clock, so they mean the same to both
//! managers. What the rim sees anew by itself (heartbeats, counters) is not noted.

use super::breakers::Breaker;
use super::grants::{Grant, GrantState, Table};
use super::heap::Heap;
use super::services::{Service, ServiceState};
use super::{Catalog, Core, ReplyTo, ServiceId, Session, Window, WindowId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use vfun_keeper::Change;
use vfun_wire::Handle;
use vfun_wire::channel::{ChannelKind, Geometry, side_bytes};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::limits::SESSIONS;
use vfun_wire::message::{Location, WaitMode};
use vfun_wire::version::Features;
use zerocopy::little_endian::{U16, U32, U64};

/// A map that remembers which of its entries may have changed.
#[derive(Debug)]
pub(crate) struct Marked<K, V> {
    map: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K: Ord, V> Default for Marked<K, V> {
    fn default() -> Self {
        Marked { map: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Marked<K, V> {
    pub fn insert(&mut self, k: K, v: V) {
        self.changed.insert(k.clone());
        self.map.insert(k, v);
    }
    pub fn remove(&mut self, k: &K) -> Option<V> {
        self.changed.insert(k.clone());
        self.map.remove(k)
    }
    pub fn get_mut(&mut self, k: &K) -> Option<&mut V> {
        self.changed.insert(k.clone());
        self.map.get_mut(k)
    }
    pub fn take_changed(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.changed)
    }
}

impl<K, V> std::ops::Deref for Marked<K, V> {
    type Target = BTreeMap<K, V>;
    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

#[derive(Serialize, Deserialize)]
struct CoreNote {
    next_service: ServiceId,
    next_app: u32,
    draining: bool,
    #[serde(default)]
    draining_clients: BTreeSet<String>,
    #[serde(default)]
    draining_functions: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct WindowNote {
    client: u32,
    bytes: u64,
    doorbell: bool,
    death_seen: bool,
    /// Ranges that are held back: until when, where, how long.
    #[serde(default)]
    held: Vec<(u64, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct BreakerNote {
    client: u32,
    function: String,
    location: u8,
    breaker: Breaker,
}

/// A place in a table: its generation counts on even while nothing is in it.
#[derive(Serialize, Deserialize)]
struct Place<T> {
    generation: u32,
    thing: Option<T>,
}

#[derive(Serialize, Deserialize)]
struct Reply(WindowId, usize, u32);

impl From<ReplyTo> for Reply {
    fn from(r: ReplyTo) -> Self {
        Reply(r.window, r.cell, r.seq)
    }
}
impl From<Reply> for ReplyTo {
    fn from(r: Reply) -> Self {
        ReplyTo { window: r.0, cell: r.1, seq: r.2 }
    }
}

#[derive(Serialize, Deserialize)]
struct SessionNote {
    window: WindowId,
    line: u16,
    app: String,
    app_id: u32,
    features: u64,
    version: u16,
    asked: Reply,
    #[serde(default)]
    token: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct GeometryNote {
    dataout_off: u64,
    datain_off: u64,
    side_bytes: u64,
    vector_out: u16,
    vector_in: u16,
}

#[derive(Serialize, Deserialize)]
struct GrantNote {
    session: u64,
    window: WindowId,
    client_id: u32,
    client: String,
    app_id: u32,
    app: String,
    function: String,
    location: u8,
    kind: u16,
    depth: u16,
    cell_bytes: u32,
    deadline_ms: u32,
    #[serde(default)]
    calls_per_s: u32,
    wait: u8,
    state: GrantState,
    geometry: Option<GeometryNote>,
    service: Option<ServiceId>,
    waiting: Option<Reply>,
    since_ms: u64,
    closing_ms: u64,
    restarts: u32,
    asked: Reply,
    activated: Option<Reply>,
    #[serde(default)]
    hold_back: bool,
}

#[derive(Serialize, Deserialize)]
struct ServiceNote {
    client: u32,
    function: String,
    location: u8,
    state: ServiceState,
    ever_ready: bool,
    #[serde(default)]
    delayed: Option<u64>,
    overran: Option<u64>,
    #[serde(default)]
    outdated: bool,
    /// What its function was when it was noted; see [`print`].
    #[serde(default)]
    of: Option<u64>,
}

/// Tells whether a function was declared anew while no manager was there.
fn print(catalog: &Catalog, function: &str) -> u64 {
    let text = format!("{:?}", catalog.functions.get(function));
    let hash = Sha256::digest(text.as_bytes());
    u64::from_le_bytes(hash[..8].try_into().expect("eight of 32"))
}

fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("plain data")
}

fn grant_note(g: &Grant) -> GrantNote {
    GrantNote {
        session: g.session.0,
        window: g.window,
        client_id: g.client_id,
        client: g.client.clone(),
        app_id: g.app_id,
        app: g.app.clone(),
        function: g.function.clone(),
        location: g.location.to_wire(),
        kind: g.kind.to_wire(),
        depth: g.depth,
        cell_bytes: g.cell_bytes,
        deadline_ms: g.deadline_ms,
        calls_per_s: g.calls_per_s,
        wait: g.wait.to_wire(),
        state: g.state,
        geometry: g.geometry.map(|geo| GeometryNote {
            dataout_off: geo.dataout_off.get(),
            datain_off: geo.datain_off.get(),
            side_bytes: geo.side_bytes.get(),
            vector_out: geo.vector_out.get(),
            vector_in: geo.vector_in.get(),
        }),
        service: g.service,
        waiting: g.waiting.map(Reply::from),
        since_ms: g.since_ms,
        closing_ms: g.closing_ms,
        restarts: g.restarts,
        asked: g.asked.into(),
        activated: g.activated.map(Reply::from),
        hold_back: g.hold_back,
    }
}

fn grant(n: GrantNote) -> Option<Grant> {
    use GrantState::*;
    let side = side_bytes(n.depth, n.cell_bytes)?;
    let laid_out = matches!(n.state, Activating | Active | Recovering);
    let right = match &n.geometry {
        Some(geo) => geo.side_bytes == side,
        None => !laid_out,
    };
    if !right || n.state == Released {
        return None;
    }
    Some(Grant {
        session: Handle(n.session),
        window: n.window,
        client_id: n.client_id,
        client: n.client,
        app_id: n.app_id,
        app: n.app,
        function: n.function,
        location: Location::from_wire(n.location)?,
        kind: ChannelKind::from_wire(n.kind)?,
        depth: n.depth,
        cell_bytes: n.cell_bytes,
        deadline_ms: n.deadline_ms,
        calls_per_s: n.calls_per_s,
        wait: WaitMode::from_wire(n.wait)?,
        state: n.state,
        geometry: n.geometry.map(|geo| Geometry {
            dataout_off: U64::new(geo.dataout_off),
            datain_off: U64::new(geo.datain_off),
            side_bytes: U64::new(geo.side_bytes),
            cell_bytes: U32::new(n.cell_bytes),
            depth: U16::new(n.depth),
            kind: U16::new(n.kind),
            vector_out: U16::new(geo.vector_out),
            vector_in: U16::new(geo.vector_in),
            reserved: U32::new(0),
        }),
        service: n.service,
        waiting: n.waiting.map(ReplyTo::from),
        since_ms: n.since_ms,
        closing_ms: n.closing_ms,
        restarts: n.restarts,
        asked: n.asked.into(),
        activated: n.activated.map(ReplyTo::from),
        hold_back: n.hold_back,
    })
}

/// Places of a table: more than there can be sessions or grants.
const PLACES_MAX: u32 = 1 << 20;

/// The prefix of every note of the core's.
pub const PREFIX: &str = "core";

impl Core {
    /// What changed since this was last asked, in notes.
    pub fn changes(&mut self) -> Vec<Change> {
        let mut out = vec![];
        let mut put = |name: String, note: Option<String>| {
            if note != self.noted.get(&name).cloned() {
                match &note {
                    Some(n) => self.noted.insert(name.clone(), n.clone()),
                    None => self.noted.remove(&name),
                };
                out.push(Change { name, note });
            }
        };
        for id in self.windows.take_changed() {
            let note = self.windows.get(&id).map(|w| {
                text(&WindowNote {
                    client: w.client,
                    bytes: w.heap.total() + HEAP_OFF as u64,
                    doorbell: w.doorbell,
                    death_seen: w.death_seen,
                    held: w.held.clone(),
                })
            });
            put(format!("{PREFIX}/window/{id}"), note);
        }
        for index in self.sessions.take_changed() {
            let (generation, session) = self.sessions.place(index);
            let thing = session.map(|s| SessionNote {
                window: s.window,
                line: s.line,
                app: s.app.clone(),
                app_id: s.app_id,
                features: s.features.0,
                version: s.version,
                asked: s.asked.into(),
                token: s.token,
            });
            put(format!("{PREFIX}/session/{index}"), Some(text(&Place { generation, thing })));
        }
        for index in self.grants.take_changed() {
            let (generation, grant) = self.grants.place(index);
            let thing = grant.map(grant_note);
            put(format!("{PREFIX}/grant/{index}"), Some(text(&Place { generation, thing })));
        }
        for id in self.services.take_changed() {
            let note = self.services.get(&id).map(|s| {
                text(&ServiceNote {
                    client: s.client,
                    function: s.function.clone(),
                    location: s.location.to_wire(),
                    state: s.state,
                    ever_ready: s.ever_ready,
                    delayed: s.delayed,
                    overran: s.overran.map(|h| h.0),
                    outdated: s.outdated,
                    of: Some(print(&self.catalog, &s.function)),
                })
            });
            put(format!("{PREFIX}/service/{id}"), note);
        }
        for key in self.breakers.take_changed() {
            let note = self.breakers.get(&key).map(|b| {
                let (client, function, location) = key.clone();
                text(&BreakerNote { client, function, location, breaker: b.clone() })
            });
            put(format!("{PREFIX}/breaker/{}/{}/{}", key.0, key.2, key.1), note);
        }
        let own = CoreNote {
            next_service: self.next_service,
            next_app: self.next_app,
            draining: self.drain.all,
            draining_clients: self.drain.clients.clone(),
            draining_functions: self.drain.functions.clone(),
        };
        put(format!("{PREFIX}/self"), Some(text(&own)));
        out
    }

    /// Every note as it stands, for a keeper that has none.
    pub fn all_notes(&self) -> Vec<Change> {
        let change = |(name, note): (&String, &String)| Change {
            name: name.clone(),
            note: Some(note.clone()),
        };
        self.noted.iter().map(change).collect()
    }

    /// The windows there are.
    pub fn window_ids(&self) -> impl Iterator<Item = WindowId> {
        self.windows.keys().copied()
    }

    /// Whether this is a service of its.
    pub fn knows_service(&self, id: ServiceId) -> bool {
        self.services.contains_key(&id)
    }

    /// The state that the notes tell of. Anything unreadable is refused whole:
    /// half a state would be worse than none.
    pub fn restore<'a>(
        now: u64,
        generation: u32,
        catalog: Catalog,
        notes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let mut core = Core::new(generation, catalog);
        let (mut sessions, mut grants) = (BTreeMap::new(), BTreeMap::new());
        for (name, note) in notes {
            let bad = |e: &dyn std::fmt::Display| format!("the note {name} ({note}): {e}");
            let mut parts = name.split('/').skip(1);
            let (what, id) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            let number = || id.parse::<u32>().map_err(|e| bad(&e));
            // A table has as many places as its highest number says.
            let place = || match number() {
                Ok(n) if n < PLACES_MAX => Ok(n),
                Ok(_) => Err(bad(&"a place beyond those there can be")),
                Err(e) => Err(e),
            };
            match what {
                "self" => {
                    let n: CoreNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    core.next_service = n.next_service;
                    core.next_app = n.next_app;
                    core.drain.all = n.draining;
                    core.drain.clients = n.draining_clients;
                    core.drain.functions = n.draining_functions;
                }
                "window" => {
                    let n: WindowNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let mut window = Window::new(n.client, n.bytes, n.doorbell, n.death_seen);
                    window.held = n.held;
                    core.windows.insert(number()?, window);
                }
                "session" => {
                    let n: Place<SessionNote> = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let session = n.thing.map(|s| Session {
                        window: s.window,
                        line: s.line,
                        app: s.app,
                        app_id: s.app_id,
                        features: Features(s.features),
                        version: s.version,
                        asked: s.asked.into(),
                        token: s.token,
                    });
                    sessions.insert(place()?, (n.generation, session));
                }
                "grant" => {
                    let n: Place<GrantNote> = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let thing = match n.thing {
                        Some(g) => Some(grant(g).ok_or_else(|| bad(&"an unknown number"))?),
                        None => None,
                    };
                    grants.insert(place()?, (n.generation, thing));
                }
                "service" => {
                    let n: ServiceNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let anew = n.of.is_some_and(|of| of != print(&core.catalog, &n.function));
                    let service = Service {
                        client: n.client,
                        function: n.function,
                        location: Location::from_wire(n.location)
                            .ok_or_else(|| bad(&"an unknown location"))?,
                        state: n.state,
                        since_ms: now,
                        used_ms: now,
                        ever_ready: n.ever_ready,
                        delayed: n.delayed,
                        overran: n.overran.map(Handle),
                        outdated: n.outdated || anew,
                    };
                    core.services.insert(number()?, service);
                }
                "breaker" => {
                    let n: BreakerNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    core.breakers.insert((n.client, n.function, n.location), n.breaker);
                }
                _ => return Err(bad(&"not a note of this version")),
            }
            core.noted.insert(name.to_owned(), note.to_owned());
        }
        core.sessions = Table::of_places(sessions);
        core.grants = Table::of_places(grants);
        core.knit(now)?;
        core.windows.take_changed();
        core.services.take_changed();
        core.breakers.take_changed();
        Ok(core)
    }

    /// Rebuilds what follows from the notes: who has which line and which
    /// range of which window, and which apps have which id.
    fn knit(&mut self, now: u64) -> Result<(), String> {
        for (handle, s) in self.sessions.iter() {
            let Some(w) = self.windows.get_mut(&s.window) else { continue };
            let line = w
                .lines
                .get_mut(usize::from(s.line))
                .ok_or_else(|| format!("session {handle} has no line {}", s.line))?;
            if line.replace(handle).is_some() {
                return Err(format!("two sessions have line {}", s.line));
            }
            w.beats[usize::from(s.line)] = (0, now);
            let client = w.client;
            self.app_ids.insert((client, s.app.clone()), s.app_id);
        }
        for (handle, g) in self.grants.iter() {
            let (Some(geo), Some(w)) = (g.geometry, self.windows.get_mut(&g.window)) else {
                continue;
            };
            for off in [geo.dataout_off.get(), geo.datain_off.get()] {
                if !w.heap.take_at(off, geo.side_bytes.get()) {
                    return Err(format!("grant {handle} has a range that another one has"));
                }
            }
        }
        // Windows are noted before grants: a range that a grant still has in its
        // own note was not given up yet.
        let ids: Vec<WindowId> = self.windows.keys().copied().collect();
        for id in ids {
            let w = self.windows.get_mut(&id).expect("just listed");
            let heap = &mut w.heap;
            w.held.retain(|&(_, off, bytes)| heap.take_at(off, bytes));
        }
        Ok(())
    }
}

impl Window {
    /// A window with nobody in it.
    pub(super) fn new(client: u32, bytes: u64, doorbell: bool, death_seen: bool) -> Self {
        Window {
            client,
            heap: Heap::new(HEAP_OFF as u64, bytes),
            held: vec![],
            doorbell,
            death_seen,
            lines: [None; SESSIONS],
            beats: [(0, 0); SESSIONS],
        }
    }
}
