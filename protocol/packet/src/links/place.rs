//! Where a link's memory is, as one word tells a VM.

use crate::layout::RING_OFF;
use crate::limits::{RING_MAX, RING_MIN};

/// Bytes before the first side: the header page of the window.
const FIRST: u64 = 4096;

/// Where a party of a link finds its two sides: in a further window that two VMs share. Both
/// are equally large, and both links between two ports, there and back, use the same two.
///
/// In the word: the window's number in this VM from bit 48 on, the ring's power of two from
/// bit 40 on, and bit 0: the party's own side is the second one. All else is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlace {
    /// The window's number in the party's VM, not 0.
    pub window: u16,
    /// Bytes of a ring.
    pub ring: u64,
    /// The party's own side is the second one.
    pub is_second: bool,
}

impl LinkPlace {
    /// The largest ring of which two sides have room in a window of so many bytes.
    pub fn largest_ring(window_bytes: u64) -> Option<u64> {
        let most = (window_bytes.checked_sub(FIRST)? / 2).checked_sub(RING_OFF as u64)?;
        let ring = 1 << most.checked_ilog2()?;
        (ring >= RING_MIN).then_some(ring.min(RING_MAX))
    }

    pub fn word(self) -> u64 {
        let power = u64::from(self.ring.ilog2());
        u64::from(self.window) << 48 | power << 40 | u64::from(self.is_second)
    }

    /// What a word says; `None`: nothing that can be.
    pub fn of(word: u64) -> Option<Self> {
        let ring = 1u64.checked_shl((word >> 40) as u32 & 0xff)?;
        let place = LinkPlace { window: (word >> 48) as u16, ring, is_second: word & 1 == 1 };
        let is_right = place.window != 0 && (RING_MIN..=RING_MAX).contains(&ring);
        (is_right && place.word() == word).then_some(place)
    }

    /// Bytes of one side.
    pub fn side(self) -> u64 {
        RING_OFF as u64 + self.ring
    }

    /// The window's byte at which the party's own side begins, and the other one.
    pub fn sides(self) -> (u64, u64) {
        let (first, second) = (FIRST, FIRST + self.side());
        if self.is_second { (second, first) } else { (first, second) }
    }

    /// How long a window is at least that has it.
    pub fn end(self) -> u64 {
        FIRST + 2 * self.side()
    }
}
