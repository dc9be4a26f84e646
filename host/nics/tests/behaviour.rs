//! One behaviour each, in a world where nothing fails by itself.

#[allow(dead_code, reason = "the simulation uses the rest")]
mod world;

use vfun_bond::Path;
use vfun_leases::Policy;
use vfun_nics::declared::{Pool, Rule};
use vfun_nics::event::HostCounts;
use vfun_nics::{Action, Event, Nics, Op, VfFound};
use world::{POOL, World, vf, vm_name};

/// A world that had time to settle.
fn world(vms: usize, vfs: usize) -> World {
    let mut w = World::new(1, vms, vfs, World::pool());
    w.run(30_000, 100);
    w
}

#[test]
fn while_there_are_enough_vfs_each_vm_gets_one_at_its_start() {
    let mut w = World::new(1, 3, 4, World::pool());
    w.run(15_000, 100);
    assert_eq!(w.holders().len(), 3, "{}", w.why(0));
    // Idle ones keep theirs: nobody else wants it.
    (0..3).for_each(|n| w.guest(n).rate = 0);
    w.run(300_000, 100);
    assert_eq!(w.holders().len(), 3, "{}", w.why(0));
}

#[test]
fn the_busiest_vm_gets_the_vf_after_its_holders_tenure() {
    let mut w = world(2, 1);
    let first = usize::from(w.holds(1));
    w.guest(1 - first).rate = 10_000;
    w.run(90_000, 100);
    assert!(w.holds(1 - first) && !w.holds(first), "{}", w.why(1 - first));
    assert!(w.why(first).contains("below"), "{}", w.why(first));
}

#[test]
fn the_view_counts_moves_and_says_who_waits() {
    let mut w = world(2, 1);
    let view = |w: &World, n| w.nics.view_vm(w.now, &vm_name(n)).unwrap();
    let first = usize::from(w.holds(1));
    let (holder, other) = (view(&w, first), view(&w, 1 - first));
    assert_eq!((holder.moves, holder.waits, holder.has_agent), (1, false, true));
    assert_eq!((other.moves, other.waits, other.has_agent), (0, true, true));
    w.guest(1 - first).rate = 10_000;
    w.run(90_000, 100);
    let (before, now) = (view(&w, first), view(&w, 1 - first));
    assert_eq!((before.moves, before.failed, now.moves, now.failed), (1, 0, 1, 0));
    w.declare(first, |vm| vm.rule = Rule::Banned);
    w.run(5_000, 100);
    assert!(!view(&w, first).waits, "it is banned, and does not wait");
}

#[test]
fn the_history_says_who_used_a_vf_and_what_vms_sent() {
    let mut w = world(2, 1);
    let first = usize::from(w.holds(1));
    w.guest(1 - first).rate = 10_000;
    w.run(90_000, 100);
    let history = w.nics.history(w.now, Some(POOL));
    let held: Vec<_> = history.holds.iter().map(|h| (h.vm.clone(), h.to_ms.is_some())).collect();
    assert_eq!(held, [(vm_name(first), true), (vm_name(1 - first), false)]);
    assert!(history.holds[0].to_ms <= Some(history.holds[1].from_ms));
    let of = history.vms.iter().find(|r| r.vm == vm_name(1 - first)).unwrap();
    let last = of.points.last().unwrap();
    assert!((9_000.0..11_000.0).contains(&last.packets_per_s), "{of:?}");
    assert!(of.points.windows(2).all(|p| p[1].at_ms - p[0].at_ms == 10_000), "{of:?}");
    let other = w.nics.history(w.now, Some("other"));
    assert!(other.holds.is_empty() && other.vms.is_empty());
}

#[test]
fn no_vf_moves_twice_within_a_tenure_and_equal_vms_do_not_flap() {
    let mut w = world(4, 1);
    for step in 0..200u64 {
        for n in 0..4 {
            w.guest(n).rate = 1000 * (1 + (step / 8 * 7 + n as u64 * 3) % 11);
        }
        let before = (w.cards[&vf(0)].joined_ms, w.holders());
        w.run(5_000, 100);
        let after = w.holders();
        if let (Some(joined), false) = (before.0, before.1 == after) {
            assert!(w.now - joined >= 30_000, "moved after {} ms", w.now - joined);
        }
    }
    assert!(w.cards[&vf(0)].moves.len() > 3, "nothing moved: the test says nothing");
    let moves = w.cards[&vf(0)].moves.len();
    for step in 0..60u64 {
        (0..4).for_each(|n| w.guest(n).rate = 1000 + (step * 7 + n as u64 * 3) % 11);
        w.run(10_000, 100);
    }
    assert!(w.cards[&vf(0)].moves.len() <= moves + 1, "equal ones take it from each other");
}

#[test]
fn fair_gives_equal_time_within_one_quantum() {
    let pool = Pool { policy: Policy::Fair, ..World::pool() };
    let mut w = World::new(1, 3, 1, pool);
    (0..3).for_each(|n| w.guest(n).rate = [0, 10, 100_000][n]);
    w.run(30_000, 100);
    let held = w.measure(1_800_000);
    // A tenure, and an interval until the decision after it.
    let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
    assert!(most - least <= 40_000, "{held:?}");
    assert!(held.iter().sum::<u64>() > 1_600_000, "{held:?}");
}

#[test]
fn one_that_lies_gains_nothing() {
    for counts in [true, false] {
        let mut w = World::new(1, 2, 1, World::pool());
        (0..2).for_each(|n| w.guest(n).card_counts = counts);
        (w.guest(0).rate, w.guest(1).rate) = (1_000, 100);
        w.run(120_000, 100);
        let honest = w.measure(3_600_000);
        w.guest(1).lie = 1_000;
        let lied = w.measure(3_600_000);
        assert!(lied[1] <= honest[1] + 40_000, "card counts: {counts}: {honest:?}, {lied:?}");
        assert!(lied[0] > lied[1], "{lied:?}");
    }
}

/// How long each of two VMs held the one VF in an hour, by `gain`. The first sends twice as
/// much as the second.
fn gain_of(latency_us: [Option<[u32; 2]>; 2]) -> Vec<u64> {
    let pool = Pool { policy: Policy::Gain, ..World::pool() };
    let mut w = World::new(1, 2, 1, pool);
    for n in 0..2 {
        (w.guest(n).rate, w.guest(n).latency_us) = ([2_000, 1_000][n], latency_us[n]);
    }
    // Each has the VF once, so that both paths are measured.
    for n in 0..2 {
        w.declare(n, |vm| vm.rule = Rule::Pinned);
        w.run(60_000, 100);
        w.declare(n, |vm| vm.rule = Rule::None);
    }
    w.run(120_000, 100);
    w.measure(3_600_000)
}

#[test]
fn gain_gives_the_vf_to_the_vm_whose_packets_it_makes_faster() {
    let held = gain_of([None, None]);
    assert!(held[0] > 3_500_000, "by packets where nobody measures: {held:?}");
    let held = gain_of([Some([100, 80]), Some([100, 20])]);
    assert!(held[1] > 3_500_000, "1,000 times 80 µs are more than 2,000 times 20: {held:?}");
    let held = gain_of([Some([100, 80]), Some([100, 70])]);
    assert!(held[0] > 3_500_000, "2,000 times 20 µs are more than 1,000 times 30: {held:?}");
    // A lie is worth the limit, and no more: 2,000 times 9 ms are more than 1,000 times 10.
    let held = gain_of([Some([9_900, 900]), Some([u32::MAX, 0])]);
    assert!(held[0] > 3_500_000, "{held:?}");
}

#[test]
fn a_vf_that_nobody_can_watch_is_said_to_be_so() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.guest(0).card_counts = false;
    w.run(60_000, 100);
    assert!(w.holds(0) && w.why(0).contains("unobservable"), "{}", w.why(0));
}

#[test]
fn a_starved_vm_gets_its_reserve_and_a_capped_one_no_more_than_its_cap() {
    let mut w = World::new(1, 2, 1, World::pool());
    (w.guest(0).rate, w.guest(1).rate) = (50_000, 1);
    w.declare(1, |vm| vm.reserve_percent = 20);
    w.run(120_000, 100);
    let held = w.measure(3_600_000);
    assert!((600_000..=900_000).contains(&held[1]), "{held:?}");
    w.declare(1, |vm| vm.reserve_percent = 0);
    w.declare(0, |vm| vm.cap_percent = 40);
    w.run(120_000, 100);
    let held = w.measure(3_600_000);
    assert!((1_000_000..=1_560_000).contains(&held[0]), "{held:?}");
}

#[test]
fn a_pinned_vm_gets_one_and_a_banned_one_loses_it() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    w.guest(holder).rate = 100_000;
    w.declare(1 - holder, |vm| vm.rule = Rule::Pinned);
    w.run(60_000, 100);
    assert!(w.holds(1 - holder), "{}", w.why(1 - holder));
    w.declare(1 - holder, |vm| vm.rule = Rule::Banned);
    w.run(30_000, 100);
    assert!(w.holds(holder) && w.why(1 - holder).contains("banned"));
}

#[test]
fn without_what_it_needs_a_vm_gets_none_and_the_reason_is_said() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 6] = [
        ("no agent", |w| {
            w.guest(0).lose_agent();
            w.tell_agent(&vm_name(0));
        }),
        ("MAC address", |w| w.guest(0).mac = "02:00:00:00:00:99".into()),
        ("firewall", |w| {
            w.guest(0).rules = Some(vec!["a firewall".into()]);
            w.scan();
        }),
        ("migrated", |w| w.hear(Event::MigrationBegins(vm_name(0)))),
        ("does not run", |w| w.end_vm(0)),
        ("does not say what it has", |w| w.guest(0).answers = false),
    ];
    for (word, change) in cases {
        let mut w = World::new(1, 1, 1, World::pool());
        change(&mut w);
        w.run(120_000, 100);
        assert!(!w.holds(0) && w.why(0).contains(word), "{word}: {}", w.why(0));
        let change = w.nics.view_vm(w.now, &vm_name(0)).unwrap().change;
        assert!(!change.is_empty(), "{word}");
    }
    let mut w = World::new(1, 1, 1, World::pool());
    w.guest(0).rules = Some(vec!["a firewall".into()]);
    w.guest(0).declared.bypass_filters = true;
    let declared = w.guest(0).declared.clone();
    w.hear(Event::VmDeclared(vm_name(0), declared));
    w.run(30_000, 100);
    assert!(w.holds(0) && w.why(0).contains("passed by"), "{}", w.why(0));
}

#[test]
fn nobody_gets_a_vf_before_the_ports_rules_are_known() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.guest(0).rules = None;
    w.start_process();
    w.run(60_000, 100);
    assert!(!w.holds(0) && w.why(0).contains("enforces"), "{}", w.why(0));
    w.guest(0).rules = Some(vec![]);
    w.scan();
    w.run(20_000, 100);
    assert!(w.holds(0), "{}", w.why(0));
}

#[test]
fn a_vm_may_lose_its_agent_for_a_moment_and_not_for_long() {
    let mut w = world(1, 1);
    w.guest(0).lose_agent();
    w.tell_agent(&vm_name(0));
    w.run(20_000, 100);
    assert_eq!(w.state(0), "held");
    w.guest(0).start_agent();
    w.tell_agent(&vm_name(0));
    w.run(60_000, 100);
    assert!(w.holds(0));
    w.guest(0).lose_agent();
    w.tell_agent(&vm_name(0));
    w.run(45_000, 100);
    assert_eq!(w.state(0), "free");
    let view = w.nics.view_vm(w.now, &vm_name(0)).unwrap();
    assert_eq!((view.abrupt, view.failed), (1, 1));
}

#[test]
fn one_whose_agent_comes_back_over_and_over_keeps_nothing_and_fills_no_log() {
    let mut w = world(1, 1);
    assert!(w.holds(0));
    (w.guest(0).lazy, w.guest(0).reconnects_ms) = (true, 1_000);
    let lines = w.audit.len();
    w.run(60_000, 100);
    assert!(w.guest(0).plugged.is_empty(), "{}", w.state(0));
    w.run(540_000, 100);
    let lines = w.audit.len() - lines;
    assert!(lines <= 8 + 30, "{lines} lines in ten minutes");
    assert!(w.nics.view_vm(w.now, &vm_name(0)).unwrap().back_off_ms > 0 || !w.holds(0));
}

#[test]
fn one_that_never_takes_its_vf_waits_longer_each_time() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.guest(0).lazy = true;
    let mut plugs = 0;
    for _ in 0..36_000 {
        let before = w.guest(0).plugged.len();
        w.run(100, 100);
        plugs += usize::from(before < w.guest(0).plugged.len());
    }
    assert!((2..=7).contains(&plugs), "{plugs} plugs in an hour");
}

#[test]
fn one_that_flips_its_mac_address_makes_no_vf_move_without_end() {
    for reports_ms in [1_000, 100] {
        let mut w = World::new(1, 1, 1, World::pool());
        w.guest(0).flips_mac = true;
        for _ in 0..3_600_000 / reports_ms {
            w.run(reports_ms, 100);
            w.guest(0).told = None;
        }
        let n = w.prepared;
        assert!((2..=8).contains(&n), "{n} VFs in an hour, a report each {reports_ms} ms");
    }
}

#[test]
fn one_that_flips_its_mac_address_once_it_holds_its_vf_waits_too() {
    let mut w = world(1, 1);
    assert!(w.holds(0));
    let before = w.prepared;
    for _ in 0..3_600 {
        let held = w.state(0) == "held";
        w.guest(0).mac = format!("02:00:00:00:00:{}", if held { "99" } else { "00" });
        w.run(1_000, 100);
    }
    let n = w.prepared - before;
    assert!((2..=8).contains(&n), "{n} VFs in an hour");
}

#[test]
fn one_whose_agent_goes_whenever_a_vf_is_made_ready_waits_longer_each_time() {
    let mut w = World::new(1, 1, 1, World::pool());
    for _ in 0..36_000 {
        w.run(100, 100);
        match (w.state(0) == "preparing", w.guest(0).agent.is_some()) {
            (true, true) => w.guest(0).lose_agent(),
            (false, false) => w.guest(0).start_agent(),
            _ => continue,
        }
        w.tell_agent(&vm_name(0));
    }
    let n = w.prepared;
    assert!((2..=40).contains(&n), "{n} VFs were made ready in an hour");
}

#[test]
fn a_vf_that_a_guest_does_not_let_go_of_is_quarantined_until_it_is_gone() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    w.guest(holder).ignores_unplug = true;
    w.declare(holder, |vm| vm.rule = Rule::Banned);
    w.run(120_000, 100);
    assert_eq!(w.state(0), "quarantined");
    assert!(!w.holds(1 - holder));
    w.guest(holder).ignores_unplug = false;
    w.run(120_000, 100);
    assert!(w.holds(1 - holder), "{}", w.state(0));
}

#[test]
fn why_a_vf_cannot_be_unplugged_is_said() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    w.guest(holder).answers = false;
    w.declare(holder, |vm| vm.rule = Rule::Banned);
    w.run(120_000, 100);
    assert_eq!(w.state(0), "quarantined");
    let trouble = w.nics.view(w.now).pools[0].vfs[0].trouble.clone();
    assert!(trouble.as_ref().is_some_and(|t| t.contains("no such device")), "{trouble:?}");
}

#[test]
fn a_reset_that_fails_is_tried_again_and_nobody_gets_the_vf_before() {
    let mut w = world(1, 1);
    w.cards.get_mut(&vf(0)).unwrap().resets_fail = true;
    w.end_vm(0);
    w.start_vm(0);
    w.run(120_000, 100);
    assert_eq!(w.state(0), "quarantined");
    w.cards.get_mut(&vf(0)).unwrap().resets_fail = false;
    w.run(300_000, 100);
    assert!(w.holds(0), "{}", w.state(0));
}

#[test]
fn a_vf_that_somebody_else_uses_is_left_alone() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.run(500, 100);
    w.disk.vfs.clear();
    let mut card = w.cards.remove(&vf(0)).unwrap();
    (card.unusable, card.last) = (true, Some(vm_name(9)));
    w.cards.insert(vf(0), card);
    w.start_process();
    w.run(60_000, 100);
    assert_eq!((w.state(0), w.holds(0)), ("free".into(), false));
    assert!(w.cards[&vf(0)].last.is_some(), "it was reset under its user");
}

#[test]
fn a_new_start_leaves_vfs_where_they_are() {
    let mut w = world(3, 2);
    let before = w.holders();
    assert_eq!(before.len(), 2);
    for _ in 0..5 {
        w.start_process();
        w.run(25_000, 100);
        assert_eq!(w.holders(), before, "{:?}", (w.state(0), w.state(1)));
    }
    assert!(w.cards.values().all(|card| card.moves.is_empty()));
}

#[test]
fn a_new_start_orders_nobody_off_its_vf() {
    let mut w = world(3, 2);
    let holders = w.holders();
    assert_eq!(holders.len(), 2);
    for _ in 0..5 {
        w.orders.clear();
        w.start_process();
        w.run(25_000, 100);
        for vm in (0..3).map(vm_name) {
            let sent = w.orders.values().filter(|(to, _)| *to == vm);
            let wanted = match holders.contains_key(&vm) {
                true => Path::Vf,
                false => Path::Paravirtual,
            };
            assert!(sent.clone().count() == 1 && sent.into_iter().all(|o| o.1 == wanted), "{vm}");
        }
    }
}

#[test]
fn a_new_start_while_no_hypervisor_answers_takes_no_vf_for_free() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    (0..2).for_each(|n| w.guest(n).answers = false);
    w.start_process();
    w.guest(1 - holder).rate = 100_000;
    w.guest(1 - holder).answers = true;
    w.run(300_000, 100);
    assert_eq!((w.state(0).as_str(), w.holds(1 - holder)), ("unknown", false));
    w.guest(holder).answers = true;
    w.run(300_000, 100);
    assert!(w.holds(1 - holder), "{}", w.why(1 - holder));
}

#[test]
fn a_vf_that_nobody_noted_and_a_vm_has_is_that_vms() {
    let mut w = world(1, 2);
    let has = w.holders()[&vm_name(0)].clone();
    w.disk.vfs.clear();
    w.start_process();
    w.run(60_000, 100);
    assert_eq!(w.holders().get(&vm_name(0)), Some(&has));
    assert_eq!(w.guest(0).plugged.len(), 1);
}

#[test]
fn a_migration_outlives_a_new_start_and_ends_with_its_vm() {
    let mut w = world(1, 1);
    w.hear(Event::MigrationBegins(vm_name(0)));
    w.run(20_000, 100);
    assert!(w.nics.is_without_vf(&vm_name(0)) && w.guest(0).plugged.is_empty());
    w.start_process();
    w.run(60_000, 100);
    assert!(!w.holds(0) && w.why(0).contains("migrated"), "{}", w.why(0));
    w.end_vm(0);
    w.run(5_000, 100);
    w.start_vm(0);
    w.run(60_000, 100);
    assert!(w.holds(0), "{}", w.why(0));
}

#[test]
fn a_vm_declared_anew_loses_its_vf_first() {
    let mut w = world(1, 1);
    let old = w.nics.vm(&vm_name(0)).unwrap().clone();
    w.declare(0, |vm| vm.vlan = Some(7));
    assert_eq!(w.nics.vm(&vm_name(0)), Some(&old), "ops are still for the old one");
    w.run(60_000, 100);
    assert_eq!(w.nics.vm(&vm_name(0)).unwrap().vlan, Some(7));
    assert_eq!(w.cards[&vf(0)].moves.len(), 1, "it was unplugged once");
    w.scan();
    w.run(60_000, 100);
    assert!(w.holds(0), "{}", w.why(0));
}

#[test]
fn a_removed_vm_loses_its_vf_and_is_forgotten() {
    let mut w = world(1, 1);
    w.declared.clear();
    w.hear(Event::VmRemoved(vm_name(0)));
    assert!(w.nics.vm(&vm_name(0)).is_some());
    w.run(20_000, 100);
    assert!(w.nics.vm(&vm_name(0)).is_none() && w.guest(0).plugged.is_empty());
    assert_eq!(w.state(0), "free");
}

#[test]
fn a_pool_that_was_removed_and_declared_again_gives_vfs() {
    let mut w = world(1, 1);
    w.pools.clear();
    w.hear(Event::PoolRemoved(POOL.into()));
    w.run(20_000, 100);
    assert!(w.guest(0).plugged.is_empty() && w.why(0).contains("not declared"), "{}", w.why(0));
    w.declare_pool();
    w.run(60_000, 100);
    assert!(w.holds(0), "{}", w.why(0));
    // And while its VF is still on its way back.
    w.pools.clear();
    w.hear(Event::PoolRemoved(POOL.into()));
    w.run(300, 100);
    w.declare_pool();
    w.run(120_000, 100);
    assert!(w.holds(0), "{} {}", w.state(0), w.why(0));
}

#[test]
fn a_vf_that_vanished_stays_its_vms_until_it_is_seen_without_it() {
    let mut w = world(1, 1);
    w.guest(0).ignores_unplug = true;
    w.cards.get_mut(&vf(0)).unwrap().gone = true;
    w.scan();
    w.run(60_000, 100);
    assert_eq!(w.state(0), "missing");
    assert_eq!(w.disk.vfs[&vf(0)].owner, Some(vm_name(0)));
    w.end_vm(0);
    w.run(60_000, 100);
    assert_eq!((w.state(0).as_str(), w.disk.vfs.len()), ("forgotten", 0));
}

#[test]
fn a_vf_that_another_vm_is_seen_with_is_given_to_nobody() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    // By somebody's hand.
    w.guest(1 - holder).under_way.insert(vf(0));
    w.start_process();
    w.run(10_000, 100);
    w.declare(holder, |vm| vm.rule = Rule::Banned);
    w.run(60_000, 100);
    assert_eq!(w.state(0), "quarantined");
    w.guest(1 - holder).under_way.clear();
    w.run(120_000, 100);
    assert!(w.holds(1 - holder), "{}", w.state(0));
}

#[test]
fn an_agent_that_takes_the_place_of_another_is_ordered_anew() {
    let mut w = world(1, 1);
    w.guest(0).start_agent();
    w.tell_agent(&vm_name(0));
    w.run(60_000, 100);
    assert!(w.holds(0) && w.cards[&vf(0)].moves.is_empty(), "{}", w.why(0));
    assert!(w.guest(0).order.is_some());
}

#[test]
fn a_report_of_another_order_is_no_answer() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.run(15_000, 100);
    assert!(w.holds(0));
    // It says that it left, by the number of the order before, and reads no other.
    let g = w.guest(0);
    let mut old = g.told.clone().unwrap();
    old.path = Some(Path::Paravirtual);
    (g.told, g.lazy) = (Some(old), true);
    w.hear(Event::MigrationBegins(vm_name(0)));
    w.tell_agent(&vm_name(0));
    w.run(5_000, 100);
    assert_eq!(w.state(0), "leaving");
    w.run(15_000, 100);
    assert_eq!(w.nics.view_vm(w.now, &vm_name(0)).unwrap().abrupt, 1);
}

#[test]
fn a_vf_stays_until_the_switch_has_learned_that_its_vm_left_it() {
    let mut w = World::new(1, 1, 1, World::pool());
    w.run(15_000, 100);
    assert!(w.holds(0));
    // Longer than an agent may take, which did its part.
    w.learns_ms = 12_000;
    w.hear(Event::MigrationBegins(vm_name(0)));
    w.run(12_000, 100);
    assert!(!w.guest(0).uses_vf(), "the agent left it");
    assert_eq!(w.state(0), "leaving");
    w.run(5_000, 100);
    assert_eq!(w.state(0), "free");
    assert_eq!(w.nics.view_vm(w.now, &vm_name(0)).unwrap().abrupt, 0);
}

#[test]
fn the_owner_is_on_disk_before_anything_is_done_for_it() {
    let mut nics = Nics::new(0, Default::default());
    let mut w = World::new(1, 1, 1, World::pool());
    let g = w.guest(0);
    let report = |order| vfun_bond::Report {
        order,
        agent: "1".into(),
        bond: "bond0".into(),
        mode: vfun_bond::Mode::Bond,
        mac: g.mac.clone(),
        path: Some(Path::Paravirtual),
        vf: None,
        packets: 0,
        latency_us: None,
        trouble: None,
    };
    nics.hear(0, Event::PoolDeclared(POOL.into(), World::pool()));
    nics.hear(0, Event::VmDeclared(vm_name(0), g.declared.clone()));
    nics.hear(0, Event::Filters(vm_name(0), vec![]));
    nics.hear(0, Event::VmFound(vm_name(0), vfun_nics::VmFound::Runs { plugged: vec![] }));
    let found = VfFound { vf: vf(0), unusable: None, clean: true };
    nics.hear(0, Event::Vfs(POOL.into(), vec![found]));
    nics.hear(0, Event::Counted(vm_name(0), HostCounts::default()));
    let id = vfun_nics::AgentId(1);
    let actions = nics.hear(0, Event::Agent(vm_name(0), Some((id, Some(report(0))))));
    let at = |what: fn(&Action) -> bool| actions.iter().position(what);
    let note = at(|a| matches!(a, Action::Note(n) if n.vfs[&vf(0)].owner == Some(vm_name(0))));
    let prepare = at(|a| matches!(a, Action::Do(_, Op::Prepare { .. })));
    assert!(note.is_some() && note < prepare, "{actions:?}");
}
