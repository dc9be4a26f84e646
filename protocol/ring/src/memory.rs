//! What a channel's two sides look like to the code above: words and bytes.

use crate::sync::Ordering;
use vfun_window::{OutOfBounds, ReadSpan, WriteSpan};

/// A channel as one side sees it: `mine` are the pages it writes, `theirs`
/// the pages it reads. Word indexes count 64-bit words from a side's start
/// and are always this side's own; an index outside panics.
pub trait Memory {
    /// Loads a word that the peer writes.
    fn load(&self, index: usize, order: Ordering) -> u64;
    /// Stores a word of one's own.
    fn store(&self, index: usize, value: u64, order: Ordering);
    /// Loads a word of one's own (which a hostile guest may have changed).
    fn load_own(&self, index: usize, order: Ordering) -> u64;
    /// Adds to a word of one's own.
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64;
    /// Subtracts from a word of one's own.
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64;
    /// Asks for a line that the peer writes, without waiting.
    fn prefetch(&self, _index: usize) {}
}

/// A channel in a real window.
#[derive(Clone)]
pub struct WindowMemory {
    mine: WriteSpan,
    theirs: ReadSpan,
}

impl WindowMemory {
    /// From the two sides, which must be equally long.
    pub fn new(mine: WriteSpan, theirs: ReadSpan) -> Result<Self, OutOfBounds> {
        if mine.len() != theirs.len() {
            return Err(OutOfBounds);
        }
        Ok(WindowMemory { mine, theirs })
    }
    /// The pages this side writes.
    pub fn mine(&self) -> &WriteSpan {
        &self.mine
    }
    /// The pages the peer writes.
    pub fn theirs(&self) -> &ReadSpan {
        &self.theirs
    }
}

#[cfg(not(loom))]
impl Memory for WindowMemory {
    #[inline]
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.theirs.load(index, order)
    }
    #[inline]
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.mine.store(index, value, order);
    }
    #[inline]
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.mine.load(index, order)
    }
    #[inline]
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine.fetch_add(index, value, order)
    }
    #[inline]
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine.fetch_sub(index, value, order)
    }
    #[inline]
    fn prefetch(&self, index: usize) {
        self.theirs.prefetch(index);
    }
}
