//! The engine as its users see it.

use proptest::prelude::*;
use std::collections::BTreeSet;
use vfun_leases::{Engine, GrantId, Policy, Reason, Sample, Settings};

fn settings(policy: Policy) -> Settings {
    Settings { policy, interval_ms: 100, min_hold_ms: 100, ..Settings::default() }
}

fn calls(calls: u64) -> Sample {
    Sample { calls, ..Sample::default() }
}

fn holders(e: &Engine, vfs: u16) -> BTreeSet<GrantId> {
    (0..vfs).filter_map(|vf| e.holder(vf)).collect()
}

/// 100 grants in four groups, call rates as 20:40:80:100.
fn groups(policy: Policy, vfs: u16) -> Engine {
    let mut e = Engine::new(0, vfs, settings(policy)).unwrap();
    for id in 0..100 {
        e.add(0, id, id as u32, 5, 1000.0).unwrap();
    }
    e
}

fn rate(id: GrantId) -> u64 {
    [20, 40, 80, 100][(id / 25) as usize]
}

#[test]
fn activity_gives_the_top_group_the_vfs_within_two_intervals() {
    for policy in [Policy::Activity, Policy::Gain] {
        let mut e = groups(policy, 25);
        for step in 1..=2 {
            (0..100).for_each(|id| e.sample(id, calls(rate(id))));
            e.decide(step * 100);
        }
        assert_eq!(holders(&e, 25), (75..100).collect(), "{policy}");
        let below = e.standing(60).unwrap();
        assert!(matches!(below.reason, Reason::Below { .. }), "{}", below.reason);
    }
}

#[test]
fn who_gets_no_vf_because_all_are_kept_is_told_so() {
    let settings = Settings { min_hold_ms: 1000, ..settings(Policy::Activity) };
    let mut e = Engine::new(0, 1, settings).unwrap();
    for id in 0..2 {
        e.add(0, id, id as u32, 5, 1000.0).unwrap();
    }
    e.sample(0, calls(10));
    e.decide(100);
    assert_eq!(e.holder(0), Some(0));
    (0..2).for_each(|id| e.sample(id, calls(10 + 1000 * id)));
    e.decide(200);
    let why = e.standing(1).unwrap().reason;
    assert!(matches!(why, Reason::AllKept { .. }), "{why}");
    assert!(why.to_string().contains("minimum time"), "{why}");
}

#[test]
fn rates_equal_within_five_percent_do_not_flap() {
    let mut e = groups(Policy::Activity, 10);
    let mut moves = 0;
    for step in 1..200 {
        for id in 0..100 {
            // Each a little above or below the others, another one each time.
            let wobble = (id * 7 + step * 13) % 11;
            e.sample(id, calls(1000 + wobble * 5));
        }
        let plan = e.decide(step * 100);
        if step > 2 {
            moves += plan.moves.len();
        }
    }
    assert_eq!(moves, 0);
}

#[test]
fn fair_gives_everybody_the_same_time() {
    let mut e = groups(Policy::Fair, 10);
    let mut held = [0u64; 100];
    for step in 1..=400 {
        for vf in 0..10 {
            held[e.holder(vf).unwrap() as usize] += 1;
        }
        (0..100).for_each(|id| e.sample(id, calls(rate(id))));
        e.decide(step * 100);
    }
    let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
    assert_eq!(held.iter().sum::<u64>(), 4000);
    assert!(most - least <= 2, "{least} to {most} intervals");
}

#[test]
fn a_steady_one_is_not_starved_by_fair_and_is_by_activity() {
    for (policy, starves) in [(Policy::Fair, false), (Policy::Activity, true)] {
        let mut e = Engine::new(0, 1, settings(policy)).unwrap();
        for id in 0..4 {
            e.add(0, id, id as u32, 5, 1000.0).unwrap();
        }
        let mut held = 0;
        for step in 1..=100 {
            e.sample(3, calls(10));
            (0..3).for_each(|id| e.sample(id, calls(1000)));
            e.decide(step * 100);
            held += u32::from(e.holder(0) == Some(3));
        }
        assert_eq!(held == 0, starves, "{policy}: {held}");
        assert!(starves || held >= 24, "{policy}: {held}");
    }
}

#[test]
fn gain_prefers_few_calls_that_save_much_and_leaves_those_that_lose() {
    let mut e = Engine::new(0, 1, settings(Policy::Gain)).unwrap();
    for id in 0..3 {
        e.add(0, id, id as u32, 5, 0.0).unwrap();
    }
    for step in 1..=10 {
        let s = |calls, soft, hard| Sample { calls, soft_ns: Some(soft), hard_ns: Some(hard) };
        e.sample(0, s(100_000, 1_000.0, 990.0));
        e.sample(1, s(100, 9_000_000.0, 1_000_000.0));
        e.sample(2, s(1_000_000, 1_000.0, 2_000.0));
        e.decide(step * 100);
    }
    assert_eq!(e.holder(0), Some(1));
    assert_eq!(e.standing(2).unwrap().reason, Reason::NoGain);
}

#[test]
fn one_clients_numbers_do_not_say_what_others_may_expect() {
    let settings = Settings { client_vfs: Some(1), ..settings(Policy::Gain) };
    let s = |soft, hard| Sample { calls: 100, soft_ns: Some(soft), hard_ns: hard };
    for faked in [1e15, 1e-3] {
        let mut e = Engine::new(0, 4, settings).unwrap();
        // Three that were measured, one that was not, and one with very many grants
        // that says of each whatever it likes.
        (0..4).for_each(|id| e.add(0, id, id as u32, 5, 0.0).map(drop).unwrap());
        (10..60).for_each(|id| e.add(0, id, 9, 5, 0.0).map(drop).unwrap());
        for step in 1..=10 {
            (0..3).for_each(|id| e.sample(id, s(1e6, Some(0.5e6))));
            e.sample(3, s(1e6, None));
            (10..60).for_each(|id| e.sample(id, s(1e6, Some(faked))));
            e.decide(step * 100);
        }
        let (known, new) = (e.standing(0).unwrap().score, e.standing(3).unwrap().score);
        assert!((new / known - 1.0).abs() < 0.01, "faked {faked}: {new} as {known}");
    }
}

#[test]
fn a_cap_bounds_a_client_and_a_priority_weighs() {
    let mut s = settings(Policy::Activity);
    s.client_vfs = Some(1);
    let mut e = Engine::new(0, 3, s).unwrap();
    for id in 0..4 {
        e.add(0, id, if id < 3 { 7 } else { 8 }, 5, 0.0).unwrap();
    }
    (0..4).for_each(|id| e.sample(id, calls(100 - id)));
    e.decide(200);
    assert_eq!(holders(&e, 3), [0, 3].into());
    assert_eq!(e.standing(1).unwrap().reason, Reason::Capped);

    let mut e = Engine::new(0, 1, settings(Policy::Activity)).unwrap();
    e.add(0, 1, 1, 5, 0.0).unwrap();
    e.add(0, 2, 2, 7, 0.0).unwrap();
    for step in 1..=3 {
        e.sample(1, calls(300));
        e.sample(2, calls(100));
        e.decide(step * 100);
    }
    assert_eq!(e.holder(0), Some(2), "two steps of priority count fourfold");
}

#[test]
fn a_lost_vf_is_given_to_nobody_until_it_is_back() {
    let mut e = Engine::new(0, 1, settings(Policy::Activity)).unwrap();
    assert!(e.add(0, 1, 1, 5, 0.0).unwrap().is_some(), "a free one is given at once");
    let lost = e.lose(10, 0).unwrap();
    assert_eq!((lost.from, lost.to), (Some(1), None));
    e.sample(1, calls(5));
    assert!(e.decide(100).moves.is_empty());
    e.restore(0);
    e.sample(1, calls(5));
    let plan = e.decide(200);
    assert_eq!((plan.moves[0].from, plan.moves[0].to), (None, Some(1)));
    assert_eq!(e.remove(1), Some(0));
}

#[test]
fn whoever_is_kept_off_a_vf_leaves_it_to_others() {
    let off = |list: &[(u32, u16)]| list.iter().copied().collect::<BTreeSet<_>>();
    // Client 1 does by far the most, and may have neither VF.
    let mut e = Engine::new(0, 2, settings(Policy::Activity)).unwrap();
    for id in [10, 11, 20, 30] {
        e.add(0, id, id as u32 / 10, 5, 0.0).unwrap();
    }
    let decide = |e: &mut Engine, now: u64| {
        for (id, n) in [(10, 900), (11, 800), (20, 20), (30, 10)] {
            e.sample(id, calls(n));
        }
        e.decide(now)
    };
    decide(&mut e, 1000);
    assert_eq!(holders(&e, 2), [10, 11].into());
    e.keep_off(1001, off(&[(1, 0), (1, 1)]));
    assert_eq!(holders(&e, 2), [].into(), "it loses what it had");
    decide(&mut e, 2000);
    assert_eq!(holders(&e, 2), [20, 30].into());
    assert_eq!(e.standing(10).unwrap().reason, Reason::KeptOff);
    // One of them it may have: that one, and no more; and nobody is displaced
    // who has the other.
    e.keep_off(2001, off(&[(1, 0)]));
    decide(&mut e, 3000);
    decide(&mut e, 4000);
    assert_eq!((e.holder(1), holders(&e, 2).len()), (Some(10), 2));
    assert_eq!(e.standing(11).unwrap().reason, Reason::KeptOff);
    e.keep_off(4001, off(&[]));
    decide(&mut e, 5000);
    assert_eq!(holders(&e, 2), [10, 11].into());
}

#[test]
fn a_vf_that_only_some_may_have_is_not_wasted_on_the_others() {
    // In order: client 1 may have both, client 2 only VF 0, which client 1 would
    // be given first.
    let mut e = Engine::new(0, 2, settings(Policy::First)).unwrap();
    e.keep_off(0, [(2, 1), (3, 0), (3, 1)].into());
    e.lose(0, 0);
    e.lose(0, 1);
    for id in [1, 2, 3, 4] {
        assert!(e.add(id, id, id as u32, 5, 0.0).unwrap().is_none());
    }
    e.restore(0);
    e.restore(1);
    let plan = e.decide(100);
    assert_eq!(plan.moves.len(), 2);
    assert_eq!((e.holder(0), e.holder(1)), (Some(2), Some(1)));
    // A new one is not given at once what it is kept off.
    e.remove(1);
    assert!(e.add(200, 5, 3, 5, 0.0).unwrap().is_none());
    // And one that waits for it longer is before all new ones.
    assert!(e.add(200, 7, 5, 5, 0.0).unwrap().is_none());
    e.remove(4);
    e.remove(7);
    assert_eq!(e.add(200, 6, 4, 5, 0.0).unwrap().unwrap().vf, 1);
}

/// Whoever lets go of a VF and comes back as somebody new at once has not waited.
#[test]
fn a_vf_that_was_given_back_goes_to_those_who_wait_not_to_who_comes() {
    for policy in [Policy::First, Policy::Fair, Policy::Activity, Policy::Gain] {
        let hold = Settings { min_hold_ms: 2000, ..settings(policy) };
        let mut e = Engine::new(0, 1, hold).unwrap();
        e.add(0, 1000, 1, 5, 1000.0).unwrap().expect("nobody waits");
        e.add(0, 1, 2, 5, 1000.0).unwrap();
        let (mut held, mut last) = (0, 1000);
        for step in 1..=100 {
            e.sample(1, calls(1000));
            e.decide(step * 100);
            held += u32::from(e.holder(0) == Some(1));
            // It never calls, and comes anew before its time is over.
            if step % 15 == 0 {
                e.remove(last);
                last += 1;
                assert_eq!(e.add(step * 100, last, 1, 5, 1000.0).unwrap(), None, "{policy}");
            }
        }
        assert!(held >= 80, "{policy}: {held} of 100");
    }
}

#[test]
fn a_free_vf_is_given_at_once_where_nobody_wants_it() {
    let mut s = settings(Policy::Activity);
    s.client_vfs = Some(1);
    let mut e = Engine::new(0, 2, s).unwrap();
    e.keep_off(0, [(3, 1)].into());
    // One idle, one at its bound, one kept off: none of them could use it.
    for (id, client) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        e.add(0, id, client, 5, 0.0).unwrap();
    }
    (2..=4).for_each(|id| e.sample(id, calls(10)));
    e.decide(200);
    e.sample(4, calls(100));
    e.sample(2, calls(100));
    e.decide(400);
    assert_eq!(e.holder(0), Some(4), "{:?}", e.standing(4));
    assert_eq!(e.remove(2), Some(1));
    // Client 2's other one waits for it now, and client 3 may not have it.
    assert_eq!(e.add(410, 5, 4, 5, 0.0).unwrap(), None);
    e.remove(3);
    assert!(e.add(420, 6, 5, 5, 0.0).unwrap().is_none(), "the one before waits");
    e.remove(5);
    e.remove(6);
    assert_eq!(e.add(430, 7, 6, 5, 0.0).unwrap().unwrap().vf, 1);
}

#[test]
fn nobody_saves_up_turns() {
    let mut e = Engine::new(0, 1, settings(Policy::Fair)).unwrap();
    for id in [1, 2, 3] {
        e.add(0, id, id as u32, 5, 0.0).unwrap();
    }
    let mut now = 0;
    let mut run = |e: &mut Engine, steps: u64, busy: &[GrantId]| {
        let mut held = std::collections::BTreeMap::new();
        for _ in 0..steps {
            now += 100;
            busy.iter().for_each(|id| e.sample(*id, calls(10)));
            e.decide(now);
            *held.entry(e.holder(0)).or_insert(0) += 1;
        }
        held
    };
    // One makes no calls for a long time.
    run(&mut e, 10_000, &[1, 2]);
    let held = run(&mut e, 30, &[1, 2, 3]);
    assert!(held.get(&Some(3)).is_some_and(|n| (9..=12).contains(n)), "{held:?}");
    // Nor does somebody new start with what one that rests did not use.
    run(&mut e, 10_000, &[1, 2]);
    e.add(5_000_000, 4, 4, 5, 0.0).unwrap();
    let held = run(&mut e, 30, &[1, 2, 4]);
    assert!(held.get(&Some(4)).is_some_and(|n| (9..=12).contains(n)), "{held:?}");
}

#[test]
fn who_makes_no_calls_any_more_has_no_turn() {
    let mut e = Engine::new(0, 1, settings(Policy::Fair)).unwrap();
    for id in [1, 2] {
        e.add(0, id, id as u32, 5, 0.0).unwrap();
        e.sample(id, calls(1_000_000));
    }
    for step in 1..=60 {
        e.sample(1, calls(10));
        e.decide(step * 100);
    }
    assert_eq!(e.standing(2).unwrap().reason, Reason::Idle);
    // One that calls seldom is not idle.
    let mut idle = 0;
    for step in 61..=260 {
        e.sample(1, calls(10));
        if step % 10 == 1 {
            e.sample(2, calls(1));
        }
        e.decide(step * 100);
        idle += u32::from(e.standing(2).unwrap().reason == Reason::Idle);
    }
    assert_eq!(idle, 0);
}

#[test]
fn wrong_settings_are_named() {
    let bad = |change: fn(&mut Settings)| {
        let mut s = Settings::default();
        change(&mut s);
        s.check().unwrap_err()
    };
    assert!(bad(|s| s.interval_ms = 1).contains("interval"));
    assert!(bad(|s| s.hysteresis = f64::NAN).contains("hysteresis"));
    assert!(bad(|s| s.rate_cap = Some(0.0)).contains("rate_cap"));
    assert!("fastest".parse::<Policy>().unwrap_err().contains("'fastest'"));
}

#[derive(Clone, Debug)]
enum Step {
    Add(GrantId, u32, u8),
    Remove(GrantId),
    Sample(GrantId, u64, f64, f64),
    Lose(u16),
    Restore(u16),
    KeepOff(BTreeSet<(u32, u16)>),
    Policy(usize),
    Decide(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..20u64, 0..5u32, any::<u8>()).prop_map(|(g, c, p)| Step::Add(g, c, p)),
        (0..20u64).prop_map(Step::Remove),
        (0..20u64, any::<u64>(), any::<f64>(), any::<f64>())
            .prop_map(|(g, c, s, h)| Step::Sample(g, c, s, h)),
        (0..6u16).prop_map(Step::Lose),
        (0..6u16).prop_map(Step::Restore),
        proptest::collection::btree_set((0..5u32, 0..6u16), 0..12).prop_map(Step::KeepOff),
        (0..Policy::ALL.len()).prop_map(Step::Policy),
        (0..500u64).prop_map(Step::Decide),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whatever happens, no VF has two holders, no grant two VFs, moves say
    /// what was true, a dry run says what is then done, and no bound is passed.
    #[test]
    fn leases_are_consistent(steps in proptest::collection::vec(step(), 1..80)) {
        let mut s = settings(Policy::Gain);
        s.client_vfs = Some(3);
        let mut e = Engine::new(0, 5, s).unwrap();
        let (mut now, mut off) = (0, BTreeSet::new());
        let mut clients = std::collections::BTreeMap::new();
        for step in steps {
            let before: Vec<_> = (0..5).map(|vf| e.holder(vf)).collect();
            match step {
                Step::Add(g, c, p) => {
                    if e.add(now, g, c, p, 1.0).is_ok() {
                        clients.insert(g, c);
                    }
                }
                Step::Remove(g) => { e.remove(g); }
                Step::Sample(g, calls, soft, hard) => {
                    e.sample(g, Sample { calls, soft_ns: Some(soft), hard_ns: Some(hard) });
                }
                Step::Lose(vf) => { e.lose(now, vf); }
                Step::Restore(vf) => e.restore(vf),
                Step::KeepOff(pairs) => {
                    off = pairs.clone();
                    e.keep_off(now, pairs);
                }
                Step::Policy(p) => {
                    let settings = Settings { policy: Policy::ALL[p], ..*e.settings() };
                    e.set(settings).unwrap();
                }
                Step::Decide(ms) => {
                    now += ms;
                    let dry = e.dry_run(now);
                    let plan = e.decide(now);
                    prop_assert_eq!(&dry, &plan);
                    let mut seen = BTreeSet::new();
                    for m in &plan.moves {
                        prop_assert!(seen.insert(m.vf), "a VF moves twice");
                        prop_assert_eq!(before[usize::from(m.vf)], m.from);
                        prop_assert_eq!(e.holder(m.vf), m.to);
                        prop_assert!(m.from != m.to);
                    }
                }
            }
            for vf in 0..5 {
                let client = e.holder(vf).map(|g| clients[&g]);
                prop_assert!(client.is_none_or(|c| !off.contains(&(c, vf))), "it is kept off it");
            }
            let held: Vec<GrantId> = (0..5).filter_map(|vf| e.holder(vf)).collect();
            for client in 0..5 {
                let holds = held.iter().filter(|g| clients[g] == client).count();
                prop_assert!(holds <= 3, "client {} holds {}", client, holds);
            }
            prop_assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), held.len());
            for g in e.grants() {
                let at = e.standing(g).unwrap().vf;
                prop_assert_eq!(at.and_then(|vf| e.holder(vf)).unwrap_or(g), g);
                prop_assert_eq!(at.is_some(), held.contains(&g));
            }
        }
    }
}
