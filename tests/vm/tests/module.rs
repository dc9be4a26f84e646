//! The guest's kernel module, in real guests.

use std::time::Duration;
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::module::{MODULE, doorbell_client, healthy, module_config};
use vfun_tests_vm::{LONG, boot};

fn ok(guest: &Guest, script: &str) -> String {
    guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", dmesg(guest)))
}

fn dmesg(guest: &Guest) -> String {
    guest.run("dmesg | tail -n 40", LONG).map(|o| o.text()).unwrap_or_default()
}

fn load(guest: &Guest) {
    ok(guest, &format!("insmod {MODULE} && test -c /dev/vfun0"));
}

#[test]
fn it_loads_is_misused_and_leaves_nothing_behind() {
    let stand = Stand::start();
    let guest = boot(&module_config("misuse", vec![doorbell_client(&stand, "vm1", "")]));
    load(&guest);
    let said = ok(&guest, "dmesg | grep vfun");
    assert!(said.contains("VirtFun window of 16 MiB") && said.contains("/dev/vfun0"), "{said}");
    let out = guest.run("misuse /dev/vfun0", Duration::from_secs(300)).unwrap();
    healthy(&guest);
    assert_eq!(out.status, 0, "{}\n{}\n{}", out.text(), dmesg(&guest), stand.log());
    stand.until("all sessions gone", |s| s.totals().1 == 0 && s.totals().2 == 0);
}
