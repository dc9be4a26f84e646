//! A channel in this process's memory, which a test may overwrite at will.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfun_ring::Memory;
use vfun_wire::LINE_WORDS;
use vfun_wire::channel::{Word0, Word1, line_off, spaces_off};

/// One side of a channel, without its data spaces: the ring never touches them.
pub type Side = Arc<[AtomicU64]>;

pub fn side(depth: u16) -> Side {
    (0..spaces_off(depth) / 8).map(|_| AtomicU64::new(0)).collect()
}

#[derive(Clone)]
pub struct Plain {
    pub mine: Side,
    pub theirs: Side,
}

impl Memory for Plain {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.theirs[index].load(order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.mine[index].store(value, order);
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.mine[index].load(order)
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine[index].fetch_add(value, order)
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine[index].fetch_sub(value, order)
    }
    fn prefetch(&self, index: usize) {
        assert!(index < self.theirs.len(), "prefetch outside the side");
    }
}

/// Word `word` of line `cell`.
pub fn at(cell: usize, word: usize) -> usize {
    line_off(cell) / 8 + word
}

pub fn peek(side: &Side, index: usize) -> u64 {
    side[index].load(Ordering::Relaxed)
}

pub fn poke(side: &Side, index: usize, value: u64) {
    side[index].store(value, Ordering::Relaxed);
}

pub fn word0(side: &Side, cell: usize) -> Word0 {
    Word0::unpack(peek(side, at(cell, 0)))
}

pub fn word1(side: &Side, cell: usize) -> Word1 {
    Word1::unpack(peek(side, at(cell, 1)))
}

/// The line's 48 bytes.
pub fn inline(side: &Side, cell: usize) -> Vec<u8> {
    (2..LINE_WORDS).flat_map(|w| peek(side, at(cell, w)).to_le_bytes()).collect()
}
