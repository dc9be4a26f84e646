//! The size of a ring.

use crate::layout::{RECORD_HEAD, RING_OFF};
use crate::limits::{FRAME_MAX, RING_MAX, RING_MIN};

/// There are no rings of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingError(pub u64);

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let RingError(bytes) = self;
        write!(f, "a ring has a power of two from {RING_MIN} to {RING_MAX} bytes, and not {bytes}")
    }
}

impl core::error::Error for RingError {}

/// A ring's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring(u64);

impl Ring {
    /// # Errors
    /// [`RingError`]: it is no power of two, or beyond [`RING_MIN`] and [`RING_MAX`].
    pub const fn new(bytes: u64) -> Result<Ring, RingError> {
        match bytes.is_power_of_two() && bytes >= RING_MIN && bytes <= RING_MAX {
            true => Ok(Ring(bytes)),
            false => Err(RingError(bytes)),
        }
    }

    /// Its bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Bytes of a side that has it.
    pub const fn side_bytes(self) -> u64 {
        self.0 + RING_OFF as u64
    }

    /// Bytes of the longest frame: with what is skipped before it, it must fit.
    pub const fn longest(self) -> u32 {
        let half = self.0 / 2 - RECORD_HEAD;
        if half < FRAME_MAX as u64 { half as u32 } else { FRAME_MAX }
    }

    /// Bytes from a position to the ring's end.
    pub(crate) const fn left(self, position: u64) -> u64 {
        self.0 - (position & (self.0 - 1))
    }

    /// The word of a side where a position lies: inside, whatever the position is.
    pub(crate) const fn word(self, position: u64) -> usize {
        (RING_OFF as u64 / 8 + (position & (self.0 - 1)) / 8) as usize
    }
}
