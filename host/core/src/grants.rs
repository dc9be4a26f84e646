//! Grants: what a negotiation gave an app, and where each stands.

use super::event::{ReplyTo, ServiceId, WindowId};
use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::channel::{ChannelKind, Geometry, side_bytes};
use vfun_wire::message::{Location, WaitMode};
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Status};

/// Where a grant stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum GrantState {
    /// Negotiated; no channel yet.
    Granted,
    /// Waiting for its service and channel.
    Activating,
    /// Serving calls.
    Active,
    /// Its service died and is being started again.
    Recovering,
    /// Its channel broke; it can only be released.
    Broken,
    /// Released; the service has not let go of the channel yet.
    Closing,
    /// Gone.
    Released,
}

impl GrantState {
    /// For people and the history.
    pub const fn text(self) -> &'static str {
        match self {
            GrantState::Granted => "granted",
            GrantState::Activating => "activating",
            GrantState::Active => "active",
            GrantState::Recovering => "recovering",
            GrantState::Broken => "broken",
            GrantState::Closing => "closing",
            GrantState::Released => "released",
        }
    }
}

/// One grant.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Whose.
    pub session: Handle,
    /// Its window.
    pub window: WindowId,
    /// clientID, kept beside the window: it is needed when that is gone.
    pub client_id: u32,
    /// The client's name.
    pub client: String,
    /// AppID.
    pub app_id: u32,
    /// The app's name.
    pub app: String,
    /// The function's name.
    pub function: String,
    /// Where it runs.
    pub location: Location,
    /// What its channel carries.
    pub kind: ChannelKind,
    /// Cells.
    pub depth: u16,
    /// Data space per cell and side.
    pub cell_bytes: u32,
    /// Deadline of each call, ms.
    pub deadline_ms: u32,
    /// Calls a second that its channel takes; 0 for any number.
    pub calls_per_s: u32,
    /// How its service waits.
    pub wait: WaitMode,
    /// Where it stands.
    pub state: GrantState,
    /// Its channel, once laid out.
    pub geometry: Option<Geometry>,
    /// Its service, once activated.
    pub service: Option<ServiceId>,
    /// Who waits for its activation.
    pub waiting: Option<ReplyTo>,
    /// When it was granted.
    pub since_ms: u64,
    /// When it began to close.
    pub closing_ms: u64,
    /// Starts of its service after the first.
    pub restarts: u32,
    /// The request that it answers: one that is read again, because a manager
    /// was killed before it had answered, is answered with the same grant.
    pub asked: ReplyTo,
    /// The same for the request that activated it.
    pub activated: Option<ReplyTo>,
    /// It is taken away from a program that may not know yet: its pages are
    /// given out again a little later only.
    pub hold_back: bool,
    /// The device whose VFs it may hold; empty where none are leased.
    pub device: String,
    /// It may move between software and a VF while it is active.
    pub leased: bool,
    /// The VF that it is on, or is to be on; nobody else is on it meanwhile.
    pub vf: Option<u16>,
    /// Where it is moving to.
    pub moving: Option<super::switch::Moving>,
    /// Another service that has its channel mapped while it ends: its pages are
    /// given out again when both have let go.
    pub also: Option<ServiceId>,
    /// How often it has moved.
    pub switches: u64,
    /// Of a client's own function: which module it was when it was granted.
    /// Another may have its name when it is activated.
    pub of: Option<u64>,
    /// A service that may have had its turn already has died in a hand-over: what the
    /// call that it left half done is answered with, once nobody is on the channel.
    pub left: Option<Status>,
    /// It is broken, and why its app is to be told so, once no service is on its
    /// channel any more.
    pub over: Option<BreakReason>,
}

impl Grant {
    /// Bytes of one side of its channel.
    pub fn side_bytes(&self) -> u64 {
        side_bytes(self.depth, self.cell_bytes).unwrap_or(0)
    }
}

impl Grant {
    /// Its channel, if what its pages say is its own: until it is first opened
    /// they hold what whoever had them before left.
    pub fn told(&self) -> Option<Geometry> {
        self.geometry.filter(|_| self.state != GrantState::Activating)
    }
}

/// A table of things named by handles: an index and a generation.
#[derive(Clone, Debug)]
pub struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    changed: BTreeSet<u32>,
    /// The highest generation of a handle so far.
    highest: u32,
    /// The generation of fresh places, this manager's: a smaller one may have
    /// been given out by a manager before it.
    base: u32,
}

/// Why a handle names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSuch {
    /// It never did.
    Unknown,
    /// It did in an earlier generation.
    Stale,
}

impl<T> Table<T> {
    /// An empty table, whose fresh places are of the generation `base`.
    pub fn new(base: u32) -> Self {
        Table { slots: vec![], free: vec![], changed: BTreeSet::new(), highest: 0, base }
    }

    /// A table as another one was: each place with its generation.
    pub fn of_places(base: u32, places: BTreeMap<u32, (u32, Option<T>)>) -> Self {
        let mut table = Table::new(base);
        for (index, place) in places {
            while table.slots.len() < index as usize {
                // A place that was never noted was never used.
                table.free.push(table.slots.len() as u32);
                table.slots.push((0, None));
            }
            if place.1.is_none() {
                table.free.push(index);
            }
            table.highest = table.highest.max(place.0);
            table.slots.push(place);
        }
        table
    }

    /// The highest generation of a handle that it ever gave out.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// Indices of the places that may have changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// A place: its generation, and what is in it.
    pub fn place(&self, index: u32) -> (u32, Option<&T>) {
        self.slots.get(index as usize).map_or((0, None), |(g, t)| (*g, t.as_ref()))
    }

    /// Puts a thing in.
    pub fn insert(&mut self, thing: T) -> Handle {
        if let Some(i) = self.free.pop() {
            self.changed.insert(i);
            let slot = &mut self.slots[i as usize];
            slot.0 = slot.0.wrapping_add(1).max(1);
            slot.1 = Some(thing);
            self.highest = self.highest.max(slot.0);
            return Handle::new(i, slot.0);
        }
        self.highest = self.highest.max(self.base);
        self.changed.insert(self.slots.len() as u32);
        self.slots.push((self.base, Some(thing)));
        Handle::new(self.slots.len() as u32 - 1, self.base)
    }

    /// The thing a handle names.
    pub fn get(&self, h: Handle) -> Result<&T, NoSuch> {
        let (now, thing) = self.place(h.index());
        match thing {
            Some(t) if now == h.generation() => Ok(t),
            _ if h.generation() == 0 => Err(NoSuch::Unknown),
            _ if h.generation() <= now || h.generation() < self.base => Err(NoSuch::Stale),
            _ => Err(NoSuch::Unknown),
        }
    }

    /// The same, to change.
    pub fn get_mut(&mut self, h: Handle) -> Option<&mut T> {
        // Services name handles too: one of nothing must not be noted.
        match self.slots.get_mut(h.index() as usize) {
            Some((g, Some(t))) if *g == h.generation() => {
                self.changed.insert(h.index());
                Some(t)
            }
            _ => None,
        }
    }

    /// Takes a thing out; its place's generation goes up with the next use.
    pub fn remove(&mut self, h: Handle) -> Option<T> {
        let slot = self.slots.get_mut(h.index() as usize)?;
        if slot.0 != h.generation() {
            return None;
        }
        let thing = slot.1.take()?;
        self.changed.insert(h.index());
        self.free.push(h.index());
        Some(thing)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, (g, t))| t.as_ref().map(|t| (Handle::new(i as u32, *g), t)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_is_stale_a_made_up_one_unknown() {
        let mut t = Table::new(5);
        let a = t.insert('a');
        assert_eq!(t.get(a), Ok(&'a'));
        assert_eq!(t.remove(a), Some('a'));
        assert_eq!(t.get(a), Err(NoSuch::Stale));
        let b = t.insert('b');
        assert_eq!((b.index(), b.generation()), (0, 6));
        assert_eq!(t.get(a), Err(NoSuch::Stale));
        assert_eq!(t.get(Handle::new(0, 9)), Err(NoSuch::Unknown));
        assert_eq!(t.get(Handle::NONE), Err(NoSuch::Unknown));
        // A place that this manager never had: another manager's, or nobody's.
        assert_eq!(t.get(Handle::new(7, 4)), Err(NoSuch::Stale));
        assert_eq!(t.get(Handle::new(7, 5)), Err(NoSuch::Unknown));
        assert_eq!(t.get(Handle::new(0xdead, 0xbeef)), Err(NoSuch::Unknown));
        assert!(t.remove(a).is_none());
        t.take_changed();
        assert!(t.get_mut(a).is_none() && t.get_mut(Handle::new(u32::MAX, 5)).is_none());
        assert!(t.take_changed().is_empty(), "nothing changed that is not there");
        assert_eq!(t.len(), 1);
    }
}
