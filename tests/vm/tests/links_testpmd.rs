//! Direct links between DPDK programs in two VMs: testpmd, as Debian has it, past a stock Open
//! vSwitch with DPDK and back.
//!
//! It takes minutes, so only `make test-all` runs it (tests/links.sh).

use crate::links::{Pair, address, begin_testpmd, counts_agree, flip};
use crate::ports::reaches;
use std::time::Duration;
use vfun_testguest::Guest;
use vfun_tests_vm::module::healthy;
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::openvswitch;
use vfun_tests_vm::testpmd::{self, driver, end, said};

/// How often the rules change, and how often a number is sent meanwhile, µs.
const FLIPS: usize = 50;
const EVERY: u64 = 2000;

/// What testpmd counts of the VM's port.
fn counted(guest: &Guest) -> (u64, u64) {
    testpmd::counted(guest, 0)
}

/// All numbers that are sent meanwhile come once, and in order.
fn comes(pair: &Pair, what: &str, meanwhile: impl FnOnce()) {
    let (sent, order) = pair.numbers_while(EVERY, meanwhile);
    eprintln!("{sent} numbers while {what}: lost, repeated, late: {order}");
    assert!(sent > 0);
    assert_eq!(order, "0 0 0", "{sent} numbers while {what}: lost, repeated, late");
}

#[test]
fn programs_of_dpdk_in_two_vms_go_past_a_stock_switch_and_come_back() {
    let test = "links_testpmd::programs_of_dpdk_in_two_vms_go_past_a_stock_switch_and_come_back";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let pair = Pair::start_testpmd();
    pair.link();
    pair.both("direct");
    // Both count all that was since the VM has the port.
    let before = [[(0, 0); 2]; 2];
    pair.pings(100);
    counts_agree(&pair, &before, counted);

    // What is lost without a flip is no fault of one.
    comes(&pair, "nothing changes", || std::thread::sleep(Duration::from_secs(5)));
    comes(&pair, "the rules change", || (0..FLIPS).for_each(|_| flip(&pair)));
    counts_agree(&pair, &before, counted);

    // The window goes while frames are under way, and comes again.
    comes(&pair, "the window goes", || {
        pair.unplug(0);
        pair.both("switch");
    });
    pair.pings(20);
    pair.plug("a");
    pair.both("direct");
    pair.pings(20);

    // Killed on the link, it leaves the port to the next one, which comes to a link again.
    end(&pair.guests[0], "KILL");
    begin_testpmd(&pair.guests[0], &address(0));
    reaches(&pair.guests[0], &address(1));
    pair.both("direct");
    pair.pings(20);
    for guest in &pair.guests {
        let complaints = ["somebody else has memory", "does not believe"];
        let said = said(guest);
        assert!(!complaints.iter().any(|words| said.contains(words)), "{said}");
        healthy(guest);
    }
}
