//! A queue over loom's atomics, and a doorbell.

use crate::{In, N, Out};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use vfun_queue::layout::{ENTRIES_OFF, header};
use vfun_queue::{Consumer, Memory, Producer};

pub use self::bell::Bell;

#[path = "../../../window/tests/common/loom_bell.rs"]
mod bell;

/// Which order is weaker than it must be, to show that it matters. That of the
/// consumer's count cannot be tried: in loom no load sees a store that the same
/// thread's later store was needed for.
#[derive(Clone, Copy, PartialEq)]
pub enum Weak {
    Nothing,
    /// The store that publishes a batch.
    Publish,
    /// The load that sees it.
    Look,
}

/// A word that the other side reads is loom's; a word that nobody reads but its
/// writer is not, so that it does not multiply the interleavings.
enum Word {
    Modelled(AtomicU64),
    Plain(std::sync::atomic::AtomicU64),
}

type Side = Arc<BTreeMap<usize, Word>>;

fn side(modelled: impl Iterator<Item = usize>, plain: &[usize]) -> Side {
    let modelled = modelled.map(|i| (i, Word::Modelled(AtomicU64::new(0))));
    let plain = plain.iter().map(|i| (*i, Word::Plain(std::sync::atomic::AtomicU64::new(0))));
    Arc::new(modelled.chain(plain).collect())
}

pub struct Model {
    mine: Side,
    theirs: Side,
    weak: Weak,
}

fn load(word: &Word, order: Ordering) -> u64 {
    match word {
        Word::Modelled(w) => w.load(order),
        Word::Plain(w) => w.load(order),
    }
}

impl Memory for Model {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        let entry = index >= ENTRIES_OFF / 8;
        let order = if entry && self.weak == Weak::Look { Ordering::Relaxed } else { order };
        load(&self.theirs[&index], order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        let entry = index >= ENTRIES_OFF / 8;
        let order = if entry && self.weak == Weak::Publish { Ordering::Relaxed } else { order };
        match &self.mine[&index] {
            Word::Modelled(w) => w.store(value, order),
            Word::Plain(w) => w.store(value, order),
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        load(&self.mine[&index], order)
    }
    fn add_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("a queue only stores")
    }
    fn sub_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("a queue only stores")
    }
}

pub fn weakened(depth: u32, weak: Weak) -> (Out, In) {
    let entries = (0..depth as usize * N / 8).map(|w| ENTRIES_OFF / 8 + w);
    let words = [header::SLEEPS, header::BROKEN];
    let producer = side(entries.chain(words), &[header::POSITION]);
    let consumer = side(words.into_iter().chain([header::POSITION]), &[]);
    let out = Model { mine: producer.clone(), theirs: consumer.clone(), weak };
    let inn = Model { mine: consumer, theirs: producer, weak };
    (Producer::new(out, depth).unwrap(), Consumer::new(inn, depth).unwrap())
}

pub fn queue(depth: u32) -> (Out, In) {
    weakened(depth, Weak::Nothing)
}
