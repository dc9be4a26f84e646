//! A guest that writes what it likes: random control calls, and random bytes in its side of the
//! channels, while the NIC's thread runs.

mod common;
#[path = "common/shapes.rs"]
mod shapes;

use common::*;
use std::sync::Arc;
use vfun_remoting::{Name, numbers};
use vfun_remoting_host::Memory;
use vfun_remoting_host::fuzz::{Dice, Fuzzer, Tally};
use vfun_remoting_host::trial::Trial;
use vfun_verbs::flags::{access, attribute};
use vfun_verbs::{QpState, QpType};
use vfun_verbsback::Verbs;
use vfun_verbsback::generated::calls;

/// Calls of each run; `VFUN_FUZZ_CALLS` says another number.
const CALLS: u64 = 20_000;
/// A new channel comes so often in a run.
const ROUNDS: u64 = 20;

fn how_many() -> u64 {
    std::env::var("VFUN_FUZZ_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(CALLS)
}

/// What a program does that makes sense: a region, queues, a queue pair. Each round has names of its own.
fn begin(trial: &mut Trial<Verbs>, sides: &Sides, round: u64) {
    let (handle, [low, high]) = sides.named();
    let name = |n: usize| Name::new(100 + 8 * round as usize + n, 1).value();
    let [context, pd, mr, cq, srq, qp, ah] = [0, 1, 2, 3, 4, 5, 6].map(name);
    let mut make = |call: u16, words: &[u64]| {
        trial.make(call, |w| words.iter().for_each(|word| w.u64(*word)));
    };
    let rights = u64::from(access::ALL);
    let rc = u64::from(QpType::Rc.to_wire());
    make(calls::VFUN_NIC_OPEN, &[1, handle, low, high, context]);
    make(calls::VFUN_NIC_PD_MAKE, &[context, pd]);
    make(calls::VFUN_NIC_MR_MAKE, &[pd, 0, 8192, rights, 24, HANDLE, 0, 2, mr]);
    make(calls::VFUN_NIC_CQ_MAKE, &[context, 64, 1, cq]);
    make(calls::VFUN_NIC_SRQ_MAKE, &[pd, 16, 64, srq]);
    make(calls::VFUN_NIC_QP_MAKE, &[pd, rc, 0, 16, 64, 16, 64, cq, cq, srq, qp]);
    let path = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
    let mask = attribute::STATE | attribute::PKEY_INDEX | attribute::PORT | attribute::ACCESS_FLAGS;
    let numbers = [u64::from(QpState::Init.to_wire()), 0, 5, 0, 0, 0, 0, rights, 0, 1];
    let words = [&[qp, u64::from(mask)][..], &path, &numbers, &[0; 9]].concat();
    make(calls::VFUN_NIC_QP_MODIFY, &words);
    make(calls::VFUN_NIC_AH_MAKE, &[&[pd][..], &path, &[ah]].concat());
}

fn run(seed: u64, how_many: u64) -> Tally {
    let running = RunningNic::new();
    let mut trial = Trial::over(Verbs::over(running.nic.clone()), 4096);
    let mut fuzzer = Fuzzer::new(Dice::new(seed), shapes::API, &[HANDLE]);
    let memory = shared(LENT);
    let (mut channels, mut tally, mut dice) = (vec![], Tally::default(), Dice::new(seed));
    for round in 0..ROUNDS {
        if !trial.is_lent(HANDLE) {
            trial.lend(HANDLE, Memory { start: memory[1].as_mut_ptr(), len: LENT * PAGE });
        }
        let sides = Sides::new(seed * 100 + round, true);
        channels.push((running.nic.add_channel(sides.clone()), sides.clone()));
        begin(&mut trial, &sides, round);
        tally = fuzzer.run(&mut trial, how_many / ROUNDS).and(tally);
        for (_, sides) in &channels {
            (0..64).for_each(|_| sides.scribble(dice.below(SIDE * PAGE / 8), dice.roll()));
            sides.ring_nic();
        }
        if round.is_multiple_of(3) {
            let (key, sides) = channels.swap_remove(dice.below(channels.len()));
            running.nic.end_channel(key);
            wait_for("the end of a channel", || (Arc::strong_count(&sides) <= 2).then_some(()));
        }
    }
    assert!(tally.reached() * 20 > tally.calls, "almost no call reached the NIC: {tally:?}");
    // All objects are freed, and with them the buffer, whatever was done before.
    trial.make(numbers::END, |_| ());
    if trial.is_lent(HANDLE) {
        trial.make(numbers::DETACH, |w| w.u64(HANDLE));
        assert!(!trial.is_lent(HANDLE), "the NIC has it still");
    }
    drop(trial);
    for (key, sides) in channels {
        running.nic.end_channel(key);
        assert_eq!(Arc::strong_count(&sides), 1, "the NIC has nothing of it");
    }
    tally
}

#[test]
fn nothing_that_a_guest_says_breaks_the_nic() {
    let seeds = 8;
    let all = (1..=seeds).map(|seed| run(seed, how_many() / seeds));
    let all = all.reduce(Tally::and).expect("some runs");
    assert_eq!(all.never_made(&shapes::API), [""; 0], "{all:?}");
}

/// Two programs work while a third one does what it likes.
#[test]
fn a_hostile_program_does_not_harm_its_neighbours() {
    let running = RunningNic::new();
    let mut pair = Pair::new(&running.nic);
    let mut hostile = Program::new(&running.nic);
    let cq = hostile.cq(16);
    let qp = hostile.qp(QpType::Rc, [&cq, &cq], Name::NONE);
    hostile.connect(&qp, (pair.qps[1].qpn, pair.b.lid));
    let mut dice = Dice::new(5);
    for round in 0..2000 {
        for _ in 0..4 {
            hostile.sides.scribble(dice.below(SIDE * PAGE / 8), dice.roll());
        }
        hostile.sides.ring_nic();
        pair.a.memory[0].write(0, &u64::to_le_bytes(round)).unwrap();
        pair.write(round, 4096, 8);
        assert_eq!(pair.cqs[0].wait().wr_id, round);
        assert_eq!(pair.b.bytes(4096, 8), round.to_le_bytes());
    }
}
