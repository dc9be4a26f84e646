//! What must be known of the state to go on where another manager was killed:
//! notes, one a thing, and the way back from them. Grants and sessions are noted as they
//! are. A manager reads the notes of the version before it, too: an upgrade (SIGHUP) goes
//! on with them, so a field that is new has a default, and none changes its meaning.
//!
//! Times are on the machine's monotonic clock, so they mean the same to both
//! managers. What the rim sees anew by itself (heartbeats, counters) is not noted.

use super::buffer::{Buffer, Buffers};
use super::grants::Grants;
use super::notes::{BreakerNote, CoreNote, ServiceNote, Slot, WindowNote, text};
use super::table::Table;
use super::{Catalog, Core, Grant, ServiceId, Session, Totals, WindowId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use vfun_keeper::Change;
use vfun_wire::message::Location;

/// A map that remembers which of its entries may have changed.
#[derive(Debug)]
pub(crate) struct Marked<K, V> {
    map: BTreeMap<K, V>,
    /// Since it was last noted.
    changed: BTreeSet<K>,
    /// Since the core last looked at what follows from it.
    touched: BTreeSet<K>,
}

impl<K: Ord, V> Default for Marked<K, V> {
    fn default() -> Self {
        Marked { map: BTreeMap::new(), changed: BTreeSet::new(), touched: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Marked<K, V> {
    fn mark(&mut self, k: &K) {
        self.changed.insert(k.clone());
        self.touched.insert(k.clone());
    }
    pub fn insert(&mut self, k: K, v: V) {
        self.mark(&k);
        self.map.insert(k, v);
    }
    pub fn remove(&mut self, k: &K) -> Option<V> {
        self.mark(k);
        self.map.remove(k)
    }
    pub fn get_mut(&mut self, k: &K) -> Option<&mut V> {
        self.mark(k);
        self.map.get_mut(k)
    }
    pub fn take_touched(&mut self) -> BTreeSet<K> {
        std::mem::take(&mut self.touched)
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
            let (generation, thing) = self.sessions.place(index);
            put(format!("{PREFIX}/session/{index}"), Some(text(&Slot { generation, thing })));
        }
        for index in self.grants.take_changed() {
            let (generation, thing) = self.grants.place(index);
            put(format!("{PREFIX}/grant/{index}"), Some(text(&Slot { generation, thing })));
        }
        for index in self.buffers.take_changed() {
            let (generation, thing) = self.buffers.place(index);
            put(format!("{PREFIX}/buffer/{index}"), Some(text(&Slot { generation, thing })));
        }
        for id in self.services.take_changed() {
            let note = self.services.get(&id).map(|s| text(&ServiceNote::of(s, &self.catalog)));
            put(format!("{PREFIX}/service/{id}"), note);
        }
        for key in self.breakers.take_changed() {
            let (owner, function, location) = key.clone();
            let name = format!("{PREFIX}/breaker/{}/{location}/{function}", u32::from(owner));
            let breaker = self.breakers.get(&key).cloned();
            let location = Location::from_wire(location);
            let note = breaker.zip(location).map(|(breaker, location)| {
                text(&BreakerNote { owner, function, location, breaker })
            });
            put(name, note);
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
        let mut tables = Tables::default();
        for (name, note) in notes {
            core.read_note(now, name, note, &mut tables)
                .map_err(|e| format!("the note {name} ({note}): {e}"))?;
            core.noted.insert(name.to_owned(), note.to_owned());
        }
        core.sessions = Table::of_places(core.generation, tables.sessions);
        core.grants = Grants::new(Table::of_places(core.generation, tables.grants));
        core.buffers = Buffers::new(Table::of_places(core.generation, tables.buffers));
        core.knit(now)?;
        core.resumed = core.totals() == Totals::default();
        core.windows.take_changed();
        core.services.take_changed();
        core.breakers.take_changed();
        Ok(core)
    }

    /// Takes one note in.
    fn read_note(
        &mut self,
        now: u64,
        name: &str,
        note: &str,
        tables: &mut Tables,
    ) -> Result<(), String> {
        let mut parts = name.split('/').skip(1);
        let (what, id) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let number = || id.parse::<u32>().map_err(wrong);
        match what {
            "self" => {
                let n: CoreNote = parse(note)?;
                (self.next_service, self.next_app) = (n.next_service, n.next_app);
                self.drain.all = n.draining;
                self.drain.clients = n.draining_clients;
                self.drain.functions = n.draining_functions;
            }
            "window" => {
                let window = parse::<WindowNote>(note)?.read(now)?;
                self.windows.insert(number()?, window);
            }
            "session" => {
                let slot = parse::<Slot<Session>>(note)?.read()?;
                tables.sessions.insert(place(number()?)?, slot);
            }
            "grant" => {
                let slot = parse::<Slot<Grant>>(note)?.read()?;
                slot.1.as_ref().map_or(Ok(()), Grant::check)?;
                tables.grants.insert(place(number()?)?, slot);
            }
            "buffer" => {
                let slot = parse::<Slot<Buffer>>(note)?.read()?;
                slot.1.as_ref().map_or(Ok(()), Buffer::check)?;
                tables.buffers.insert(place(number()?)?, slot);
            }
            "service" => {
                let service = parse::<ServiceNote<_>>(note)?.read(now, &self.catalog);
                self.services.insert(number()?, service);
            }
            "breaker" => {
                let (key, breaker) = parse::<BreakerNote>(note)?.read(now);
                self.breakers.insert(key, breaker);
            }
            _ => return Err("not a note of this version".into()),
        }
        Ok(())
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
        let mut vfs = BTreeSet::new();
        for (handle, g) in self.grants.iter() {
            if let Some((device, vf)) = g.lease.as_ref().and_then(|l| Some((&l.device, l.vf?)))
                && !vfs.insert((device, vf))
            {
                return Err(format!("grant {handle} has a VF that another one has"));
            }
            let (Some(place), Some(w)) = (g.stage.place(), self.windows.get_mut(&g.holder.window))
            else {
                continue;
            };
            if !w.take_again(place) {
                return Err(format!("grant {handle} has a range that another one has"));
            }
        }
        self.knit_buffers()?;
        let ids: Vec<WindowId> = self.windows.keys().copied().collect();
        for id in ids {
            if let Some(w) = self.windows.get_mut(&id) {
                w.take_held();
            }
        }
        Ok(())
    }
}

/// What notes tell of tables: places, each with its generation and what is in it.
#[derive(Default)]
struct Tables {
    sessions: BTreeMap<u32, (u32, Option<Session>)>,
    grants: BTreeMap<u32, (u32, Option<Grant>)>,
    buffers: BTreeMap<u32, (u32, Option<Buffer>)>,
}

/// A table has as many places as its highest number says.
fn place(number: u32) -> Result<u32, String> {
    match number < PLACES_MAX {
        true => Ok(number),
        false => Err("a place beyond those there can be".into()),
    }
}

fn parse<'a, T: Deserialize<'a>>(note: &'a str) -> Result<T, String> {
    serde_json::from_str(note).map_err(wrong)
}

fn wrong(e: impl Display) -> String {
    e.to_string()
}
