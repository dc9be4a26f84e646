//! A table of things named by handles.

use std::collections::{BTreeMap, BTreeSet};
use vfun_wire::Handle;

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
    /// The handle never named anything.
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

    /// How many entries are in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
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
