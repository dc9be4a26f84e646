//! All grants, with an index of what they are looked for by: no event looks at all of
//! them to find a few.
//!
//! A grant that may have been changed is marked as stale and found by looking at it, until
//! [`Grants::settle`] has put it into the index anew. So what is found is what is there now.

use super::event::{ReplyTo, ServiceId};
use super::grant::{Grant, Stage};
use super::table::{NoSuch, Table};
use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::Handle;

/// By what grants are looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Those of an app.
    Session(Handle),
    /// Those of a client.
    Client(u32),
    /// The one that a request was answered with.
    Asked((u32, usize, u32)),
    /// Those whose channel a service has, may have, or is to have.
    Service(ServiceId),
    /// Those for which time matters, see [`Grant::is_timed`].
    Timed,
    /// Those of a function that are on hardware.
    OnHardware(String),
    /// Those of a function that may move.
    Movable(String),
    /// Those that may have a VF of a device. Last: so all of these are one range.
    Device(String),
}

impl Key {
    /// That of the grant which answered this request.
    pub fn asked(by: ReplyTo) -> Key {
        Key::Asked(by.into())
    }

    fn is_of(&self, g: &Grant) -> bool {
        match self {
            Key::Session(session) => g.holder.session == *session,
            Key::Client(client) => g.holder.client_id == *client,
            Key::Asked(by) => <(u32, usize, u32)>::from(g.replay.asked) == *by,
            Key::Service(service) => g.services().any(|s| s == *service),
            Key::Timed => g.is_timed(),
            Key::OnHardware(f) => g.subject.location.is_hardware() && g.subject.function == *f,
            Key::Movable(f) => g.movable() && g.subject.function == *f,
            Key::Device(device) => g.lease.as_ref().is_some_and(|l| l.device == *device),
        }
    }
}

impl Grant {
    /// The services that have its channel, may have it, or are to have it.
    pub(super) fn services(&self) -> impl Iterator<Item = ServiceId> {
        let lease = self.lease.as_ref();
        let beside = [lease.and_then(|l| l.also), lease.and_then(|l| Some(l.moving?.service))];
        self.service().into_iter().chain(beside.into_iter().flatten())
    }

    /// Whether something is to happen to it within some time.
    fn is_timed(&self) -> bool {
        match self.stage {
            Stage::Activating { .. } | Stage::Recovering { .. } | Stage::Closing { .. } => true,
            _ => self.keeps_vf(),
        }
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = vec![
            Key::Session(self.holder.session),
            Key::Client(self.holder.client_id),
            Key::asked(self.replay.asked),
        ];
        keys.extend(self.services().map(Key::Service));
        if self.is_timed() {
            keys.push(Key::Timed);
        }
        let function = &self.subject.function;
        if self.subject.location.is_hardware() {
            keys.push(Key::OnHardware(function.clone()));
        }
        if let Some(l) = &self.lease {
            keys.push(Key::Device(l.device.clone()));
            if l.movable {
                keys.push(Key::Movable(function.clone()));
            }
        }
        keys
    }
}

/// All grants.
#[derive(Debug)]
pub(super) struct Grants {
    table: Table<Grant>,
    /// Keys and places in the table.
    index: BTreeSet<(Key, u32)>,
    /// Of each place what is in the index.
    keys: BTreeMap<u32, Vec<Key>>,
    /// Places of which that may not be right any more.
    stale: BTreeSet<u32>,
}

impl Grants {
    /// As a table says. All of them are stale: nobody looked at them yet.
    pub fn new(table: Table<Grant>) -> Self {
        let stale = table.iter().map(|(handle, _)| handle.index()).collect();
        Grants { table, index: BTreeSet::new(), keys: BTreeMap::new(), stale }
    }

    /// The grants that a key names, by place.
    pub fn of(&self, key: &Key) -> Vec<Handle> {
        let mut places: Vec<u32> = self.candidates(key).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|i| self.if_of(key, i)).map(|(handle, _)| handle).collect()
    }

    /// Whether a key names a grant of which this is so.
    pub fn any(&self, key: &Key, so: impl Fn(&Grant) -> bool) -> bool {
        self.candidates(key).filter_map(|i| self.if_of(key, i)).any(|(_, g)| so(g))
    }

    /// All that have a lease, by place.
    pub fn with_lease(&self) -> Vec<Handle> {
        let indexed = self.index.range((Key::Device(String::new()), 0)..).map(|(_, i)| *i);
        let places: BTreeSet<u32> = indexed.chain(self.stale.iter().copied()).collect();
        let has = |i: &u32| {
            Some((*i, self.table.place(*i)))
                .filter(|(_, (_, g))| g.is_some_and(|g| g.lease.is_some()))
        };
        let handle = |(i, (generation, _))| Handle::new(i, generation);
        places.iter().filter_map(has).map(handle).collect()
    }

    fn candidates(&self, key: &Key) -> impl Iterator<Item = u32> {
        let range = (key.clone(), 0)..=(key.clone(), u32::MAX);
        self.index.range(range).map(|(_, i)| *i).chain(self.stale.iter().copied())
    }

    fn if_of(&self, key: &Key, place: u32) -> Option<(Handle, &Grant)> {
        let (generation, g) = self.table.place(place);
        g.filter(|g| key.is_of(g)).map(|g| (Handle::new(place, generation), g))
    }

    /// Whether some may have been changed since the index was last put right.
    pub fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Puts the index right. The devices whose competitors may have been changed.
    pub fn settle(&mut self) -> BTreeSet<String> {
        let mut devices = BTreeSet::new();
        for place in std::mem::take(&mut self.stale) {
            let keys = self.table.place(place).1.map_or(vec![], Grant::keys);
            let before = match keys.is_empty() {
                true => self.keys.remove(&place),
                false => self.keys.insert(place, keys.clone()),
            };
            for key in before.into_iter().flatten() {
                if let Key::Device(device) = &key {
                    devices.insert(device.clone());
                }
                self.index.remove(&(key, place));
            }
            for key in keys {
                if let Key::Device(device) = &key {
                    devices.insert(device.clone());
                }
                self.index.insert((key, place));
            }
        }
        devices
    }

    /// What is wrong with the index, if anything is.
    pub fn check(&self) -> Result<(), String> {
        for (handle, g) in self.table.iter() {
            let place = handle.index();
            let known = |key: &Key| self.index.contains(&(key.clone(), place));
            if !self.stale.contains(&place) && !g.keys().iter().all(known) {
                return Err(format!("grant {handle} is not found by what it is"));
            }
        }
        let all: usize = self.keys.values().map(|k| k.iter().collect::<BTreeSet<_>>().len()).sum();
        match all == self.index.len() {
            true => Ok(()),
            false => Err(format!("{} keys are in the index, not {all}", self.index.len())),
        }
    }

    pub fn insert(&mut self, g: Grant) -> Handle {
        let handle = self.table.insert(g);
        self.stale.insert(handle.index());
        handle
    }

    pub fn get(&self, h: Handle) -> Result<&Grant, NoSuch> {
        self.table.get(h)
    }

    pub fn get_mut(&mut self, h: Handle) -> Option<&mut Grant> {
        let g = self.table.get_mut(h)?;
        self.stale.insert(h.index());
        Some(g)
    }

    pub fn remove(&mut self, h: Handle) -> Option<Grant> {
        let g = self.table.remove(h)?;
        self.stale.insert(h.index());
        Some(g)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle, &Grant)> {
        self.table.iter()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn highest(&self) -> u32 {
        self.table.highest()
    }

    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        self.table.take_changed()
    }

    pub fn place(&self, index: u32) -> (u32, Option<&Grant>) {
        self.table.place(index)
    }
}
