//! Keeps the order of calls that have one.
//!
//! Cells of a channel may be taken in another order than they were written. A call that comes too
//! early is kept, as a private copy, until those before it were made.

use std::collections::BTreeMap;
use vfun_remoting::Wiped;
use vfun_sdk::Answerer;

/// A call that came too early.
pub(crate) struct Early {
    pub bytes: Wiped,
    pub call: Answerer,
}

/// The next place in the order, and who came too early.
pub(crate) struct Order {
    next: u32,
    early: BTreeMap<u32, Early>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Early,
    /// Its place was taken before: the guest counts wrongly.
    Past,
}

impl Default for Order {
    fn default() -> Self {
        Order { next: 1, early: BTreeMap::new() }
    }
}

impl Order {
    /// Whose turn it is, for a call with this number; 0 has no order.
    #[inline]
    pub fn turn(&self, sequence: u32) -> Turn {
        match sequence {
            0 => Turn::Now,
            n if n == self.next => Turn::Now,
            // The numbers go round; what is less than half of them ahead is ahead.
            n if n.wrapping_sub(self.next) < u32::MAX / 2 && !self.early.contains_key(&n) => {
                Turn::Early
            }
            _ => Turn::Past,
        }
    }

    /// Keeps a call whose turn is [`Turn::Early`]. There are at most as many as cells: one whose
    /// cell was answered otherwise, because its deadline passed, is forgotten here.
    pub fn keep(&mut self, sequence: u32, early: Early) {
        self.early.retain(|_, kept| kept.call.is_open());
        self.early.insert(sequence, early);
    }

    /// The call of this number was made; who comes next, if it is here already.
    pub fn made(&mut self, sequence: u32) -> Option<Early> {
        if sequence == 0 {
            return None;
        }
        self.next = sequence.checked_add(1).unwrap_or(1);
        self.early.remove(&self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_sdk::{OpenCalls, Out};

    #[test]
    fn an_early_call_waits_for_those_before_it() {
        let calls = OpenCalls::new(|| ());
        let mut room = [0; 8];
        let mut order = Order::default();
        assert_eq!(
            (order.turn(1), order.turn(2), order.turn(0)),
            (Turn::Now, Turn::Early, Turn::Now)
        );
        let call = Out::private_later(&mut room, &calls).later().unwrap();
        order.keep(2, Early { bytes: Wiped(vec![2]), call });
        assert_eq!(order.turn(2), Turn::Past, "a second one of this number");
        assert_eq!(order.made(1).map(|e| e.bytes.to_vec()), Some(vec![2]));
        assert!(order.made(2).is_none());
        assert_eq!((order.turn(1), order.turn(3)), (Turn::Past, Turn::Now));
    }

    #[test]
    fn a_guest_that_leaves_a_hole_does_not_fill_the_memory() {
        let calls = OpenCalls::new(|| ());
        let mut room = [0; 8];
        let mut order = Order::default();
        for sequence in 2..500 {
            let call = Out::private_later(&mut room, &calls).later().unwrap();
            let held = calls.hold(0).unwrap();
            order.keep(sequence, Early { bytes: Wiped(vec![0; 4096]), call });
            drop(held); // its deadline passed, and its cell is used again
        }
        assert_eq!(order.early.len(), 1, "the latest");
    }
}
