//! A queue in this process's memory, which a test may overwrite at will.

pub use self::plain::{Plain, Side, peek, poke};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use vfun_queue::layout::ENTRIES_OFF;
use vfun_queue::{Entry, Memory, Shape};

#[path = "../../../window/tests/common/plain.rs"]
mod plain;

/// Words of a header page that an end may write.
pub const WRITTEN: [usize; 3] = [0, 1, 8];

/// Both sides of a queue, zeroed: the producer's, the consumer's.
pub fn sides(shape: Shape) -> (Side, Side) {
    (plain::zeroed(shape.producer_bytes()), plain::zeroed(shape.consumer_bytes()))
}

/// Memory of a process that is killed: after so many stores there are no more.
pub struct Killed {
    pub mem: Plain,
    pub stores: Cell<u32>,
}

impl Memory for Killed {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.mem.load(index, order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        if let Some(left) = self.stores.get().checked_sub(1) {
            self.stores.set(left);
            self.mem.store(index, value, order);
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.mem.load_own(index, order)
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mem.add_own(index, value, order)
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mem.sub_own(index, value, order)
    }
}

/// The first word of the entry at a position.
pub fn at<const N: usize>(position: u64, depth: u32) -> usize {
    ENTRIES_OFF / 8 + (position % u64::from(depth)) as usize * N / 8
}

/// An entry whose payload no other `seed` has.
pub fn entry<const N: usize>(seed: u64) -> Entry<N> {
    let mut entry = Entry::default();
    for (i, chunk) in entry.payload_mut().chunks_mut(8).enumerate() {
        let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(i as u64);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    entry
}

/// The entry that stands in memory, as an honest reader sees it.
pub fn standing<const N: usize>(side: &Side, position: u64, depth: u32) -> (u32, Entry<N>) {
    let from = at::<N>(position, depth);
    let bytes: Vec<u8> = (from..from + N / 8).flat_map(|w| peek(side, w).to_le_bytes()).collect();
    (peek(side, from) as u32, Entry::of(&bytes[4..]))
}

/// A side as numbers.
pub fn all(side: &Side) -> Vec<u64> {
    side.iter().map(|w| w.load(Ordering::Relaxed)).collect()
}
