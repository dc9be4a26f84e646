//! VFs go from VM to VM.

use crate::stand::{Stand, vm, write};
use vfun_nicd::ask::{Answer, Ask};
use vfun_nicd::orders::{Outcome, PlugOrder, Wanted};
use vfun_nics::VfId;
use vfun_nics::declared::{Hypervisor, Pool, Rule, Source};

fn two_vms() -> Stand {
    let mut stand = Stand::new(2);
    stand.start();
    stand.pool(1);
    stand.add(0);
    stand.add(1);
    stand.rule(0, Rule::Pinned);
    stand.until("vm0 holds the VF", |s| s.holds(0));
    stand
}

#[test]
fn a_vf_goes_to_the_vm_that_is_pinned_and_back() {
    let mut stand = two_vms();
    for (from, to) in [(0, 1), (1, 0)] {
        stand.rule(from, Rule::None);
        stand.rule(to, Rule::Pinned);
        stand.until("the other one holds it", |s| s.holds(to));
        assert!(stand.qemus[from].devices().is_empty());
    }
    stand.check_owners();
    assert_eq!(stand.qemus[1].netdevs(), 0, "nothing of the VF is left in QEMU");
    let notes = stand.notes();
    assert_eq!(notes["vfs"]["p-0"]["owner"]["vm"], "vm0", "{notes}");
}

#[test]
fn a_tap_of_another_program_is_left_alone() {
    let mut stand = Stand::new(1);
    let others = stand.host.sys().join("class/net/vt-p-0");
    write(&others.join("tun_flags"), "0x1002\n");
    stand.start();
    stand.pool(2);
    stand.add(0);
    stand.rule(0, Rule::Pinned);
    stand.until("vm0 holds the other VF", |s| s.holds(0));
    assert_eq!(stand.qemus[0].devices(), ["vfun-vf-p-1"]);
    let vf = &stand.try_view().unwrap().pools[0].vfs[0];
    assert!(vf.trouble.as_deref().unwrap().contains("another program made"), "{vf:?}");
    assert!(others.exists());
}

#[test]
fn a_qemu_that_dies_leaves_its_vf_to_another() {
    let mut stand = two_vms();
    stand.qemus[0].die();
    stand.rule(1, Rule::Pinned);
    stand.until("vm1 holds it", |s| s.holds(1));
    stand.check_owners();
}

#[test]
fn a_guest_that_holds_on_keeps_its_vf_from_others() {
    let mut stand = two_vms();
    stand.qemus[0].hold_on(true);
    stand.rule(0, Rule::Banned);
    stand.rule(1, Rule::Pinned);
    stand.until("it is asked for the VF", |s| {
        let view = s.try_view().unwrap();
        view.vms.iter().any(|r| r.vf_state.as_deref() == Some("unplugging"))
    });
    assert!(stand.qemus[1].devices().is_empty());
    stand.qemus[0].die();
    stand.until("vm1 holds it", |s| s.holds(1));
    stand.check_owners();
}

#[test]
fn a_migrating_vm_gets_no_vf_also_after_a_restart() {
    let mut stand = two_vms();
    stand.must(&Ask::Migrate { name: vm(0) });
    stand.until("it has no VF", |s| s.qemus[0].devices().is_empty());
    stand.kill();
    stand.start();
    stand.rule(1, Rule::Pinned);
    stand.until("the other one holds it", |s| s.holds(1));
    stand.rule(1, Rule::Banned);
    stand.until("the VF is free", |s| s.qemus[1].devices().is_empty());
    assert!(stand.qemus[0].devices().is_empty());
    stand.must(&Ask::MigrationEnded { name: vm(0) });
    stand.until("it holds it again", |s| s.holds(0));
    stand.check_owners();
}

#[test]
fn a_vm_that_was_removed_stays_removed_and_its_vf_is_free() {
    let mut stand = two_vms();
    stand.qemus[0].hold_on(true);
    stand.must(&Ask::RemoveVm { name: vm(0) });
    let why = stand.refused(&Ask::AddVm { name: vm(0), vm: stand.declared(0) });
    assert!(why.contains("being taken away"), "{why}");
    stand.kill();
    stand.start();
    // It is remembered that it leaves.
    assert!(stand.refused(&Ask::AddVm { name: vm(0), vm: stand.declared(0) }).contains("taken"));
    stand.qemus[0].die();
    stand.until("it is forgotten", |s| s.try_view().unwrap().vms.iter().all(|r| r.vm != vm(0)));
    stand.rule(1, Rule::Pinned);
    stand.until("vm1 holds it", |s| s.holds(1));
    stand.kill();
    stand.start();
    assert!(stand.try_view().unwrap().vms.iter().all(|r| r.vm != vm(0)));
    stand.check_owners();
}

#[test]
fn the_late_word_of_a_vm_that_was_removed_is_not_taken_for_a_new_one_of_its_name() {
    let mut stand = Stand::new(2);
    stand.qemus[0].plug("vfun-vf-p-0");
    stand.qemus[0].be_silent(true);
    stand.start();
    stand.pool(1);
    stand.add(0);
    stand.until("its QEMU is asked", |s| s.qemus[0].connections() == 1);
    stand.must(&Ask::RemoveVm { name: vm(0) });
    let mut other = stand.declared(0);
    (other.hypervisor, other.rule) = (stand.declared(1).hypervisor, Rule::Banned);
    stand.until("it may be declared again", |s| {
        let ask = Ask::AddVm { name: vm(0), vm: other.clone() };
        matches!(s.ask(&ask), Ok(Answer::Done { .. }))
    });
    stand.until("the VF is free", |s| s.try_view().unwrap().pools[0].vfs[0].state == "free");
    stand.qemus[0].be_silent(false);
    stand.until("the first one has spoken", |s| s.qemus[0].connections_ended() == 1);
    let vf = &stand.try_view().unwrap().pools[0].vfs[0];
    assert_eq!((&*vf.state, &vf.owner), ("free", &None));
}

#[test]
fn a_pool_that_is_declared_again_gives_vfs() {
    let mut stand = two_vms();
    let why = stand.refused(&Ask::RemovePool { name: "p".into() });
    assert!(why.contains("vfun nics remove"), "{why}");
    stand.must(&Ask::RemoveVm { name: vm(0) });
    stand.must(&Ask::RemoveVm { name: vm(1) });
    stand.must(&Ask::RemovePool { name: "p".into() });
    stand.until("it is gone", |s| s.try_view().unwrap().pools.is_empty());
    stand.until("it may be declared again", |s| {
        let mut pool = Pool::new(Source::Emulated { vfs: 1, model: "igb".into() });
        pool.interval_ms = 1000;
        matches!(s.ask(&Ask::AddPool { name: "p".into(), pool }), Ok(Answer::Done { .. }))
    });
    stand.add(1);
    stand.rule(1, Rule::Pinned);
    stand.until("vm1 holds it", |s| s.holds(1));
    stand.check_owners();
}

#[test]
fn a_program_of_others_plugs_and_unplugs() {
    let mut stand = Stand::new(1);
    stand.start();
    stand.pool(1);
    let mut declared = stand.declared(0);
    declared.hypervisor = Hypervisor::External;
    stand.must(&Ask::AddVm { name: vm(0), vm: declared });
    let orders = |s: &Stand| match s.ask(&Ask::Orders) {
        Ok(Answer::Orders { orders }) => orders,
        other => panic!("{other:?}"),
    };
    let next = |s: &mut Stand, what: fn(&Wanted) -> bool| -> PlugOrder {
        let mut found = None;
        s.until("an order", |s| {
            found = orders(s).into_iter().find(|o| what(&o.wanted));
            found.is_some()
        });
        found.unwrap()
    };
    let order = next(&mut stand, |w| *w == Wanted::Tell).order;
    stand.must(&Ask::Done { order, outcome: Outcome::Has { vfs: vec![] } });
    stand.rule(0, Rule::Pinned);
    let plug = next(&mut stand, |w| matches!(w, Wanted::Plug { .. }));
    stand.must(&Ask::Done { order: plug.order, outcome: Outcome::Done });
    stand.rule(0, Rule::Banned);
    let unplug = next(&mut stand, |w| *w == Wanted::Unplug { vf: VfId("p-0".into()) });
    stand.must(&Ask::Done { order: unplug.order, outcome: Outcome::Done });
    assert!(
        stand
            .refused(&Ask::Done { order: unplug.order, outcome: Outcome::Done })
            .contains("no order")
    );
    stand.until("the VF is free", |s| s.try_view().unwrap().pools[0].vfs[0].state == "free");
}
