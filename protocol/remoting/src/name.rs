//! Names of objects.

use crate::limits::OBJECTS_MAX;

/// What an object is called on the wire: a place in a table, and how often that place was
/// used before. It is no address of either side. 0 is no object (C's NULL).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u64);

impl Name {
    /// No object.
    pub const NONE: Name = Name(0);

    /// The name of a place, `generation` counted from 1.
    #[inline]
    pub fn new(place: usize, generation: u32) -> Name {
        debug_assert!(place < OBJECTS_MAX && generation != 0);
        Name((u64::from(generation) << 32) | place as u64)
    }

    /// What was read from the wire; [`Name::place`] checks it.
    #[inline]
    pub fn from_wire(value: u64) -> Name {
        Name(value)
    }

    /// As it stands on the wire.
    #[inline]
    pub fn value(self) -> u64 {
        self.0
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self == Name::NONE
    }

    /// Place and generation, if this can be a name at all.
    #[inline]
    pub fn place(self) -> Option<(usize, u32)> {
        let (place, generation) = ((self.0 & 0xFFFF_FFFF) as usize, (self.0 >> 32) as u32);
        (place < OBJECTS_MAX && generation != 0).then_some((place, generation))
    }
}
