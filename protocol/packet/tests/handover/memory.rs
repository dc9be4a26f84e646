//! Memory of all parties, and what a test may do to a party's view of it.

use crate::common::plain::{Plain, Side, peek, zeroed};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_packet::layout::{header, line};
use vfun_packet::{Memory, Ring};

/// The ring of these tests: the smallest. How many frames it has room for is said by their
/// length.
pub const RING: u64 = vfun_packet::limits::RING_MIN;

pub fn ring() -> Ring {
    Ring::new(RING).unwrap()
}

/// What one party has, which a test may falsify.
#[derive(Clone)]
pub struct View {
    plain: Plain,
    /// If it is there: what this party is shown as its peer's HEAD.
    head: Rc<Cell<Option<u64>>>,
    /// How many stores are done before the party dies; those after it are not.
    life: Rc<Cell<u64>>,
}

impl Memory for View {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        match self.head.get().filter(|_| index == header::HEAD) {
            Some(head) => head,
            None => self.plain.load(index, order),
        }
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        if let Some(left) = self.life.get().checked_sub(1) {
            self.life.set(left);
            self.plain.store(index, value, order);
        }
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

/// All that is shared, one writer each. `a` sends and `b` receives.
pub struct Shared {
    pub a: Side,
    pub a_host: Side,
    pub b: Side,
    pub b_host: Side,
    /// What the manager is shown of B's page.
    pub b_said: Side,
    pub link_a: Side,
    pub link_b: Side,
    /// Of the driver's process.
    pub fence: Side,
    pub closer: Side,
}

impl Shared {
    pub fn new() -> Self {
        let side = || zeroed(ring().side_bytes());
        let half = || zeroed(line::WORDS as u64 * 8);
        Shared {
            a: side(),
            a_host: side(),
            b: side(),
            b_host: side(),
            b_said: side(),
            link_a: side(),
            link_b: side(),
            fence: half(),
            closer: half(),
        }
    }
}

/// A process: its views end with it.
pub struct Process {
    life: Rc<Cell<u64>>,
}

impl Process {
    pub fn new() -> Self {
        Process { life: Rc::new(Cell::new(u64::MAX)) }
    }

    pub fn view(&self, mine: &Side, theirs: &Side) -> View {
        self.view_with(mine, theirs, &Rc::default())
    }

    pub fn view_with(&self, mine: &Side, theirs: &Side, head: &Rc<Cell<Option<u64>>>) -> View {
        let plain = Plain { mine: mine.clone(), theirs: theirs.clone() };
        View { plain, head: head.clone(), life: self.life.clone() }
    }

    /// It dies after so many stores.
    pub fn dies_after(&self, stores: u64) {
        self.life.set(stores);
    }

    pub fn is_dead(&self) -> bool {
        self.life.get() == 0
    }
}

/// Frames in a ring that were published and not taken, by the counts of both sides.
pub fn left(sender: &Side, receiver: &Side) -> u64 {
    let taken = peek(receiver, header::TAKEN) + peek(receiver, header::REFUSED);
    peek(sender, header::SENT) - taken
}
