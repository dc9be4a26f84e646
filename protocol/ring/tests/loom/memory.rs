//! A channel over loom's atomics.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use vfun_ring::*;
use vfun_wire::channel::{in_header, line_off, out_header};

/// A word that takes part in the protocol is loom's; statistics, which decide
/// nothing, are not, so that they do not multiply the interleavings.
enum Word {
    Modelled(AtomicU64),
    Plain(std::sync::atomic::AtomicU64),
}

/// One side of a channel: only the words that the code touches.
struct Side(BTreeMap<usize, Word>);

impl Side {
    fn new(depth: usize, modelled: &[usize], plain: &[usize]) -> Arc<Side> {
        let lines = (0..depth).flat_map(|c| (0..3).map(move |w| line_off(c) / 8 + w));
        let mut words = BTreeMap::new();
        for index in lines.chain(modelled.iter().copied()) {
            words.insert(index, Word::Modelled(AtomicU64::new(0)));
        }
        for &index in plain {
            words.insert(index, Word::Plain(std::sync::atomic::AtomicU64::new(0)));
        }
        Arc::new(Side(words))
    }
}

pub struct Model {
    mine: Arc<Side>,
    theirs: Arc<Side>,
}

impl Memory for Model {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        match &self.theirs.0[&index] {
            Word::Modelled(w) => w.load(order),
            Word::Plain(w) => w.load(order),
        }
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        match &self.mine.0[&index] {
            Word::Modelled(w) => w.store(value, order),
            Word::Plain(w) => w.store(value, order),
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        match &self.mine.0[&index] {
            Word::Modelled(w) => w.load(order),
            Word::Plain(w) => w.load(order),
        }
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        match &self.mine.0[&index] {
            Word::Modelled(w) => w.fetch_add(value, order),
            Word::Plain(w) => w.fetch_add(value, order),
        }
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        match &self.mine.0[&index] {
            Word::Modelled(w) => w.fetch_sub(value, order),
            Word::Plain(w) => w.fetch_sub(value, order),
        }
    }
}

pub fn channel(depth: u16) -> (Arc<Caller<Model>>, Server<Model>) {
    use in_header::*;
    let out = Side::new(depth.into(), &[out_header::SLEEPERS], &[]);
    let inn = Side::new(
        depth.into(),
        &[SLEEPS],
        &[BROKEN, CURRENT, CALLS, ERRORS, BYTES_IN, BYTES_OUT, SLEPT, RANG, NEXT],
    );
    let app = Model { mine: out.clone(), theirs: inn.clone() };
    let service = Model { mine: inn, theirs: out };
    (Arc::new(Caller::new(app, depth, 0)), Server::new(service, depth, 0))
}
