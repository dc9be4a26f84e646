//! Doorbell bits and events, step by step against what must hold.
#![cfg(not(loom))]

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vfun_queue::{Consumer, Entry, Producer, Shape};
use vfun_verbs::bells::{BYTES, NicBells, ProgramBells};
use vfun_verbs::completions::{Answerer, Asker};

#[derive(Clone, Debug)]
enum Op {
    Post(usize),
    /// The NIC looks at the bits, and does what there is in the queues that it looks at.
    Look,
    /// It looks at a queue no more, unless there is something in it.
    Leave(usize),
    Sleep(bool),
}

const QPS: usize = 130;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..QPS).prop_map(Op::Post),
        (0usize..3).prop_map(Op::Post),
        Just(Op::Look),
        (0..QPS).prop_map(Op::Leave),
        (0usize..3).prop_map(Op::Leave),
        any::<bool>().prop_map(Op::Sleep),
    ]
}

proptest! {
    /// Whatever was posted is found at the next look; queue pairs without work are not looked
    /// at; the program is told to ring exactly while the NIC says that it sleeps.
    #[test]
    fn posts_are_found(ops in vec(op(), 0..200)) {
        let (mine, theirs) = sides(BYTES as u64, BYTES as u64);
        let (program, mut nic) = (ProgramBells::new(mine), NicBells::new(theirs));
        let (mut work, mut active) = (BTreeSet::new(), BTreeSet::new());
        let mut sleeps = false;
        for op in ops.into_iter().chain([Op::Look]) {
            match op {
                Op::Post(qp) => {
                    work.insert(qp);
                    prop_assert_eq!(program.posted(qp), sleeps);
                }
                Op::Look => {
                    if nic.rang() {
                        nic.each(0..QPS.div_ceil(64), |qp| { active.insert(qp); });
                    }
                    let found: BTreeSet<_> = work.difference(&active).collect();
                    prop_assert!(found.is_empty(), "not looked at: {:?}", found);
                    work.clear();
                }
                Op::Leave(qp) => {
                    if active.remove(&qp) {
                        nic.leave(qp);
                        if work.contains(&qp) {
                            active.insert(qp);
                        }
                    }
                }
                Op::Sleep(is) => {
                    sleeps = is;
                    if is { nic.declare_sleep() } else { nic.declare_awake() }
                }
            }
        }
    }

    /// A hostile program writes anything into its page.
    #[test]
    fn hostile_bits_name_no_other_queue_pair(words in vec((0usize..512, any::<u64>()), 0..50), words_end in 0usize..70) {
        let (mine, theirs) = sides(BYTES as u64, BYTES as u64);
        let mut nic = NicBells::new(theirs);
        for (at, word) in words {
            poke(&mine.mine, at, word);
            nic.rang();
            nic.each(0..words_end, |qp| assert!(qp < words_end * 64 && qp < 4096));
        }
    }

    /// One event for each time that was asked and answered, and only of what was asked for.
    #[test]
    fn events_are_those_that_were_asked_for(ops in vec((0u8..4, any::<bool>()), 0..100)) {
        let shape = Shape::new(64, 256).unwrap();
        let (mine, theirs) = sides(4096, shape.producer_bytes());
        let mut consumer = Consumer::<_, 64>::new(mine, 256).unwrap();
        let mut producer = Producer::<_, 64>::new(theirs, 256).unwrap();
        let (mut asker, mut answerer) = (Asker::new(), Answerer::default());
        let (mut asked, mut events) = (None, 0);
        for (op, solicited) in ops {
            match op {
                0 => {
                    asker.ask(&consumer, solicited);
                    asked = Some(solicited);
                }
                1 | 2 => {
                    producer.produce(&[Entry::default()]).unwrap();
                    let is = asked.is_some_and(|only| !only || solicited);
                    prop_assert_eq!(answerer.completed(&producer, solicited), is);
                    if is {
                        asked = None;
                        events += 1;
                    }
                }
                _ => {
                    prop_assert_eq!(asker.take(&consumer), events > 0);
                    events = u32::saturating_sub(events, 1);
                }
            }
            consumer.consume(&mut [Entry::default(); 1]).unwrap();
        }
    }
}
