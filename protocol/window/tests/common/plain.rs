//! Two sides of shared memory in this process's memory, which a test may overwrite at
//! will. The tests of channels and of queues share this file; each brings `Memory` in.

use super::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that one side alone writes.
pub type Side = Arc<[AtomicU64]>;

/// A side of so many bytes, zeroed.
pub fn zeroed(bytes: u64) -> Side {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
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

pub fn peek(side: &Side, index: usize) -> u64 {
    side[index].load(Ordering::Relaxed)
}

pub fn poke(side: &Side, index: usize, value: u64) {
    side[index].store(value, Ordering::Relaxed);
}
