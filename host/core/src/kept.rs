//! What must be known of the state to go on where another manager was killed:
//! notes in plain types, one a thing, and the way back from them.
//!
//! Times are on the machine's monotonic clock, so they mean the same to both
//! managers. What the rim sees anew by itself (heartbeats, counters) is not noted.

use super::grants::Table;
use super::notes::{
    BreakerNote, CoreNote, GrantNote, Place, ServiceNote, SessionNote, WindowNote, grant_note, text,
};
use super::{Catalog, Core, ServiceId, WindowId};
use std::collections::{BTreeMap, BTreeSet};
use vfun_keeper::Change;

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

/// Places of a table: more than there can be sessions or grants.
const PLACES_MAX: u32 = 1 << 20;

/// Numbers of services: more than a host starts in a thousand years, so that
/// there is always a next one.
const SERVICES_EVER: ServiceId = 1 << 31;

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
            let note = self.windows.get(&id).map(|w| text(&WindowNote::of(w)));
            put(format!("{PREFIX}/window/{id}"), note);
        }
        for index in self.sessions.take_changed() {
            let (generation, session) = self.sessions.place(index);
            let thing = session.map(SessionNote::of);
            put(format!("{PREFIX}/session/{index}"), Some(text(&Place { generation, thing })));
        }
        for index in self.grants.take_changed() {
            let (generation, grant) = self.grants.place(index);
            let thing = grant.map(grant_note);
            put(format!("{PREFIX}/grant/{index}"), Some(text(&Place { generation, thing })));
        }
        for id in self.services.take_changed() {
            let note = self.services.get(&id).map(|s| text(&ServiceNote::of(s, &self.catalog)));
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
                    let window = n.read(now).map_err(|e| bad(&e))?;
                    core.windows.insert(number()?, window);
                }
                "session" => {
                    let n: Place<SessionNote> = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    sessions.insert(place()?, n.read(SessionNote::read).map_err(|e| bad(&e))?);
                }
                "grant" => {
                    let n: Place<GrantNote> = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    grants.insert(place()?, n.read(GrantNote::read).map_err(|e| bad(&e))?);
                }
                "service" => {
                    let n: ServiceNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let service = n.read(now, &core.catalog).map_err(|e| bad(&e))?;
                    core.services.insert(number()?, service);
                }
                "breaker" => {
                    let n: BreakerNote = serde_json::from_str(note).map_err(|e| bad(&e))?;
                    let (key, breaker) = n.read(now).map_err(|e| bad(&e))?;
                    core.breakers.insert(key, breaker);
                }
                _ => return Err(bad(&"not a note of this version")),
            }
            core.noted.insert(name.to_owned(), note.to_owned());
        }
        core.sessions = Table::of_places(core.generation, sessions);
        core.grants = Table::of_places(core.generation, grants);
        core.knit(now)?;
        core.windows.take_changed();
        core.services.take_changed();
        core.breakers.take_changed();
        Ok(core)
    }

    /// Rebuilds what follows from the notes: who has which line and which
    /// range of which window, and which apps have which id.
    fn knit(&mut self, now: u64) -> Result<(), String> {
        // Its own numbers are noted last: what they were counted up for may be
        // noted and they not. None is ever used twice.
        let highest = self.services.keys().max().map_or(0, |id| id.saturating_add(1));
        self.next_service = self.next_service.max(highest);
        if self.next_service > SERVICES_EVER {
            return Err(format!("{} services were never started", self.next_service));
        }
        for (handle, s) in self.sessions.iter() {
            self.next_app = self.next_app.max(s.app_id.saturating_add(1));
            let Some(w) = self.windows.get_mut(&s.window) else { continue };
            if w.lines[usize::from(s.line)].replace(handle).is_some() {
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
        let ids: Vec<WindowId> = self.windows.keys().copied().collect();
        for id in ids {
            self.windows.get_mut(&id).expect("just listed").take_held();
        }
        Ok(())
    }
}
