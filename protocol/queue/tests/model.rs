//! Random operations on a queue against obvious models: with an honest peer on
//! both sides, with a hostile producer, with a hostile consumer.
#![cfg(not(loom))]

mod common;

use common::consumer_ops::{self, ConsumerModel};
use common::memory::{Killed, Plain, entry, sides};
use common::producer_ops::{self, ProducerModel};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::VecDeque;
use vfun_queue::{Consumer, Entry, Producer, Shape};

fn depth() -> impl Strategy<Value = u32> {
    (1u32..5).prop_map(|n| 1 << n)
}

/// Mostly words of the header page that mean something, or of the entries.
fn index() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..10, 4 => 512u32..600, 1 => any::<u32>()]
}

/// Mostly small numbers, where stamps and counts are.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..40, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn consumer_op() -> impl Strategy<Value = consumer_ops::Op> {
    use consumer_ops::Op;
    let off = prop_oneof![20 => Just(0u32), 1 => any::<u32>(), 1 => Just(1)];
    let ahead = prop_oneof![6 => 0u32..4, 1 => any::<u32>()];
    prop_oneof![
        12 => (ahead, off, any::<u64>()).prop_map(|(ahead, off, fill)| Op::Put { ahead, off, fill }),
        1 => (index(), number()).prop_map(|(index, value)| Op::Poke { index, value }),
        1 => (index(), number()).prop_map(|(index, value)| Op::PokeOwn { index, value }),
        1 => (0u64..6).prop_map(|reason| Op::End { reason }),
        8 => (0u16..20).prop_map(|most| Op::Consume { most }),
        3 => any::<bool>().prop_map(|hard| Op::Ready { hard }),
        1 => Just(Op::Sleep),
        1 => Just(Op::TakeUp),
    ]
}

fn producer_op() -> impl Strategy<Value = producer_ops::Op> {
    use producer_ops::Op;
    let ahead = prop_oneof![12 => 0u64..4, 1 => number(), 1 => Just(u64::MAX)];
    prop_oneof![
        10 => (0u16..20, any::<u64>()).prop_map(|(count, seed)| Op::Produce { count, seed }),
        8 => ahead.prop_map(|ahead| Op::Count { ahead }),
        1 => (index(), number()).prop_map(|(index, value)| Op::Poke { index, value }),
        1 => (index(), number()).prop_map(|(index, value)| Op::PokeOwn { index, value }),
        1 => (0u64..6).prop_map(|reason| Op::End { reason }),
        2 => (0u16..20).prop_map(|wanted| Op::Room { wanted }),
        3 => any::<bool>().prop_map(|hard| Op::Ready { hard }),
        1 => Just(Op::Sleep),
        1 => Just(Op::TakeUp),
    ]
}

/// A step of an honest pair.
#[derive(Clone, Copy, Debug)]
enum Step {
    Produce(u16),
    Consume(u16),
    /// The producer is killed after so many stores of a batch; the next one
    /// takes the queue up.
    Killed(u16, u32),
    NextConsumer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u16..12).prop_map(Step::Produce),
        8 => (0u16..12).prop_map(Step::Consume),
        2 => (1u16..12, 0u32..60).prop_map(|(n, stores)| Step::Killed(n, stores)),
        1 => Just(Step::NextConsumer),
    ]
}

/// An honest pair and the obvious model of it.
struct Pair<const N: usize> {
    depth: u32,
    to: Plain,
    from: Plain,
    producer: Producer<Plain, N>,
    consumer: Consumer<Plain, N>,
    inside: VecDeque<Entry<N>>,
    seed: u64,
}

impl<const N: usize> Pair<N> {
    fn new(depth: u32) -> Self {
        let (p, c) = sides(Shape::new(N as u32, depth).unwrap());
        let to = Plain { mine: p.clone(), theirs: c.clone() };
        let from = Plain { mine: c, theirs: p };
        let producer = Producer::new(to.clone(), depth).unwrap();
        let consumer = Consumer::new(from.clone(), depth).unwrap();
        Pair { depth, to, from, producer, consumer, inside: VecDeque::new(), seed: 0 }
    }

    fn entries(&mut self, count: u16) -> Vec<Entry<N>> {
        self.seed += 1_000;
        (0..u64::from(count)).map(|i| entry(self.seed + i)).collect()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Produce(count) => {
                let entries = self.entries(count);
                let room = self.depth as usize - self.inside.len();
                let fit = entries.len().min(room);
                assert_eq!(self.producer.produce(&entries), Ok(fit));
                self.inside.extend(&entries[..fit]);
            }
            Step::Consume(most) => {
                let mut got = vec![Entry::default(); most.into()];
                let count = self.consumer.consume(&mut got).unwrap();
                assert_eq!(count, self.inside.len().min(most.into()));
                let expected: Vec<_> = self.inside.drain(..count).collect();
                assert_eq!(got[..count], expected);
            }
            Step::Killed(count, stores) => self.kill(count, stores),
            Step::NextConsumer => {
                let consumed = self.consumer.consumed();
                self.consumer = Consumer::new(self.from.clone(), self.depth).unwrap();
                assert_eq!(self.consumer.consumed(), consumed);
            }
        }
    }

    /// R-QUE-9: of a batch all is there, or nothing.
    fn kill(&mut self, count: u16, stores: u32) {
        let entries = self.entries(count);
        let before = self.producer.produced();
        let fuse = Cell::new(u32::MAX);
        let dying =
            Producer::<_, N>::new(Killed { mem: self.to.clone(), stores: fuse }, self.depth);
        let mut dying = dying.unwrap();
        dying.memory().stores.set(stores);
        let fit = dying.produce(&entries).unwrap();
        self.producer = Producer::new(self.to.clone(), self.depth).unwrap();
        let there = (self.producer.produced() - before) as usize;
        assert!(there == 0 || there == fit, "{there} of {fit} are there");
        // Its words, a word each, and the note.
        assert_eq!(there == fit && fit > 0, stores >= (fit * N / 8) as u32 && fit > 0);
        self.inside.extend(&entries[..there]);
    }
}

fn consume_hostile<const N: usize>(depth: u32, ops: &[consumer_ops::Op]) {
    let mut model = ConsumerModel::<N>::new(depth);
    ops.iter().for_each(|op| model.step(*op));
}

fn produce_hostile<const N: usize>(depth: u32, ops: &[producer_ops::Op]) {
    let mut model = ProducerModel::<N>::new(depth);
    ops.iter().for_each(|op| model.step(*op));
}

fn honest<const N: usize>(depth: u32, steps: &[Step]) {
    let mut pair = Pair::<N>::new(depth);
    steps.iter().for_each(|step| pair.step(*step));
}

/// The same for an entry of this size.
macro_rules! sized {
    ($size:expr, $f:ident($($arg:expr),*)) => {
        match $size {
            16 => $f::<16>($($arg),*),
            32 => $f::<32>($($arg),*),
            64 => $f::<64>($($arg),*),
            _ => $f::<128>($($arg),*),
        }
    };
}

fn size() -> impl Strategy<Value = u32> {
    (4u32..8).prop_map(|n| 1 << n)
}

proptest! {
    #[test]
    fn an_honest_pair_is_a_queue(
        size in size(), depth in depth(),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        sized!(size, honest(depth, &steps));
    }

    #[test]
    fn a_hostile_producer_breaks_its_queue_and_nothing_else(
        size in size(), depth in depth(),
        ops in proptest::collection::vec(consumer_op(), 1..200),
    ) {
        sized!(size, consume_hostile(depth, &ops));
    }

    #[test]
    fn a_hostile_consumer_breaks_its_queue_and_nothing_else(
        size in size(), depth in depth(),
        ops in proptest::collection::vec(producer_op(), 1..200),
    ) {
        sized!(size, produce_hostile(depth, &ops));
    }
}

/// Stamps have 32 bits: the lap where they wrap is like any other.
#[test]
fn stamps_wrap() {
    use common::memory::{at, poke};
    use vfun_queue::layout::{header, stamp};
    let depth = 4;
    let begin = u64::from(u32::MAX) - 5;
    let (p, c) = sides(Shape::new(16, depth).unwrap());
    for position in begin - 4..begin {
        poke(&p, at::<16>(position, depth), stamp(position).into());
    }
    poke(&p, header::POSITION, begin);
    poke(&c, header::POSITION, begin);
    let to = Plain { mine: p.clone(), theirs: c.clone() };
    let mut producer = Producer::<_, 16>::new(to, depth).unwrap();
    let mut consumer = Consumer::<_, 16>::new(Plain { mine: c, theirs: p }, depth).unwrap();
    assert_eq!((producer.produced(), consumer.consumed()), (begin, begin));
    let mut got = [Entry::default(); 4];
    for n in 0..8u64 {
        assert_eq!(consumer.consume(&mut got), Ok(0));
        let entries = [entry(2 * n), entry(2 * n + 1), entry(99)];
        assert_eq!(producer.produce(&entries), Ok(3));
        assert_eq!(consumer.consume(&mut got), Ok(3));
        assert_eq!(got[..3], entries);
    }
}
