//! Random operations on the ends of a ring: an honest pair against a list, and each end
//! against a peer that writes anything anywhere.
#![cfg(not(loom))]

mod common;
mod handover;
#[path = "common/raced.rs"]
mod raced;
#[path = "common/strategy.rs"]
mod strategy;

use common::plain::peek;
use common::{Op, Pair, frame, note, sum};
use proptest::prelude::*;
use std::collections::VecDeque;
use strategy::op;
use vfun_packet::layout::header;
use vfun_packet::{Note, Ring, Sent, Taken};

/// An honest pair: what is put comes out whole and in order, what does not fit is counted,
/// and nothing is seen before it is published. A receiver that takes notes gets each frame with its own.
fn honest(ops: &[Op]) {
    let mut pair = Pair::new();
    let (mut put, mut shown) = (VecDeque::new(), VecDeque::new());
    let (mut sent, mut taken) = (Sent::default(), Taken::default());
    for op in ops {
        let said = pair.step(*op);
        match *op {
            Op::Put { bytes, seed } | Op::PutNoted { bytes, seed } if said == "put" => {
                let is_noted = matches!(op, Op::PutNoted { .. });
                put.push_back((
                    frame(bytes, seed),
                    if is_noted { note(seed) } else { Note::default() },
                ));
                sent.frames += 1;
                sent.bytes += u64::from(bytes);
            }
            Op::Put { bytes, .. } if bytes == 0 || bytes > 2040 => sent.too_long += 1,
            Op::PutNoted { bytes, .. } if bytes == 0 || bytes > 2024 => sent.too_long += 1,
            Op::Put { .. } | Op::PutNoted { .. } => sent.full += 1,
            Op::Publish => {
                assert_eq!(said == "1", !put.is_empty());
                shown.append(&mut put);
            }
            Op::GetNoted { room } => match shown.pop_front() {
                None => assert_eq!(said, "none"),
                Some((f, note)) if f.len() > room as usize => {
                    assert_eq!(said, format!("got 0 0 note {}", sum(note.header())));
                    taken.refused += 1;
                }
                Some((f, note)) => {
                    let of_note = sum(note.header());
                    assert_eq!(said, format!("got {} {} note {of_note}", f.len(), sum(&f)));
                    taken.frames += 1;
                    taken.bytes += f.len() as u64;
                }
            },
            Op::Sleep => assert_eq!(said == "1", !shown.is_empty()),
            _ => {}
        }
        assert_eq!((pair.tx.counts(), pair.rx.counts()), (sent, taken));
    }
    pair.tx.publish();
    pair.rx.take();
    assert_eq!(peek(&pair.sender_side, header::SENT), sent.frames);
    assert_eq!(peek(&pair.receiver_side, header::TAKEN_BYTES), taken.bytes);
}

/// What an honest process does: it neither writes elsewhere nor ends with something unsaid.
fn is_honest(op: &Op) -> bool {
    !matches!(
        op,
        Op::PokeSender { .. } | Op::PokeReceiver { .. } | Op::TakeUpSender | Op::TakeUpReceiver
    )
}

/// Each receiver takes notes here: an honest sender sends them to no other one.
fn takes_notes(op: Op) -> Op {
    match op {
        Op::Get { room } => Op::GetNoted { room },
        op => op,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_honest_pair_loses_nothing(ops in prop::collection::vec(op(), 1..300)) {
        let ops: Vec<Op> = ops.into_iter().map(takes_notes).filter(is_honest).collect();
        honest(&ops);
    }

    /// No panic, no access outside of the side (`Plain` checks it), and no more frames at
    /// once than a ring has records, whatever was written where.
    #[test]
    fn a_hostile_peer_spoils_its_own_frames_alone(ops in prop::collection::vec(op(), 1..300)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.step(op);
            let mut to = [0; 4096];
            let most = common::RING / 64;
            let got = std::iter::from_fn(|| pair.rx.next(&mut to)).take(most as usize + 1).count();
            prop_assert!(got as u64 <= most);
        }
    }
}

/// A whole lap in frames of every length that fits, over the end of the ring.
#[test]
fn every_length_comes_over_the_end_of_the_ring() {
    let mut pair = Pair::new();
    for bytes in 1..=Ring::new(common::RING).unwrap().longest() {
        assert_eq!(pair.step(Op::Put { bytes, seed: bytes }), "put", "{bytes}");
        pair.tx.publish();
        let expected = format!("got {bytes} {}", sum(&frame(bytes, bytes)));
        assert_eq!(pair.step(Op::Get { room: 4096 }), expected);
        pair.rx.take();
    }
}

/// For a receiver that takes no notes a frame with one makes no sense: all that was published with it is lost (R-PKT-9).
#[test]
fn who_takes_no_notes_gets_none() {
    let mut pair = Pair::new();
    assert_eq!(pair.step(Op::PutNoted { bytes: 100, seed: 1 }), "put");
    assert_eq!(pair.step(Op::Put { bytes: 100, seed: 2 }), "put");
    pair.tx.publish();
    assert_eq!(pair.step(Op::Get { room: 4096 }), "none");
    assert_eq!(pair.rx.counts(), Taken { bad: 1, ..Taken::default() });
    assert_eq!(pair.tx.counts().bytes, 200, "notes are not counted");
}

/// Who sleeps is rung for the first frame, once; who is awake is not rung.
#[test]
fn who_sleeps_is_rung_once() {
    let mut pair = Pair::new();
    let send = |pair: &mut Pair| {
        pair.step(Op::Put { bytes: 60, seed: 1 });
        pair.tx.publish();
        pair.tx.must_ring()
    };
    pair.rx.declare_sleep();
    assert!(!pair.rx.is_there());
    assert!(send(&mut pair));
    assert!(!send(&mut pair), "it was rung already");
    while pair.step(Op::Get { room: 4096 }) != "none" {}
    assert!(!send(&mut pair), "it is awake");
    pair.rx.declare_sleep();
    assert!(pair.rx.is_there(), "it must not sleep: a frame is there");
}

/// A receiver that believed a wrong position finds its way again at the next burst.
#[test]
fn a_receiver_that_lost_its_way_finds_it_again() {
    let mut pair = Pair::new();
    for at in [7 * 64 + 1, 1 << 40, u64::MAX] {
        pair.step(Op::PokeSender { at: 0, value: at });
        assert_eq!(pair.step(Op::Get { room: 4096 }), "none");
        pair.rx.take();
        pair.tx.publish();
        assert_eq!(pair.step(Op::Get { room: 4096 }), "none");
        pair.rx.take();
        assert_eq!(pair.step(Op::Put { bytes: 100, seed: 3 }), "put");
        pair.tx.publish();
        let expected = format!("got 100 {}", sum(&frame(100, 3)));
        assert_eq!(pair.step(Op::Get { room: 4096 }), expected);
        pair.rx.take();
    }
    assert_eq!(pair.rx.counts().frames, 3);
}
