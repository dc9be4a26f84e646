//! Two sides of shared memory over loom, and a doorbell. The models of queues and of
//! packets share this file; each brings `Memory` in.

use super::Memory;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A doorbell as `vfun_window::Bell` is one: rings are kept until waited for.
#[derive(Clone)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    pub fn new() -> Self {
        Bell(Arc::new((Mutex::new(false), Condvar::new())))
    }
    pub fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
    pub fn rung(&self) -> bool {
        *self.0.0.lock().unwrap()
    }
    /// Blocks for ever if nobody rings: loom then reports a deadlock.
    pub fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// A word that the other side reads is loom's. A word that nobody reads but its writer is
/// not, so that it does not multiply the interleavings.
enum Word {
    Modelled(AtomicU64),
    Plain(std::sync::atomic::AtomicU64),
}

/// Memory that one side alone writes: those of its words that the test uses.
pub type Side = Arc<Words>;
pub struct Words(BTreeMap<usize, Word>);

/// A side with these words, all zero. A word in both lists is loom's.
pub fn side(
    modelled: impl IntoIterator<Item = usize>,
    plain: impl IntoIterator<Item = usize>,
) -> Side {
    let plain = plain.into_iter().map(|i| (i, Word::Plain(0.into())));
    let modelled = modelled.into_iter().map(|i| (i, Word::Modelled(AtomicU64::new(0))));
    Arc::new(Words(plain.chain(modelled).collect()))
}

/// One end's view of both sides. Its published words are those for which `is_published`.
pub struct Loomed {
    pub mine: Side,
    pub theirs: Side,
    pub weak: Weak,
    pub is_published: fn(usize) -> bool,
}

/// Which order of published words is weaker than it must be, to show that it matters.
#[derive(Clone, Copy, PartialEq)]
pub enum Weak {
    Nothing,
    /// The store that publishes.
    Publish,
    /// The load that sees it.
    Look,
}

impl Loomed {
    fn order(&self, weak: Weak, index: usize, order: Ordering) -> Ordering {
        let is_weak = self.weak == weak && (self.is_published)(index);
        if is_weak { Ordering::Relaxed } else { order }
    }
}

fn load(side: &Side, index: usize, order: Ordering) -> u64 {
    match &side.0[&index] {
        Word::Modelled(w) => w.load(order),
        Word::Plain(w) => w.load(order),
    }
}

impl Memory for Loomed {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        load(&self.theirs, index, self.order(Weak::Look, index, order))
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        match &self.mine.0[&index] {
            Word::Modelled(w) => w.store(value, self.order(Weak::Publish, index, order)),
            Word::Plain(w) => w.store(value, order),
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        load(&self.mine, index, order)
    }
    fn add_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("these ends only store")
    }
    fn sub_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("these ends only store")
    }
}
