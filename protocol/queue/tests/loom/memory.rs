//! A queue over loom's atomics.

use crate::{In, N, Out};
use vfun_queue::layout::{ENTRIES_OFF, header};
use vfun_queue::{Consumer, Memory, Producer};

pub use self::loomed::{Bell, Loomed as Model, Weak};
use self::loomed::{Loomed, side};

#[path = "../../../window/tests/common/loomed.rs"]
mod loomed;

/// A queue of which an order of its entries is weaker. That of the consumer's count cannot
/// be tried: in loom no load sees a store that the same thread's later store was needed for.
pub fn weakened(depth: u32, weak: Weak) -> (Out, In) {
    let is_published = |index| index >= ENTRIES_OFF / 8;
    let entries = (0..depth as usize * N / 8).map(|w| ENTRIES_OFF / 8 + w);
    let words = [header::SLEEPS, header::BROKEN];
    let producer = side(entries.chain(words), [header::POSITION]);
    let consumer = side(words.into_iter().chain([header::POSITION]), []);
    let out = Loomed { mine: producer.clone(), theirs: consumer.clone(), weak, is_published };
    let inn = Loomed { mine: consumer, theirs: producer, weak, is_published };
    (Producer::new(out, depth).unwrap(), Consumer::new(inn, depth).unwrap())
}

pub fn queue(depth: u32) -> (Out, In) {
    weakened(depth, Weak::Nothing)
}
