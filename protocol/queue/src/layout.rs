//! What lies where. Word indexes count 64-bit words from a side's start.
//!
//! The producer's side is a header page and then the entries; the consumer's
//! side is a header page. Each page has one writer (R-QUE-1).

use vfun_wire::PAGE;

/// Bytes of an entry that are the queue's: its stamp.
pub const STAMP_BYTES: usize = 4;
/// Where the entries begin in the producer's side, bytes.
pub const ENTRIES_OFF: usize = PAGE;
/// Bytes of the consumer's side.
pub const CONSUMER_BYTES: u64 = PAGE as u64;

/// Words of a header page; those not named are zero. What the peer looks at
/// often changes seldom, and lies apart from what changes often.
pub mod header {
    /// Not 0: this side sleeps, ring its doorbell.
    pub const SLEEPS: usize = 0;
    /// Not 0: this side has ended the queue, for this [`crate::Reason`].
    pub const BROKEN: usize = 1;
    /// How many entries this side has produced, or consumed.
    pub const POSITION: usize = 8;
}

/// The number that the entry at `position` (from 0) bears: 1 for the first, so
/// that fresh memory holds none.
#[inline]
pub const fn stamp(position: u64) -> u32 {
    position.wrapping_add(1) as u32
}
