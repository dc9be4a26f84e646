//! A ring over loom's atomics, and a doorbell.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use vfun_packet::layout::{RING_OFF, header};
use vfun_packet::{Memory, Receiver, Ring, Sender};

pub use self::bell::Bell;

#[allow(dead_code, reason = "another model needs all of it")]
#[path = "../../../window/tests/common/loom_bell.rs"]
mod bell;

/// Which order is weaker than it must be, to show that it matters.
#[derive(Clone, Copy, PartialEq)]
pub enum Weak {
    Nothing,
    /// The store that publishes a burst.
    Publish,
    /// The load that sees it.
    Look,
}

/// A word that the other side reads is loom's; the rest is not, so that it does not
/// multiply the interleavings.
enum Word {
    Modelled(AtomicU64),
    Plain(std::sync::atomic::AtomicU64),
}

type Side = Arc<BTreeMap<usize, Word>>;

fn side(modelled: impl Iterator<Item = usize>) -> Side {
    let plain = (0..RING_OFF / 8).map(|i| (i, Word::Plain(0.into())));
    let modelled = modelled.map(|i| (i, Word::Modelled(AtomicU64::new(0))));
    Arc::new(plain.chain(modelled).collect())
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
        let is_head = index == header::HEAD && self.weak == Weak::Look;
        load(&self.theirs[&index], if is_head { Ordering::Relaxed } else { order })
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        let is_head = index == header::HEAD && self.weak == Weak::Publish;
        match &self.mine[&index] {
            Word::Modelled(w) => w.store(value, if is_head { Ordering::Relaxed } else { order }),
            Word::Plain(w) => w.store(value, order),
        }
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        load(&self.mine[&index], order)
    }
    fn add_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("a ring only stores")
    }
    fn sub_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("a ring only stores")
    }
}

pub type Ends = (Sender<Model>, Receiver<Model>);

/// Both ends of a ring with room for what these tests send.
pub fn ends(weak: Weak) -> Ends {
    let ring = Ring::new(vfun_packet::limits::RING_MIN).unwrap();
    // Three records of a line each, of which four words are used.
    let records = (0..3).flat_map(|r| (0..4).map(move |w| RING_OFF / 8 + 8 * r + w));
    let sender = side(records.chain([header::HEAD]));
    let receiver = side([header::TAIL, header::WAKE].into_iter());
    let out = Model { mine: sender.clone(), theirs: receiver.clone(), weak };
    let inn = Model { mine: receiver, theirs: sender, weak };
    (Sender::new(out, ring), Receiver::new(inn, ring))
}
