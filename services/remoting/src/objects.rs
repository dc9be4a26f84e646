//! Which objects a connection has.

use crate::budget::Share;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use vfun_remoting::limits::OBJECTS_MAX;
use vfun_remoting::{Name, Refusal};

/// A kind of object, such as a buffer or a session: a number from the API's description.
pub type Kind = u16;

/// What the host's library calls an object: a pointer or a number. It never leaves the host.
pub type Native = usize;

#[derive(Clone, Copy, Debug)]
struct Object {
    kind: Kind,
    native: Native,
    parent: Name,
    /// References that the guest may give back. An object that the guest only found has none.
    owned: u32,
    generation: u32,
    /// How many objects belong to it.
    children: u32,
}

/// The objects of one connection, by the names that the guest gave them. What the guest says of
/// an object is looked up here and never believed.
#[derive(Debug, Default)]
pub struct Objects {
    places: Vec<Option<Object>>,
    /// Of kinds that the library has found: it may find each of their objects again.
    names: HashMap<(Kind, Native), Name, BuildHasherDefault<Natives>>,
    /// These kinds, one bit each; those from 64 on always count as found.
    findable: u64,
    live: usize,
    /// As they count for the client.
    share: Share,
}

/// Of a kind and what the host's library calls an object. The guest chooses neither, so that it can
/// make no collisions.
#[derive(Debug, Default)]
struct Natives(u64);

impl Natives {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 29;
    }
}

impl Hasher for Natives {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(byte.into()));
    }
    fn write_u16(&mut self, word: u16) {
        self.mix(word.into());
    }
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl Objects {
    fn get(&self, name: Name, kind: Kind) -> Result<&Object, Refusal> {
        let (place, generation) = name.place().ok_or(Refusal::Object)?;
        match self.places.get(place) {
            Some(Some(object)) if object.generation == generation && object.kind == kind => {
                Ok(object)
            }
            _ => Err(Refusal::Object),
        }
    }

    /// What the library calls an object of this kind.
    #[inline]
    pub fn find(&self, name: Name, kind: Kind) -> Result<Native, Refusal> {
        self.get(name, kind).map(|object| object.native)
    }

    /// The same, where no object ([`Name::NONE`]) is allowed: 0 then.
    pub fn find_or_none(&self, name: Name, kind: Kind) -> Result<Native, Refusal> {
        if name.is_none() { Ok(0) } else { self.find(name, kind) }
    }

    /// Whether a name that the guest proposes can be a new object's. Asked before the library
    /// makes the object, so that none is made that cannot be kept.
    pub fn check_free(&self, proposed: Name) -> Result<(), Refusal> {
        Share::check()?;
        let (place, _) = proposed.place().ok_or(Refusal::Object)?;
        match self.places.get(place) {
            Some(Some(_)) => Err(Refusal::Object),
            _ => Ok(()),
        }
    }

    /// Refused if there are as many of a kind as a connection may have.
    pub fn check_most(&self, kind: Kind, most: usize) -> Result<(), Refusal> {
        // Most connections have few objects at all: then nothing is counted.
        if self.len() < most || self.of_kind(kind).count() < most {
            return Ok(());
        }
        Err(Refusal::Limit)
    }

    /// Refused if all programs of the client together have so many of a kind.
    pub fn check_client_most(&self, kind: Kind, most: usize) -> Result<(), Refusal> {
        Share::check_kind(kind, most)
    }

    /// Names of a kind, with what the library calls them.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (Name, Native)> {
        self.places.iter().enumerate().filter_map(move |(place, object)| {
            let object = object.as_ref().filter(|object| object.kind == kind)?;
            Some((Name::new(place, object.generation), object.native))
        })
    }

    /// Forgets the objects of kind `with` when there are none of `kind` any more; whether.
    pub fn remove_with_last(&mut self, kind: Kind, with: Kind) -> bool {
        let was_last = self.of_kind(kind).next().is_none();
        if was_last {
            let all: Vec<_> = self.of_kind(with).map(|(name, _)| name).collect();
            all.into_iter().for_each(|name| self.remove(name));
        }
        was_last
    }

    /// Whether the names that one call proposes for several objects have places of their own.
    pub fn check_apart(&self, proposed: &[Name]) -> Result<(), Refusal> {
        let place = |name: &Name| name.place().map(|(place, _)| place);
        let twice = |(at, name)| proposed[..at].iter().any(|other| place(other) == place(name));
        if proposed.iter().enumerate().any(twice) { Err(Refusal::Object) } else { Ok(()) }
    }

    fn object_mut(&mut self, name: Name) -> Option<&mut Object> {
        let (place, generation) = name.place()?;
        let object = self.places.get_mut(place)?.as_mut()?;
        (object.generation == generation).then_some(object)
    }

    fn put(&mut self, name: Name, object: Object) {
        let (place, _) = name.place().expect("checked to be free");
        if let Some(parent) = self.object_mut(object.parent) {
            parent.children += 1;
        }
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        debug_assert!(self.places[place].is_none(), "checked to be free");
        self.places[place] = Some(object);
        self.live += 1;
        self.share.add(object.kind);
        if self.is_findable(object.kind) {
            self.names.insert((object.kind, object.native), name);
        }
    }

    /// Notes a new object that the guest owns. `name` was checked to be free.
    pub fn insert(&mut self, name: Name, kind: Kind, native: Native, parent: Name) {
        let generation = name.place().expect("checked to be free").1;
        self.put(name, Object { kind, native, parent, owned: 1, generation, children: 0 });
    }

    /// The name of an object that the library answered and the guest need not know yet. It gets
    /// the proposed name if it has none. The guest owns no reference to it.
    pub fn found(&mut self, proposed: Name, kind: Kind, native: Native, parent: Name) -> Name {
        if !self.is_findable(kind) {
            self.make_findable(kind);
        }
        if let Some(known) = self.names.get(&(kind, native)) {
            return *known;
        }
        let generation = proposed.place().expect("checked to be free").1;
        self.put(proposed, Object { kind, native, parent, owned: 0, generation, children: 0 });
        proposed
    }

    /// Whether an object that the library found has a name already.
    pub fn is_known(&mut self, kind: Kind, native: Native) -> bool {
        if !self.is_findable(kind) {
            self.make_findable(kind);
        }
        self.names.contains_key(&(kind, native))
    }

    #[inline]
    fn is_findable(&self, kind: Kind) -> bool {
        self.findable.checked_shr(kind.into()).is_none_or(|bits| bits & 1 != 0)
    }

    /// The library finds the first object of this kind: those that it made before are found too.
    #[cold]
    fn make_findable(&mut self, kind: Kind) {
        self.findable |= 1 << kind;
        let live = self.places.iter().enumerate();
        self.names.extend(live.filter_map(|(place, object)| {
            let object = object.as_ref().filter(|object| object.kind == kind)?;
            Some(((kind, object.native), Name::new(place, object.generation)))
        }));
    }

    /// Refused if the guest owns no reference to this object, so that it may not free it.
    pub fn check_owned(&self, name: Name, kind: Kind) -> Result<Native, Refusal> {
        match self.get(name, kind)? {
            object if object.owned > 0 => Ok(object.native),
            _ => Err(Refusal::Object),
        }
    }

    /// The object of this kind that one belongs to, however far above it is.
    pub fn ancestor(&self, of: Name, kind: Kind) -> Name {
        let object = |name: Name| self.places.get(name.place()?.0)?.as_ref();
        let mut name = of;
        for _ in 0..OBJECTS_MAX {
            let Some(found) = object(name) else { return Name::NONE };
            if found.kind == kind {
                return name;
            }
            name = found.parent;
        }
        Name::NONE
    }

    /// Forgets an object that the library has freed, and what belonged to it.
    pub fn remove(&mut self, name: Name) {
        let Some((place, _)) = name.place() else { return };
        let Some(object) = self.places.get_mut(place).and_then(Option::take) else { return };
        self.live -= 1;
        self.share.remove(object.kind);
        let key = (object.kind, object.native);
        if self.is_findable(object.kind) && self.names.get(&key) == Some(&name) {
            self.names.remove(&key);
        }
        if let Some(parent) = self.object_mut(object.parent) {
            parent.children -= 1;
        }
        // Most have none: all places are looked at only for those that do.
        if object.children > 0 {
            for child in self.children(name) {
                self.remove(child);
            }
        }
    }

    /// What the library calls the objects of this kind that belong to one.
    pub fn of(&self, parent: Name, kind: Kind) -> impl Iterator<Item = Native> {
        let live = self.places.iter().flatten();
        let is = move |object: &&Object| object.parent == parent && object.kind == kind;
        live.filter(is).map(|object| object.native)
    }

    fn children(&self, of: Name) -> Vec<Name> {
        let live = self.places.iter().enumerate();
        live.filter_map(|(place, object)| {
            let object = object.as_ref().filter(|object| object.parent == of)?;
            Some(Name::new(place, object.generation))
        })
        .collect()
    }

    fn depth(&self, object: &Object) -> usize {
        let mut depth = 0;
        let mut parent = object.parent;
        while let Some((place, _)) = parent.place()
            && let Some(Some(above)) = self.places.get(place)
            && depth < OBJECTS_MAX
        {
            depth += 1;
            parent = above.parent;
        }
        depth
    }

    /// Takes all objects that the guest owns, children before parents: their connection ends.
    pub fn take_all(&mut self) -> Vec<(Kind, Native)> {
        let mut all: Vec<_> = self.places.iter().flatten().filter(|o| o.owned > 0).collect();
        all.sort_by_key(|object| std::cmp::Reverse(self.depth(object)));
        let all = all.into_iter().map(|object| (object.kind, object.native)).collect();
        *self = Objects::default();
        all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const A: Kind = 1;
    const B: Kind = 2;

    #[test]
    fn a_name_finds_its_own_object_only() {
        let mut all = Objects::default();
        let (a, b) = (Name::new(0, 1), Name::new(5, 1));
        all.check_free(a).unwrap();
        all.insert(a, A, 0x1000, Name::NONE);
        all.insert(b, B, 0x2000, a);
        assert_eq!((all.find(a, A), all.find(a, B)), (Ok(0x1000), Err(Refusal::Object)));
        assert_eq!(all.find(Name::new(0, 2), A), Err(Refusal::Object), "another generation");
        assert_eq!(all.find(Name::from_wire(u64::MAX), A), Err(Refusal::Object));
        assert_eq!(all.check_free(b), Err(Refusal::Object));
        assert_eq!(all.find_or_none(Name::NONE, A), Ok(0));
        let new = |place, generation| Name::new(place, generation);
        assert_eq!(all.check_apart(&[new(7, 1), new(8, 1), new(9, 1)]), Ok(()));
        assert_eq!(all.check_apart(&[new(7, 1), new(8, 1), new(7, 2)]), Err(Refusal::Object));
        assert_eq!((all.of(a, B).collect(), all.of(a, A).count()), (vec![0x2000], 0));
        all.remove(a);
        assert!(all.is_empty(), "what belonged to it is gone");
    }

    #[test]
    fn what_is_found_is_not_owned_and_has_one_name() {
        let mut all = Objects::default();
        let first = all.found(Name::new(1, 1), A, 0x10, Name::NONE);
        assert_eq!(all.found(Name::new(2, 1), A, 0x10, Name::NONE), first);
        assert_eq!(all.check_owned(first, A), Err(Refusal::Object));
        assert_eq!(all.take_all(), []);
    }

    #[test]
    fn what_was_made_before_is_found_by_its_name_as_long_as_it_lives() {
        let mut all = Objects::default();
        let (made, later, proposed) = (Name::new(1, 1), Name::new(2, 1), Name::new(3, 1));
        all.insert(made, A, 0x10, Name::NONE);
        assert_eq!(all.found(proposed, A, 0x10, Name::NONE), made);
        all.insert(later, A, 0x20, Name::NONE);
        assert_eq!(all.found(proposed, A, 0x20, Name::NONE), later);
        all.remove(made);
        assert_eq!(all.len(), 1);
        assert_eq!(all.found(proposed, A, 0x10, Name::NONE), proposed, "another object by now");
    }

    #[test]
    fn children_end_before_their_parents() {
        let mut all = Objects::default();
        let (root, child) = (Name::new(3, 1), Name::new(0, 1));
        all.insert(root, A, 1, Name::NONE);
        all.insert(child, B, 2, root);
        all.insert(Name::new(1, 1), A, 3, child);
        assert_eq!(all.take_all(), [(A, 3), (B, 2), (A, 1)]);
        assert!(all.is_empty());
    }
}
