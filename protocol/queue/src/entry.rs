//! An entry in private memory.

use crate::layout::{ENTRIES_OFF, STAMP_BYTES, stamp};
use crate::shape::Shape;
use vfun_window::{Memory, sync::Ordering};

const WORD: usize = size_of::<u64>();

/// An entry of `N` bytes: 4 that are the queue's, then the payload. It lies in
/// private memory: nobody else writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Entry<const N: usize>([u8; N]);

impl<const N: usize> Default for Entry<N> {
    fn default() -> Self {
        Entry([0; N])
    }
}

impl<const N: usize> Entry<N> {
    /// Bytes of an entry that its sender chooses.
    pub const PAYLOAD: usize = N - STAMP_BYTES;

    /// With this payload, and zeros after it. Panics if it is longer than
    /// [`Entry::PAYLOAD`].
    pub fn of(payload: &[u8]) -> Self {
        let mut entry = Entry::default();
        entry.payload_mut()[..payload.len()].copy_from_slice(payload);
        entry
    }

    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0[STAMP_BYTES..]
    }

    /// The payload, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0[STAMP_BYTES..]
    }

    /// Copies it out of the queue, if the entry at `position` is the one whose
    /// turn it is; otherwise says what its first word was.
    #[inline(always)]
    pub(crate) fn read(&mut self, mem: &impl Memory, at: usize, position: u64) -> Result<(), u64> {
        Self::taken(mem, at, position).map(|entry| *self = entry)
    }

    /// The same, of an entry that there was no place for yet.
    #[inline(always)]
    pub(crate) fn taken(mem: &impl Memory, at: usize, position: u64) -> Result<Self, u64> {
        // R-QUE-4: what was stored before this word was stored is there.
        let word = mem.load(at, Ordering::Acquire);
        if word as u32 != stamp(position) {
            return Err(word);
        }
        let mut entry = Entry([0; N]);
        let (first, rest) = entry.0.split_at_mut(WORD);
        first.copy_from_slice(&(word & !u64::from(u32::MAX)).to_le_bytes());
        mem.read(at + 1, rest);
        Ok(entry)
    }

    /// Copies it into the queue, its first word last.
    #[inline(always)]
    pub(crate) fn write(&self, mem: &impl Memory, at: usize, position: u64, order: Ordering) {
        let (first, rest) = self.0.split_at(WORD);
        mem.write_words(at + 1, rest);
        let first = u64::from_le_bytes(first.try_into().expect("a word"));
        let word = first & !u64::from(u32::MAX) | u64::from(stamp(position));
        mem.store(at, word, order);
    }
}

/// Where the entries lie.
#[derive(Clone, Copy)]
pub(crate) struct Places<const N: usize> {
    mask: u64,
}

impl<const N: usize> Places<N> {
    pub(crate) fn new(shape: Shape) -> Self {
        Places { mask: u64::from(shape.depth()) - 1 }
    }

    pub(crate) fn depth(self) -> u64 {
        self.mask + 1
    }

    /// The word where the entry at `position` begins: inside, whatever the position is.
    #[inline(always)]
    pub(crate) fn word(self, position: u64) -> usize {
        ENTRIES_OFF / WORD + (position & self.mask) as usize * (N / WORD)
    }

    /// The stamp that stands where the entry at `position` is to come: of the
    /// lap before, or 0 in the first.
    #[inline]
    pub(crate) fn stamp_before(self, position: u64) -> u32 {
        position.checked_sub(self.depth()).map_or(0, stamp)
    }
}
