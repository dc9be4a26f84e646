//! Handles: what the host hands out to name a session, a grant or a channel.

/// An index with a generation. The generation goes up each time the index is
/// used again, so that a handle kept from before is refused by name (R-HND-1).
/// The manager alone makes them; to everyone else they are opaque.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Handle(pub u64);

impl Handle {
    /// Names nothing: no table gives it out.
    pub const NONE: Handle = Handle(0);

    /// From its halves. Generations start at 1, so no valid handle is [`Handle::NONE`].
    pub const fn new(index: u32, generation: u32) -> Self {
        Handle((generation as u64) << 32 | index as u64)
    }
    /// Place in the manager's table.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
    /// Which use of that place.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl core::fmt::Display for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.index(), self.generation())
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Handle({self})")
    }
}
