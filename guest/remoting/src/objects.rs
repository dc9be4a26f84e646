//! What the pointers stand for that a program got from an API.

use crate::failure::Failure;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use vfun_remoting::Name;
use vfun_remoting::limits::OBJECTS_MAX;
use zerocopy::{FromZeros, KnownLayout};

/// A kind of object: a number from the API's description, from 1.
pub type Kind = u16;

/// How many numbers of its own an object keeps.
pub const KEPT: usize = 3;

const PLACE_BYTES: usize = 64;

/// Where an object is. Its address is what the program gets. The first word is free for a
/// loader that finds its dispatch table there.
#[derive(FromZeros, KnownLayout)]
#[repr(C, align(64))]
struct Place {
    dispatch: AtomicUsize,
    /// 0: free.
    kind: AtomicU32,
    /// How many objects this place had before.
    used: AtomicU32,
    /// Which connection knows it.
    link: AtomicU32,
    references: AtomicU32,
    /// The place that it belongs to, counted from 1; 0: none.
    parent: AtomicU32,
    /// How many objects belong to it.
    children: AtomicU32,
    kept: [AtomicU64; KEPT],
}

const _: () = assert!(size_of::<Place>() == PLACE_BYTES);

/// The objects of one API in this process. A pointer of the program's is never followed: its
/// distance from the first place says which object it is. So a stale or invented pointer gives
/// an error and nothing worse.
#[derive(Default)]
pub struct Objects {
    /// All places. Zeros of the allocator's: memory is used as places are.
    places: OnceLock<Box<[Place]>>,
    free: Mutex<Free>,
    /// A place that no program has seen, in no list, counted from 1; 0: none. Calls that only find
    /// an object propose a place and give it back, again and again.
    spare: AtomicU32,
}

/// So many places rest after their objects are gone, before the first of them is used again: a
/// stale pointer is noticed meanwhile. They are 16 KiB, and stay in a processor's cache.
const RESTING: usize = 256;

#[derive(Default)]
struct Free {
    /// Given back, the longest ago first.
    list: VecDeque<u32>,
    /// Places from here on were never used.
    fresh: u32,
}

/// An object that lives, as far as this process knows.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    place: &'a Place,
    index: u32,
}

/// A place for an object that is being made: given back unless it is kept.
pub struct Fresh<'a> {
    of: &'a Objects,
    object: Option<Object<'a>>,
}

impl Free {
    fn take(&mut self) -> Option<u32> {
        if self.list.len() <= RESTING && (self.fresh as usize) < OBJECTS_MAX {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.list.pop_front()
    }
}

impl Objects {
    pub const fn new() -> Objects {
        let free = Mutex::new(Free { list: VecDeque::new(), fresh: 0 });
        Objects { places: OnceLock::new(), free, spare: AtomicU32::new(0) }
    }

    fn places(&self) -> &[Place] {
        self.places.get_or_init(|| {
            <[Place]>::new_box_zeroed_with_elems(OBJECTS_MAX).expect("4 MiB of address space")
        })
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the list of free places.
    pub(crate) fn hold(&'static self) -> Box<dyn std::any::Any> {
        Box::new(self.free())
    }

    /// A place for a new object of this kind, known to connection `link`.
    #[inline]
    pub fn make(
        &self,
        kind: Kind,
        link: u32,
        parent: Option<Object<'_>>,
    ) -> Result<Fresh<'_>, Failure> {
        debug_assert!(kind != 0, "0 marks a free place");
        let index = match self.spare.swap(0, Ordering::Acquire) {
            0 => self.free().take().ok_or(Failure::Limit)?,
            spare => spare - 1,
        };
        let place = &self.places()[index as usize];
        place.link.store(link, Ordering::Relaxed);
        place.references.store(1, Ordering::Relaxed);
        place.children.store(0, Ordering::Relaxed);
        place.parent.store(parent.map_or(0, |p| p.index + 1), Ordering::Relaxed);
        if let Some(parent) = parent {
            parent.place.children.fetch_add(1, Ordering::Relaxed);
        }
        place.kept.iter().for_each(|k| k.store(0, Ordering::Relaxed));
        place.kind.store(kind.into(), Ordering::Release);
        Ok(Fresh { of: self, object: Some(Object { place, index }) })
    }

    /// The object that a pointer of the program's stands for.
    #[inline]
    pub fn find(&self, pointer: usize, kind: Kind) -> Result<Object<'_>, Failure> {
        let places = self.places();
        let distance = pointer.wrapping_sub(places.as_ptr().addr());
        let index = distance / PLACE_BYTES;
        match places.get(index) {
            Some(place)
                if distance.is_multiple_of(PLACE_BYTES)
                    && place.kind.load(Ordering::Acquire) == kind.into() =>
            {
                Ok(Object { place, index: index as u32 })
            }
            _ => Err(Failure::Object),
        }
    }

    /// The object of a name that the host answered.
    pub fn named(&self, name: Name, kind: Kind) -> Result<Object<'_>, Failure> {
        let (index, generation) = name.place().ok_or(Failure::Object)?;
        let place = &self.places()[index];
        let object = Object { place, index: index as u32 };
        let same =
            place.kind.load(Ordering::Acquire) == kind.into() && object.generation() == generation;
        if same { Ok(object) } else { Err(Failure::Object) }
    }

    /// The object of an identifier ([`Object::id`]).
    pub fn of_id(&self, id: u32, kind: Kind) -> Result<Object<'_>, Failure> {
        let index = (id & 0xFFFF) as usize;
        let place = &self.places()[index];
        let object = Object { place, index: index as u32 };
        let same = place.kind.load(Ordering::Acquire) == kind.into() && object.id() == id;
        if same { Ok(object) } else { Err(Failure::Object) }
    }

    /// The object of this kind that one belongs to, however far above it is.
    pub fn ancestor<'a>(&'a self, of: Object<'_>, kind: Kind) -> Option<Object<'a>> {
        let mut parent = of.place.parent.load(Ordering::Relaxed);
        while let Some(index) = parent.checked_sub(1) {
            let place = self.places().get(index as usize)?;
            if place.kind.load(Ordering::Acquire) == kind.into() {
                return Some(Object { place, index });
            }
            parent = place.parent.load(Ordering::Relaxed);
        }
        None
    }

    /// The object that the host answered with: the one that was proposed, or an earlier one.
    #[inline]
    pub fn found<'a>(
        &'a self,
        proposed: Fresh<'a>,
        name: Name,
        kind: Kind,
    ) -> Result<Object<'a>, Failure> {
        if proposed.name() == name { Ok(proposed.keep()) } else { self.named(name, kind) }
    }

    /// Forgets an object, and all that belong to it: every pointer to them is stale from now on.
    /// Whether it was there: of several threads that forget it, one did.
    pub fn forget(&self, object: Object<'_>) -> bool {
        // Most have no children: all places are looked at only for those that do.
        if object.place.children.load(Ordering::Acquire) > 0 {
            let used = self.free().fresh;
            for (place, index) in self.places()[..used as usize].iter().zip(0..) {
                if place.parent.load(Ordering::Relaxed) == object.index + 1
                    && place.kind.load(Ordering::Relaxed) != 0
                {
                    self.forget(Object { place, index });
                }
            }
        }
        let was_there = self.empty(object.index);
        if was_there {
            self.free().list.push_back(object.index);
        }
        was_there
    }

    /// The name that a number of the program's is, if it stands for an object of this connection;
    /// otherwise that of no object.
    #[inline]
    pub fn known(&self, number: u64, kind: Kind, link: u32) -> Name {
        let name = Name::from_wire(number);
        match self.named(name, kind) {
            Ok(object) if object.link() == link => name,
            _ => Name::NONE,
        }
    }

    /// Forgets an object by its name, if it is there.
    pub fn forget_name(&self, name: Name, kind: Kind) {
        if let Ok(object) = self.named(name, kind) {
            self.forget(object);
        }
    }

    /// Forgets the objects of kind `with` of a connection that has none of `kind` any more.
    pub fn forget_with_last(&self, kind: Kind, with: Kind, link: u32) {
        if self.of_link(link).all(|object| !object.is(kind)) {
            self.of_link(link).filter(|object| object.is(with)).for_each(|o| {
                self.forget(o);
            });
        }
    }

    /// Forgets all objects of a connection.
    pub fn forget_all(&self, link: u32) {
        self.of_link(link).for_each(|object| {
            self.forget(object);
        });
    }

    fn of_link(&self, link: u32) -> impl Iterator<Item = Object<'_>> {
        let used = self.free().fresh as usize;
        let all = self.places()[..used].iter().zip(0..);
        let all = all.map(|(place, index)| Object { place, index });
        all.filter(move |o| o.place.kind.load(Ordering::Acquire) != 0 && o.link() == link)
    }

    /// Makes a place free, and puts it into no list; whether it was not free.
    #[inline]
    fn empty(&self, index: u32) -> bool {
        let place = &self.places()[index as usize];
        if place.kind.swap(0, Ordering::AcqRel) == 0 {
            return false;
        }
        // Who has made it free has it alone until it is in a list: no exchange is needed.
        if let Some(parent) = place.parent.load(Ordering::Relaxed).checked_sub(1) {
            place.parent.store(0, Ordering::Relaxed);
            self.places()[parent as usize].children.fetch_sub(1, Ordering::Relaxed);
        }
        place.used.store(place.used.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Takes back a place that no program has seen.
    #[inline]
    fn take_back(&self, index: u32) {
        if !self.empty(index) {
            return;
        }
        let none = self.spare.compare_exchange(0, index + 1, Ordering::Release, Ordering::Relaxed);
        if none.is_err() {
            self.free().list.push_back(index);
        }
    }
}

impl<'a> Object<'a> {
    /// What the program gets.
    #[inline]
    pub fn pointer(self) -> usize {
        std::ptr::from_ref(self.place).expose_provenance()
    }

    #[inline]
    fn generation(self) -> u32 {
        // Never 0: name 0 is no object.
        self.place.used.load(Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// What the host knows it by.
    #[inline]
    pub fn name(self) -> Name {
        Name::new(self.index as usize, self.generation())
    }

    /// A number that stands for it in this process; never 0.
    pub fn id(self) -> u32 {
        let generation = self.generation() & 0xFFFF;
        (generation.max(1) << 16) | self.index
    }

    fn is(self, kind: Kind) -> bool {
        self.place.kind.load(Ordering::Acquire) == kind.into()
    }

    /// Which connection knows it.
    #[inline]
    pub fn link(self) -> u32 {
        self.place.link.load(Ordering::Relaxed)
    }

    /// A number that this side keeps of it, such as a size.
    #[inline]
    pub fn kept(self, which: usize) -> u64 {
        self.place.kept[which].load(Ordering::Acquire)
    }

    #[inline]
    pub fn keep(self, which: usize, value: u64) {
        self.place.kept[which].store(value, Ordering::Release);
    }

    /// Where a loader keeps its dispatch table.
    pub fn set_dispatch(self, table: usize) {
        self.place.dispatch.store(table, Ordering::Release);
    }

    /// One reference more.
    pub fn retain(self) {
        self.place.references.fetch_add(1, Ordering::Relaxed);
    }

    /// One reference less; whether it was the last.
    pub fn release(self) -> bool {
        self.place.references.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl<'a> Fresh<'a> {
    /// What it is called while it is being made.
    pub fn name(&self) -> Name {
        self.object().name()
    }

    /// The object, before it is sure that it comes to be.
    pub fn object(&self) -> Object<'a> {
        self.object.expect("neither kept nor dropped")
    }

    /// It came to be.
    pub fn keep(mut self) -> Object<'a> {
        self.object.take().expect("kept once")
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.of.take_back(object.index);
        }
    }
}

impl std::fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "object {} of generation {}", self.index, self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Kind = 1;
    const B: Kind = 2;

    #[test]
    fn a_pointer_stands_for_its_object_until_that_is_forgotten() {
        let all = Objects::new();
        let a = all.make(A, 7, None).unwrap().keep();
        let b = all.make(B, 7, Some(a)).unwrap().keep();
        let (pointer, name, id) = (b.pointer(), b.name(), b.id());
        b.keep(1, 99);
        let found = all.find(pointer, B).unwrap();
        assert_eq!((found.kept(1), found.name(), found.link()), (99, name, 7));
        assert!(all.find(pointer, A).is_err(), "of another kind");
        assert!(all.find(pointer + 8, B).is_err() && all.find(0, B).is_err());
        assert!(all.find(usize::MAX, B).is_err() && all.find(pointer - 64 * 5, B).is_err());
        assert_eq!(all.of_id(id, B).map(Object::pointer), Ok(pointer));
        all.forget(a);
        assert!(all.find(pointer, B).is_err(), "what belonged to it is gone as well");
        let again = all.make(B, 8, None).unwrap().keep();
        assert!(all.named(name, B).is_err() && all.of_id(id, B).is_err(), "{again:?}");
    }

    #[test]
    fn what_is_not_kept_is_given_back() {
        let all = Objects::new();
        let first = all.make(A, 1, None).unwrap();
        let pointer = first.object().pointer();
        drop(first);
        assert!(all.find(pointer, A).is_err());
    }

    #[test]
    fn a_stale_pointer_is_not_the_next_object_s() {
        let all = Objects::new();
        let once = || {
            let object = all.make(A, 1, None).unwrap().keep();
            assert!(all.forget(object) && !all.forget(object), "once");
            object.pointer()
        };
        let pointer = once();
        assert!((0..RESTING).all(|_| once() != pointer));
        assert_eq!(once(), pointer, "memory is bounded");
    }

    #[test]
    fn there_is_a_limit() {
        let all = Objects::new();
        for _ in 0..OBJECTS_MAX {
            all.make(A, 1, None).unwrap().keep();
        }
        assert!(matches!(all.make(A, 1, None), Err(Failure::Limit)));
        all.forget(all.of_id(1 << 16, A).unwrap());
        assert!(all.make(A, 1, None).is_ok(), "all places can be used");
    }

    #[test]
    fn the_last_reference_is_told() {
        let all = Objects::new();
        let a = all.make(A, 1, None).unwrap().keep();
        a.retain();
        assert!(!a.release() && a.release());
    }
}
