//! The memory of a sender whose host goes on to another link between two of its loads.

use super::common::plain::{Plain, poke};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_packet::Memory;
use vfun_packet::layout::header;

pub struct Raced {
    pub plain: Plain,
    /// The other link, as long as it is not there.
    pub next: Rc<Cell<Option<u64>>>,
}

impl Memory for Raced {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        if index == header::LINK_OUT
            && let Some(link) = self.next.take()
        {
            poke(&self.plain.theirs, header::TURN, 0);
            poke(&self.plain.theirs, header::LINK_OUT, link);
        }
        self.plain.load(index, order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.plain.store(index, value, order);
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.plain.load_own(index, order)
    }
    fn add_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("these ends only store")
    }
    fn sub_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("these ends only store")
    }
}
