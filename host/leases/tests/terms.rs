//! What holds for one grant beyond the policy: confirmation, pins, reserves, caps.

use vfun_leases::{Engine, GrantId, Policy, Reason, Sample, Settings, Stand, Terms};

fn engine(vfs: u16, grants: u64, settings: Settings) -> Engine {
    let mut e = Engine::new(0, vfs, settings).unwrap();
    (0..grants).for_each(|id| e.enter(0, id, id as u32, 5, 1000.0).unwrap());
    e
}

fn activity() -> Settings {
    let policy = Policy::Activity;
    Settings { policy, interval_ms: 100, min_hold_ms: 300, hysteresis: 0.25, ..Settings::default() }
}

/// Runs so many decisions at these rates: how often each held VF 0.
fn run(e: &mut Engine, from: u64, steps: u64, rates: &[u64]) -> Vec<u64> {
    let mut held = vec![0; rates.len()];
    for step in from + 1..=from + steps {
        for (id, calls) in rates.iter().enumerate() {
            e.sample(id as GrantId, Sample { calls: *calls, ..Sample::default() });
        }
        e.decide(step * 100);
        if let Some(id) = e.holder(0) {
            held[id as usize] += 1;
        }
    }
    held
}

#[test]
fn a_challenger_has_to_be_better_twice_where_that_is_asked() {
    for confirm in [1, 2, 3] {
        let mut e = engine(1, 2, Settings { confirm, min_hold_ms: 0, ..activity() });
        run(&mut e, 0, 10, &[100, 10]);
        assert_eq!(e.holder(0), Some(0));
        // A burst of one decision, halved at each one after it: 305, 157, 83.
        let after = (10..13).map(|at| {
            run(&mut e, at, 1, &[100, if at == 10 { 600 } else { 10 }]);
            e.holder(0).unwrap()
        });
        let after: Vec<_> = after.collect();
        assert_eq!(after.contains(&1), confirm <= 2, "{confirm}: {after:?}");
        assert_eq!(after[0], u64::from(confirm == 1), "{confirm}: {after:?}");
    }
}

#[test]
fn one_that_waits_for_its_confirmation_says_so() {
    let mut e = engine(1, 2, Settings { confirm: 2, min_hold_ms: 0, ..activity() });
    run(&mut e, 0, 10, &[100, 10]);
    run(&mut e, 10, 1, &[100, 1000]);
    assert!(matches!(e.standing(1).unwrap().reason, Reason::Unconfirmed { .. }));
}

#[test]
fn a_free_vf_needs_no_confirmation() {
    let mut e = engine(1, 2, Settings { confirm: 100, ..activity() });
    run(&mut e, 0, 1, &[10, 100]);
    assert_eq!(e.holder(0), Some(1));
}

#[test]
fn a_pinned_one_gets_a_vf_after_the_holders_turn_and_keeps_it() {
    let mut e = engine(1, 2, activity());
    run(&mut e, 0, 10, &[100, 0]);
    e.set_terms(1000, 1, Terms { stand: Stand::Pinned, ..Terms::default() });
    let held = run(&mut e, 10, 50, &[100, 0]);
    assert_eq!(held, [0, 50]);
    assert_eq!(e.standing(1).unwrap().reason, Reason::Pinned);
}

#[test]
fn one_that_is_out_loses_its_vf_at_once_and_gets_none() {
    let mut e = engine(1, 2, activity());
    let out = Terms { stand: Stand::Out, ..Terms::default() };
    assert_eq!(e.offer(0, 0), None, "1 waits for it too");
    e.set_terms(0, 1, out);
    assert_eq!(e.offer(0, 0).unwrap().vf, 0);
    e.set_terms(0, 1, Terms::default());
    assert_eq!(e.set_terms(10, 0, out), Some(0));
    assert_eq!((e.holder(0), e.offer(20, 0)), (None, None));
    assert_eq!(run(&mut e, 0, 20, &[1000, 1]), [0, 20]);
    assert_eq!(e.standing(0).unwrap().reason, Reason::Out);
    // It waits for nothing: a new one is given at once what nobody else wants.
    e.remove(1);
    e.enter(3000, 7, 7, 5, 1000.0).unwrap();
    assert!(e.offer(3000, 7).is_some());
}

#[test]
fn a_reserve_is_given_and_no_more_than_that() {
    let mut e = engine(1, 2, activity());
    e.set_terms(0, 1, Terms { reserve_percent: 20, ..Terms::default() });
    let held = run(&mut e, 0, 2000, &[1000, 1]);
    assert!((380..=430).contains(&held[1]), "{held:?}");
}

#[test]
fn a_cap_bounds_the_time_even_of_the_busiest() {
    let mut e = engine(1, 2, activity());
    e.set_terms(0, 0, Terms { cap_percent: 40, ..Terms::default() });
    let held = run(&mut e, 0, 2000, &[1000, 1]);
    assert!((720..=810).contains(&held[0]), "{held:?}");
    assert_eq!(held[0] + held[1], 2000);
}

#[test]
fn a_vf_that_is_held_already_is_taken_as_held() {
    let mut e = engine(2, 2, activity());
    assert!(e.hold(0, 1, 1));
    assert!(!e.hold(0, 0, 1) && !e.hold(0, 1, 0) && !e.hold(0, 9, 0));
    assert_eq!((e.holder(0), e.holder(1)), (None, Some(1)));
}

#[test]
fn a_turn_that_begins_later_ends_later() {
    let mut e = engine(1, 2, activity());
    e.hold(0, 0, 0);
    e.begin_turn(900, 0);
    run(&mut e, 0, 11, &[1, 1000]);
    assert_eq!(e.holder(0), Some(0), "300 ms from 900 are not over");
    run(&mut e, 11, 1, &[1, 1000]);
    assert_eq!(e.holder(0), Some(1));
}

#[test]
fn a_pinned_one_gets_a_vf_under_every_policy_and_leaves_it_when_it_is_not_pinned() {
    for policy in [Policy::None, Policy::First] {
        let mut e = engine(1, 2, Settings { policy, ..activity() });
        run(&mut e, 0, 10, &[100, 0]);
        assert_eq!(e.holder(0), (policy == Policy::First).then_some(0), "{policy}");
        e.set_terms(1000, 1, Terms { stand: Stand::Pinned, ..Terms::default() });
        assert_eq!(run(&mut e, 10, 50, &[100, 0]), [0, 50], "{policy}");
        e.set_terms(6000, 1, Terms::default());
        run(&mut e, 60, 10, &[100, 0]);
        assert_eq!(e.holder(0), (policy == Policy::First).then_some(1), "{policy}");
        assert_eq!(e.standing(0).unwrap().vf, None, "{policy}");
    }
}

#[test]
fn where_the_policy_gives_none_a_reserve_lasts_a_whole_turn_each_time() {
    let mut e = engine(1, 2, Settings { policy: Policy::None, ..activity() });
    e.set_terms(0, 1, Terms { reserve_percent: 20, ..Terms::default() });
    let (mut turns, mut this, mut all) = (0, 0, 0);
    for at in 0..2000 {
        this += run(&mut e, at, 1, &[1000, 1])[1];
        if e.holder(0).is_none() && this > 0 {
            assert!(this >= 3, "it was taken after {this} decisions");
            (turns, all, this) = (turns + 1, all + this, 0);
        }
    }
    assert!(turns > 50 && (380..=430).contains(&all), "{turns} turns, {all} decisions");
    assert_eq!(e.standing(0).unwrap().reason, Reason::PolicyNone);
}

#[test]
fn a_change_to_no_policy_takes_what_the_policy_gave_at_the_next_decision() {
    let mut e = engine(1, 2, activity());
    run(&mut e, 0, 10, &[1000, 1]);
    // A turn that has just begun.
    e.begin_turn(1000, 0);
    e.set(Settings { policy: Policy::None, ..activity() }).unwrap();
    run(&mut e, 10, 1, &[1000, 1]);
    assert_eq!(e.holder(0), None);
}

#[test]
fn a_reserve_counts_no_time_before_its_turn_begins() {
    let mut e = engine(1, 2, activity());
    e.set_terms(0, 1, Terms { reserve_percent: 20, ..Terms::default() });
    let (mut moving, mut held) = (0, 0);
    for at in 0..2000 {
        // Each move to it lasts for three decisions.
        moving = if e.holder(0) == Some(1) { moving + 1 } else { 0 };
        if (1..=3).contains(&moving) {
            e.begin_turn((at + 1) * 100, 1);
        }
        run(&mut e, at, 1, &[1000, 1]);
        held += u64::from(moving > 3);
    }
    assert!((380..=430).contains(&held), "{held}");
}
