//! A channel in this process's memory, which a test may overwrite at will.

pub use self::plain::{Plain, Side, peek, poke};
use vfun_ring::Memory;
use vfun_wire::LINE_WORDS;
use vfun_wire::channel::{Word0, Word1, line_off, spaces_off};

#[path = "../../../window/tests/common/plain.rs"]
mod plain;

/// One side of a channel, without its data spaces: the ring never touches them.
pub fn side(depth: u16) -> Side {
    plain::zeroed(spaces_off(depth) as u64)
}

/// Word `word` of line `cell`.
pub fn at(cell: usize, word: usize) -> usize {
    line_off(cell) / 8 + word
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
