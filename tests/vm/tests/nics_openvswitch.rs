//! A port of a stock Open vSwitch with DPDK goes as VF from one real guest to another and back
//! while packets come at an even pace, and what packets take by both paths.
//!
//! It needs an Open vSwitch that tests/ovs.sh unpacks, so only `make test-all` runs it.

use std::time::Duration;
use vfun_tests_local::Stand;
use vfun_tests_local::built::long;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::flow::{HOST, Way};
use vfun_tests_vm::handover::{hand_over, no_packet_is_lost};
use vfun_tests_vm::module::{ok, until};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::nics::{Net, Vm, until_holds};
use vfun_tests_vm::openvswitch::{OpenVSwitch, programs};
use vfun_tests_vm::roundtrip::RoundTrips;
use vfun_tests_vm::tally::Tally;

/// What the VMs' packets do: one answers, one says nothing, so that only its bond tells the
/// switch where it is.
const WAYS: [Way; 2] = [Way::Answered, Way::ToVm];
/// Time between two packets of a VM: the switch takes a processor, two VMs share the other.
const EVERY: Duration = Duration::from_millis(4);
/// The time in which latencies are measured, each time.
const MEASURES: Duration = Duration::from_secs(4);
/// How often the switch looks at what packets came by flows of its cache, if nobody says
/// otherwise, and how often at most, as if it were busy: so long it may send on to the VF that
/// a VM has left.
const LEARNS: Duration = Duration::from_millis(500);
const LEARNS_LATE: Duration = Duration::from_millis(2000);
/// The VF's port of the switch.
const VF_PORT: &str = "vt-cards-0";
/// The port of the program that sends these packets back.
const PORT: u16 = 8;

/// Rounds of two hand-overs.
fn rounds() -> usize {
    long(2, 10)
}

fn start(stand: &Stand, switch: &OpenVSwitch) -> Vec<Vm> {
    let vms = Vm::start_all(stand, Net::Switch, &WAYS, EVERY);
    for vm in &vms {
        ok(&vm.guest, &format!("(vfun-vm-app udp-echo {PORT} >/dev/null 2>&1 &)"));
    }
    let folder = switch.folder().to_str().expect("UTF-8");
    json(stand, &["nics", "pool", "add", "cards", "--vhost-user", "1", "--switch", folder]);
    json(stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    (0..).zip(&vms).for_each(|(n, vm)| vm.declare(stand, n));
    vms
}

/// Packets to this VM and back, one at a time.
fn trips(n: u8) -> RoundTrips {
    let to = format!("{}:{PORT}", Vm::address(n)).parse().unwrap();
    RoundTrips::measure(format!("{HOST}:0").parse().unwrap(), to, MEASURES)
}

/// Measures by both paths, one after the other: the ratio. Nothing is demanded: the machine may
/// be busy.
fn measure(holder: u8, other: u8) -> f64 {
    let (vf, paravirtual) = (trips(holder), trips(other));
    let us = |t: &RoundTrips| t.median().map_or(f64::NAN, |t| t.as_secs_f64() * 1e6);
    let ratio = us(&vf) / us(&paravirtual);
    eprintln!(
        "half of the packets took at most: {:.0} µs by the VF of vm{holder} ({} packets, {} lost), {:.0} µs by the paravirtual NIC of vm{other} ({}, {}); ratio {ratio:.2}",
        us(&vf),
        vf.count(),
        vf.lost,
        us(&paravirtual),
        paravirtual.count(),
        paravirtual.lost
    );
    ratio
}

/// Takes the VF away; its port goes with it, and packets go on.
fn leaves(stand: &Stand, switch: &OpenVSwitch, vm: &Vm) {
    vm.pins(stand, "ban");
    until("the port is gone", || !switch.vsctl("list-ports sw0").contains(VF_PORT));
    assert!(vm.arrives());
}

/// A VM that sends more than it may: the switch drops what is more.
fn a_bound_is_kept(stand: &Stand, switch: &OpenVSwitch, vm: &Vm, n: u8) {
    let dropped = || {
        let column = "statistics:ovs_rx_qos_drops";
        let said = switch.vsctl(&format!("--if-exists get Interface {VF_PORT} {column}"));
        said.parse::<u64>().unwrap_or(0)
    };
    for (options, drops) in [(&[][..], false), (&["--rate", "1"], true)] {
        vm.declare_with(stand, n, options);
        vm.pins(stand, "pin");
        until_holds(stand, vm);
        // As fast as it can: far more than 1 Mbit/s, which is some 2,500 such packets a second.
        let source = format!("timeout 6 vfun-vm-app udp-source {HOST}:9 1 >/dev/null 2>&1; true");
        ok(&vm.guest, &source);
        if drops {
            until("packets are dropped", || dropped() > 0);
        } else {
            assert_eq!(dropped(), 0);
        }
        eprintln!("with {options:?}: {} packets were more than the bound", dropped());
        leaves(stand, switch, vm);
    }
}

#[test]
fn a_port_of_open_vswitch_goes_from_vm_to_vm_and_no_packet_is_lost() {
    let test = "nics_openvswitch::a_port_of_open_vswitch_goes_from_vm_to_vm_and_no_packet_is_lost";
    let Some(programs) = programs() else {
        eprintln!("\n*** {test} IS NOT TESTED here: tests/ovs.sh runs it ***\n");
        return;
    };
    if !inside(test) {
        return;
    }
    let stand = Stand::with(&["--nics"]);
    let switch = OpenVSwitch::start(programs, &stand.root().join("ovs"));
    switch.network(WAYS.len() as u8);
    let mut vms = start(&stand, &switch);
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    let (mut tally, mut ratios) = (Tally::default(), vec![]);
    // The flows of the moves before are still in the cache.
    for _ in 0..rounds() {
        switch.learns_each(LEARNS_LATE);
        no_packet_is_lost(&stand, &vms, &mut tally);
        switch.learns_each(LEARNS);
        no_packet_is_lost(&stand, &vms, &mut tally);
        ratios.push(measure(0, 1));
        hand_over(&stand, &vms, 0, 1);
        ratios.push(measure(1, 0));
        hand_over(&stand, &vms, 1, 0);
    }
    ratios.sort_by(f64::total_cmp);
    eprintln!("{tally}\nVF ÷ paravirtual NIC, each time: {ratios:.2?}");
    // The VM that holds the VF dies: another one may have it, and nothing of the dead one's is
    // left in the switch.
    vms.remove(0).guest.kill();
    vms[0].pins(&stand, "pin");
    until_holds(&stand, &vms[0]);
    assert!(vms[0].arrives());
    leaves(&stand, &switch, &vms[0]);
    a_bound_is_kept(&stand, &switch, &vms[0], 1);
}
