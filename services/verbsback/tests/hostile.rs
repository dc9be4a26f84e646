//! A guest that writes what it likes: random control calls, and random bytes in its side of the
//! channels, while the NIC's thread runs.

mod common;

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

fn name(place: usize) -> u64 {
    Name::new(place, 1).value()
}

/// What a program does that makes sense: a region, queues, a queue pair that talks to itself.
fn teach(fuzzer: &mut Fuzzer, sides: &Sides) {
    let (handle, [low, high]) = sides.named();
    let [context, pd, mr, cq, srq, qp, ah] = [0, 1, 2, 3, 4, 5, 6].map(name);
    let rights = u64::from(access::ALL);
    let rc = u64::from(QpType::Rc.to_wire());
    fuzzer.teach(calls::VFUN_NIC_OPEN, &[1, handle, low, high, context]);
    fuzzer.teach(calls::VFUN_NIC_PD_MAKE, &[context, pd]);
    for (page, pages) in [(0, 2), (3, 1)] {
        let words = [pd, 0, 8192, rights, 24, HANDLE, page, pages, mr];
        fuzzer.teach(calls::VFUN_NIC_MR_MAKE, &words);
    }
    fuzzer.teach(calls::VFUN_NIC_MR_ADD, &[mr, 24, HANDLE, 5, 1]);
    fuzzer.teach(calls::VFUN_NIC_CQ_MAKE, &[context, 64, 1, cq]);
    fuzzer.teach(calls::VFUN_NIC_SRQ_MAKE, &[pd, 16, 64, srq]);
    for shared in [srq, Name::NONE.value()] {
        let words = [pd, rc, 0, 16, 64, 16, 64, cq, cq, shared, qp];
        fuzzer.teach(calls::VFUN_NIC_QP_MAKE, &words);
    }
    let path = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
    for (state, mask) in [
        (QpState::Init, attribute::PKEY_INDEX | attribute::PORT | attribute::ACCESS_FLAGS),
        (QpState::Reset, 0),
        (QpState::Error, 0),
    ] {
        let mask = u64::from(attribute::STATE | mask);
        let state = u64::from(state.to_wire());
        let numbers = [state, 0, 5, 0, 0, 0, 0, rights, 0, 1];
        let words = [&[qp, mask][..], &path, &numbers, &[0; 9]].concat();
        fuzzer.teach(calls::VFUN_NIC_QP_MODIFY, &words);
    }
    fuzzer.teach(calls::VFUN_NIC_AH_MAKE, &[&[pd][..], &path, &[ah]].concat());
}

fn run(seed: u64, how_many: u64) -> Tally {
    let running = RunningNic::new();
    let mut trial = Trial::over(Verbs::over(running.nic.clone()), 4096);
    let often = (calls::VFUN_NIC_OPEN..=calls::VFUN_NIC_AH_END)
        .filter(|n| *n != calls::VFUN_NIC_CLOSE)
        .cycle()
        .take(84);
    let core = [numbers::ATTACHED, numbers::DETACH, calls::VFUN_NIC_CLOSE, 60];
    let all: Vec<u16> = often.chain(core).collect();
    let mut fuzzer = Fuzzer::new(seed, &all, &[HANDLE, 1, 16, 64]);
    let memory = shared(LENT);
    let (mut channels, mut tally, mut dice) = (vec![], Tally::default(), Dice::new(seed));
    for round in 0..ROUNDS {
        if !trial.is_lent(HANDLE) {
            trial.lend(HANDLE, Memory { start: memory[1].as_mut_ptr(), len: LENT * PAGE });
        }
        let sides = Sides::new(seed * 100 + round, true);
        channels.push((running.nic.add_channel(sides.clone()), sides.clone()));
        teach(&mut fuzzer, &sides);
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
    assert!(tally.made * 50 > tally.calls, "almost no call reached the NIC: {tally:?}");
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
    for seed in 1..=seeds {
        eprintln!("seed {seed}: {:?}", run(seed, how_many() / seeds));
    }
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
