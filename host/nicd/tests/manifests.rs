//! What clients' manifests declare, by the manager's word.

use crate::stand::{Stand, vm};
use vfun_nicd::ask::{Answer, Ask};
use vfun_nics::declared::{Hypervisor, Rule, Vm};
use vfun_nics::relay::{AllTold, ToNics};
use vfun_nics::view::VmView;

/// No VM of these tests runs, and no agent speaks.
fn stand() -> Stand {
    let mut stand = Stand::new(0);
    stand.start();
    stand
}

fn says(stand: &Stand, n: usize, declared: Option<Vm>) {
    let word = ToNics { vm: vm(n), agent: None, declared };
    stand.manager().say(&serde_json::to_vec(&word).unwrap());
}

fn row(stand: &Stand, n: usize) -> Option<VmView> {
    stand.try_view()?.vms.into_iter().find(|row| row.vm == vm(n))
}

fn trouble(stand: &Stand, n: usize) -> String {
    let all = stand.try_view().unwrap().manifest_troubles;
    all.into_iter().find(|t| t.vm == vm(n)).map(|t| t.why).unwrap_or_default()
}

#[test]
fn a_manifests_lines_declare_change_and_remove_a_vm() {
    let mut stand = stand();
    stand.pool(1);
    says(&stand, 0, Some(stand.declared(0)));
    stand.until("it is declared", |s| row(s, 0).is_some());
    // What commands say of it stays, when its lines change too.
    stand.must(&Ask::SetRule { name: vm(0), rule: Rule::Banned });
    let mut other = stand.declared(0);
    other.vlan = Some(7);
    says(&stand, 0, Some(other.clone()));
    stand.until("it has changed", |s| row(s, 0).is_some_and(|r| r.declared.vlan == Some(7)));
    assert_eq!(row(&stand, 0).unwrap().declared.rule, Rule::Banned);
    // Another hypervisor is another VM.
    other.hypervisor = Hypervisor::External;
    says(&stand, 0, Some(other.clone()));
    stand.until("it was declared anew", |s| {
        row(s, 0).is_some_and(|r| r.declared.hypervisor == Hypervisor::External)
    });
    let why = stand.refused(&Ask::RemoveVm { name: vm(0) });
    assert!(why.contains("manifest") && why.contains("vm0.toml"), "{why}");
    let why = stand.refused(&Ask::AddVm { name: vm(0), vm: other });
    assert!(why.contains("manifest"), "{why}");
    says(&stand, 0, None);
    stand.until("it is gone", |s| match s.ask(&Ask::Orders) {
        // Its program is asked first which VFs it has.
        Ok(Answer::Orders { orders }) => orders.is_empty() && row(s, 0).is_none(),
        _ => false,
    });
}

#[test]
fn a_vm_of_two_places_is_an_error_that_names_both() {
    let mut stand = stand();
    stand.pool(1);
    stand.add(0);
    let mut by_manifest = stand.declared(0);
    by_manifest.vlan = Some(9);
    says(&stand, 0, Some(by_manifest));
    stand.until("it is said", |s| trouble(s, 0).contains("`vfun nics add`"));
    assert!(trouble(&stand, 0).contains("manifest") && stand.log().contains("lines [nics]"));
    assert_eq!(row(&stand, 0).unwrap().declared.vlan, None, "the command's word holds");
    stand.must(&Ask::RemoveVm { name: vm(0) });
    stand.until("the manifest's word holds", |s| {
        row(s, 0).is_some_and(|r| r.declared.vlan == Some(9))
    });
    assert_eq!(trouble(&stand, 0), "");
}

#[test]
fn what_is_not_possible_yet_is_said_and_done_later() {
    let mut stand = stand();
    says(&stand, 0, Some(stand.declared(0)));
    stand.until("it is said", |s| trouble(s, 0).contains("there is no pool p"));
    stand.pool(1);
    assert!(row(&stand, 0).is_some() && trouble(&stand, 0).is_empty());
    let mut same_tap = stand.declared(1);
    same_tap.tap = stand.declared(0).tap;
    says(&stand, 1, Some(same_tap));
    stand.until("it is said", |s| trouble(s, 1).contains("VM vm0 has that tap"));
    says(&stand, 1, None);
    stand.until("nothing is wrong any more", |s| trouble(s, 1).is_empty());
}

#[test]
fn a_restart_forgets_only_what_the_manager_speaks_of_no_more() {
    let mut stand = stand();
    stand.pool(1);
    (0..2).for_each(|n| says(&stand, n, Some(stand.declared(n))));
    stand.add(2);
    stand.until("they are declared", |s| row(s, 1).is_some());
    stand.kill();
    stand.start();
    says(&stand, 0, Some(stand.declared(0)));
    assert!(row(&stand, 1).is_some(), "the manager may speak of it still");
    stand.manager().say(&serde_json::to_vec(&AllTold { vms: 1 }).unwrap());
    stand.until("it is gone", |s| row(s, 1).is_none());
    assert!(row(&stand, 0).is_some() && row(&stand, 2).is_some());
}
