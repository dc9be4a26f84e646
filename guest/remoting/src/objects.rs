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
    /// The turn of [`Objects::turn`] in which it was made.
    turn: AtomicU32,
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
    turn: AtomicU32,
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
    /// Its name, also if another thread of the program forgets it while it is made.
    name: Name,
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
        let (spare, turn) = (AtomicU32::new(0), AtomicU32::new(0));
        Objects { places: OnceLock::new(), free, spare, turn }
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
        place.turn.store(self.turn.load(Ordering::Relaxed), Ordering::Relaxed);
        place.kept.iter().for_each(|k| k.store(0, Ordering::Relaxed));
        place.kind.store(kind.into(), Ordering::Release);
        let object = Object { place, index };
        Ok(Fresh { of: self, object: Some(object), name: object.name() })
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
        if !self.empty(object.index) {
            return false;
        }
        // Only now: a thread that adds one looks afterwards whether this one is still there. Most have
        // none: all places are looked at only for those that do.
        if object.place.children.load(Ordering::SeqCst) > 0 {
            let used = self.free().fresh;
            for (place, index) in self.places()[..used as usize].iter().zip(0..) {
                if place.parent.load(Ordering::Relaxed) == object.index + 1
                    && place.kind.load(Ordering::Relaxed) != 0
                {
                    self.forget(Object { place, index });
                }
            }
        }
        self.free().list.push_back(object.index);
        true
    }

    /// An object came to be. If it goes with another one of kind `kind`, and that is gone meanwhile, it
    /// is gone as well: the host has freed both. Its name, in any case.
    pub fn keep_within(&self, fresh: Fresh<'_>, owner: Option<Name>, kind: Kind) -> Name {
        let name = fresh.name();
        let object = fresh.keep();
        let Some(owner) = owner else { return name };
        if let Ok(owner) = self.named(owner, kind) {
            object.place.parent.store(owner.index + 1, Ordering::Relaxed);
            owner.place.children.fetch_add(1, Ordering::SeqCst);
        }
        if self.named(owner, kind).is_err() {
            self.forget(object);
        }
        name
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

    /// Ends a turn, and gives its number: what is made from now on is of another one.
    pub fn turn(&self) -> u32 {
        self.turn.fetch_add(1, Ordering::SeqCst)
    }

    /// Forgets the objects of a kind of a connection that were made in this turn or before. The host
    /// has forgotten them with the last object of another kind, whose end was asked for after the turn.
    /// Those that other threads make meanwhile are not among them: to make one, an object of the
    /// other kind is needed that came after the last one, and so after the turn.
    pub fn forget_made_by(&self, turn: u32, kind: Kind, link: u32) {
        let before = |o: &Object<'_>| {
            let made = o.place.turn.load(Ordering::Relaxed);
            turn.wrapping_sub(made) < u32::MAX / 2 // turns go round
        };
        self.of_link(link).filter(|o| o.is(kind) && before(o)).for_each(|o| {
            self.forget(o);
        });
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
        if place.kind.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        // Who has made it free has it alone until it is in a list: no exchange is needed.
        if let Some(parent) = place.parent.load(Ordering::Relaxed).checked_sub(1) {
            place.parent.store(0, Ordering::Relaxed);
            let children = &self.places()[parent as usize].children;
            // Its parent's place may have another object by now, which has not counted it.
            let _ =
                children.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| n.checked_sub(1));
        }
        place.used.store(place.used.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }

    /// Takes back a place that no program has seen.
    #[inline]
    fn take_back(&self, object: Object<'_>, name: Name) {
        let index = object.index;
        // Another thread may have forgotten it, and a third one have made its own there.
        if object.name() != name || !self.empty(index) {
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
    /// What it is called.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The object, before it is sure that it comes to be.
    pub fn object(&self) -> Object<'a> {
        self.object.expect("neither kept nor dropped")
    }

    /// It came to be.
    pub fn keep(mut self) -> Object<'a> {
        self.object.take().expect("kept once")
    }

    /// The same, for what programs hold by their names.
    pub fn keep_named(self) -> Name {
        let name = self.name;
        self.keep();
        name
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.of.take_back(object, self.name);
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
    fn what_is_made_after_a_turn_is_not_forgotten_with_what_was_made_before() {
        let all = Objects::new();
        let before = all.make(B, 1, None).unwrap().keep();
        let others = all.make(B, 2, None).unwrap().keep();
        // The last one is closed on the host; before this process knows it, other threads go on.
        let turn = all.turn();
        let (session, later) =
            (all.make(A, 1, None).unwrap().keep(), all.make(B, 1, None).unwrap());
        let (later, being_made) = (later.keep(), all.make(B, 1, None).unwrap());
        all.forget_made_by(turn, B, 1);
        assert!(all.find(before.pointer(), B).is_err());
        for (object, kind) in [(others, B), (session, A), (later, B), (being_made.object(), B)] {
            assert!(all.find(object.pointer(), kind).is_ok(), "{object:?}");
        }
        all.turn.store(3, Ordering::Relaxed);
        let long_ago = all.make(B, 1, None).unwrap().keep();
        all.turn.store(u32::MAX - 2, Ordering::Relaxed);
        let turn = (0..5).map(|_| all.turn()).last().unwrap();
        assert_eq!(turn, 1, "it goes round");
        all.forget_made_by(turn, B, 1);
        assert!(all.find(long_ago.pointer(), B).is_ok(), "of a turn that is ahead");
    }

    #[test]
    fn what_goes_with_an_object_goes_also_while_it_is_being_made() {
        let all = Objects::new();
        let session = all.make(A, 1, None).unwrap().keep();
        let name = session.name();
        let within = all.keep_within(all.make(B, 1, None).unwrap(), Some(name), A);
        let alone = all.keep_within(all.make(B, 1, None).unwrap(), None, A);
        let being_made = all.make(B, 1, None).unwrap();
        assert!(all.forget(session));
        assert!(all.named(within, B).is_err() && all.named(alone, B).is_ok());
        let late = being_made.name();
        assert_eq!(all.keep_within(being_made, Some(name), A), late);
        assert!(all.named(late, B).is_err(), "its session is closed");
        let again = all.make(A, 1, None).unwrap().keep();
        assert_eq!(again.place.children.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_place_that_was_forgotten_while_it_was_made_is_not_given_back_twice() {
        let all = Objects::new();
        let fresh = all.make(A, 1, None).unwrap();
        let (name, place) = (fresh.name(), fresh.object());
        all.forget_all(1);
        while all.make(B, 1, None).unwrap().keep().pointer() != place.pointer() {
            all.forget_all(1);
        }
        assert_eq!(fresh.name(), name, "and is not the name of what is there now");
        drop(fresh);
        assert!(all.find(place.pointer(), B).is_ok(), "another thread's");
    }

    #[test]
    fn the_last_reference_is_told() {
        let all = Objects::new();
        let a = all.make(A, 1, None).unwrap().keep();
        a.retain();
        assert!(!a.release() && a.release());
    }
}
