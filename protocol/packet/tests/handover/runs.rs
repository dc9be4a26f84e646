//! Runs of the world, each from a seed.

use crate::handover::deaths::Crashes;
use crate::handover::mutant::{ALL, Mutant};
use crate::handover::verdict::{Kind, Outcome};
use crate::handover::world::{Hostile, Plan, World};

fn run(seed: u64, crashes: Crashes, mutant: Mutant) -> Outcome {
    // Without deaths nobody is ever taken for silent.
    let pace = if crashes == Crashes::None { 1 } else { 40 };
    let hostile = Hostile::Nobody;
    World::new(Plan { seed, crashes, mutant, hostile, steps: 1500, pace }).run()
}

/// How many seeds: `VFUN_HANDOVER_SEEDS` says another number.
fn runs() -> u64 {
    std::env::var("VFUN_HANDOVER_SEEDS").map_or(800, |n| n.parse().expect("a number"))
}

/// Nothing is lost without being counted, repeated or out of order, and each flip ends.
fn all_is_well(crashes: Crashes) {
    let mut sum = Outcome::default();
    let runs = runs();
    for seed in 0..runs {
        let outcome = run(seed, crashes, Mutant::Nothing);
        if let Some((kind, wrong)) = outcome.wrong {
            panic!("{kind:?}: {wrong}");
        }
        sum.flips += outcome.flips;
        sum.delivered += outcome.delivered;
        sum.over_link += outcome.over_link;
        sum.crashes += outcome.crashes;
        sum.forced |= outcome.forced;
        (0..2).for_each(|n| sum.third[n] += outcome.third[n]);
    }
    println!("{crashes:?}: {sum:?}");
    assert!(sum.flips > runs, "too few flips to show anything: {sum:?}");
    // With a VM that is started anew the link is over, early in the run.
    let share = if crashes == Crashes::Anew { 40 } else { 20 };
    assert!(sum.over_link > sum.delivered / share, "too little goes over the link: {sum:?}");
    let may_crash = crashes != Crashes::None;
    assert!(may_crash == (sum.crashes > runs / 2), "{sum:?}");
}

#[test]
fn a_handover_loses_repeats_and_reorders_nothing() {
    all_is_well(Crashes::None);
}

#[test]
fn nor_does_it_when_the_sender_dies() {
    all_is_well(Crashes::Sender);
}

#[test]
fn nor_does_it_when_the_receiver_dies() {
    all_is_well(Crashes::Receiver);
}

#[test]
fn nor_does_it_when_the_switch_dies() {
    all_is_well(Crashes::Switch);
}

#[test]
fn nor_does_it_when_the_manager_dies() {
    all_is_well(Crashes::Manager);
}

#[test]
fn nor_does_it_when_half_a_driver_is_made_anew() {
    all_is_well(Crashes::Half);
}

#[test]
fn nor_does_it_when_a_vm_is_started_anew() {
    all_is_well(Crashes::Anew);
}

/// A VM that is stopped is taken for silent, and finds another world when it goes on.
#[test]
fn nor_does_it_when_somebody_is_stopped() {
    all_is_well(Crashes::Stops);
}

/// A party that dies between two stores: what it had in its hands may be lost, and nothing
/// else goes wrong.
#[test]
fn nor_does_it_when_anybody_dies_anywhere() {
    all_is_well(Crashes::Anywhere);
}

#[test]
fn each_step_is_needed() {
    for mutant in ALL {
        let is_found = |seed: &u64| {
            let wrong = run(*seed, Crashes::None, mutant).wrong;
            wrong.is_some_and(|(kind, _)| matches!(kind, Kind::Order | Kind::Lost))
        };
        let found = (0..300).filter(is_found).count();
        println!("{mutant:?}: {found} of 300");
        assert!(found >= 60, "{mutant:?} was found in {found} of 300 runs");
    }
}

/// No panic; the honest VM is back on the switch at the end, and knows it; C, whose frames
/// come the same way, is not touched.
fn hostile(hostile: Hostile) {
    let mut sum = Outcome::default();
    for seed in 0..runs() {
        for crashes in [Crashes::None, Crashes::Switch, Crashes::Manager] {
            let mutant = Mutant::Nothing;
            let plan = Plan { seed, crashes, mutant, hostile, steps: 1500, pace: 40 };
            let outcome = World::new(plan).run();
            if let Some((kind, wrong)) = outcome.wrong {
                panic!("{kind:?}: {wrong}");
            }
            sum.flips += outcome.flips;
            (0..2).for_each(|n| sum.third[n] += outcome.third[n]);
        }
    }
    println!("{hostile:?}: {sum:?}");
    assert!(sum.flips > runs() / 4, "the handover was hardly tried: {sum:?}");
    // The switch drops one of 16, and B's ring may be full.
    let [sent, came] = sum.third;
    assert!(hostile == Hostile::Receiver || came > sent / 2, "C is kept out: {sum:?}");
}

#[test]
fn a_hostile_sender_hurts_only_itself() {
    hostile(Hostile::Sender);
}

#[test]
fn a_hostile_receiver_hurts_only_itself() {
    hostile(Hostile::Receiver);
}
