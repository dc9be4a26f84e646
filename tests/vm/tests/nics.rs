//! A VF goes from one real guest to another and back while packets come at an even pace:
//! the packaged agent, manager and allocator do it, with a NIC that QEMU emulates as VF.

use std::time::{Duration, Instant};
use vfun_tests_local::Stand;
use vfun_tests_local::built::long;
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::flow::Way;
use vfun_tests_vm::handover::{hand_over, no_delayed_packet_is_lost, no_packet_is_lost, show};
use vfun_tests_vm::module::ok;
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::nics::{Net, Vm, model, network, until_holds};
use vfun_tests_vm::tally::Tally;

/// Time between two packets of a VM.
fn every() -> Duration {
    long(Duration::from_millis(2), Duration::from_millis(1))
}

/// What a VM's packets do, by its number. One VM answers, as most programs do; one says
/// nothing, so that only the bond tells the switch where it is; one only sends.
fn ways() -> &'static [Way] {
    long(&[Way::Answered, Way::ToVm], &[Way::Answered, Way::ToVm, Way::FromVm])
}

/// Rounds with as many hand-overs as there are VMs: 2 hand-overs, or 102 at full length with
/// the driver of a card, which `tests/igb.sh` runs.
fn rounds() -> usize {
    if model() == "virtio-net-pci" { long(1, 4) } else { long(1, 34) }
}

/// Without its agent a VM keeps its paravirtual NIC, and loses its VF after 30 s.
fn an_agent_dies(stand: &Stand, vm: &Vm) {
    let begin = Instant::now();
    ok(&vm.guest, "killall -9 vfun-agent");
    stand.until("the VF is taken away", |s| vm.row(s)["vf"].is_null());
    show("agent killed", &[vm.flow.count(&vm.guest, begin, Instant::now())]);
    assert!(vm.active().contains("eth0") && vm.arrives());
    vm.start_agent();
}

/// All VMs, booted at once and declared.
fn start(stand: &Stand) -> Vec<Vm> {
    let vms = Vm::start_all(stand, Net::Bridge, ways(), every());
    json(stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    (0..).zip(&vms).for_each(|(n, vm)| vm.declare(stand, n));
    vms
}

#[test]
fn a_vf_goes_from_vm_to_vm_and_no_packet_is_lost() {
    if !inside("nics::a_vf_goes_from_vm_to_vm_and_no_packet_is_lost") {
        return;
    }
    network(ways().len() as u8);
    let stand = Stand::with(&["--nics"]);
    let mut vms = start(&stand);
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    let mut tally = Tally::default();
    for _ in 1..rounds() {
        no_packet_is_lost(&stand, &vms, &mut tally);
    }
    no_delayed_packet_is_lost(&stand, &vms, &mut tally);
    eprintln!("{tally}");
    if long(false, true) {
        an_agent_dies(&stand, &vms[0]);
    }
    // The VM that holds the VF dies: another one may have it.
    hand_over(&stand, &vms, 0, 1);
    vms.remove(1).guest.kill();
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    assert!(vms[0].arrives());
}

#[test]
fn a_guest_in_a_bridge_competes_as_long_as_it_runs() {
    if !inside("nics::a_guest_in_a_bridge_competes_as_long_as_it_runs") {
        return;
    }
    network(0);
    let stand = Stand::with(&["--nics"]);
    stand.until("vfun-nics answers", |s| vfun(s, &["nics", "list"]).0 == 0);
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1"]);
    json(&stand, &["nics", "set", "cards", "activity", "--interval", "1s", "--tenure", "1s"]);
    let refused = |words: &[&str]| {
        let (rc, said) = vfun(&stand, &[&["guest", "--client", "refused-vm"], words].concat());
        assert!(rc != 0, "{words:?}: {said}");
        said
    };
    let said = refused(&["--bridge", "br7", "--", "true"]);
    assert!(said.contains("no bridge 'br7'"), "{said}");
    let said = refused(&["--bridge", "br0", "--pool", "card", "--", "true"]);
    assert!(said.contains("no pool 'card'") && said.contains("cards"), "{said}");
    let (_, said) = vfun(&stand, &["client", "list"]);
    assert!(
        !said.contains("refused-vm"),
        "a guest that was refused left its client behind: {said}"
    );
    // The bond is no function of this host's: `doctor` must not miss it.
    let (_, said) = vfun(&stand, &["doctor"]);
    assert!(!said.contains("function bond"), "{said}");
    let script = "while grep -q eth0 /sys/class/net/bond0/bonding/active_slave; do sleep 0.1; done; \
         ping -c 3 -w 30 10.9.0.1 && cat /sys/class/net/bond0/bonding/active_slave";
    let words = ["guest", "--client", "vm7", "--bridge", "br0", "--address", "10.9.0.17/24"];
    let more = ["--pool", "cards", "--timeout", "180", "--", script];
    let (rc, said) = vfun(&stand, &[&words[..], &more[..]].concat());
    assert!(rc == 0 && said.contains("3 packets received"), "{rc}: {said}\n{}", stand.log());
    // Once its QEMU is known to have ended.
    let gone = |s: &Stand| json(s, &["nics", "list"])["vms"].as_array().is_some_and(Vec::is_empty);
    stand.until("the VM is gone", gone);
}
