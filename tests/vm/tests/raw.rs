//! A doorbell window without the kernel module: root's programs map the device
//! themselves, ring through its registers, and sleep by the clock.

use std::time::Duration;
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::module::doorbell_client;
use vfun_tests_vm::users::{as_user, user_config};
use vfun_tests_vm::{LONG, boot};

fn plugged(name: &str) -> (Stand, Guest) {
    let stand = Stand::start();
    let window = doorbell_client(&stand, "vm1", "");
    let guest = boot(&user_config(name));
    guest.plug_doorbell(0, "window", &window).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()));
    guest
        .run_ok("until grep -q 0x1110 /sys/bus/pci/devices/*/device; do usleep 5000; done", LONG)
        .unwrap();
    (stand, guest)
}

#[test]
fn root_rings_and_calls_without_the_module() {
    let (stand, guest) = plugged("raw");
    let run = |script: &str| {
        guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()))
    };
    assert_eq!(run("vfun call factorial 20"), "2432902008176640000");
    let said = run("vfun call echo --hex 0102 --repeat 2000 2>&1");
    assert!(said.contains("ivshmem (") && said.contains("rings, is not rung"), "{said}");
    // Both sides fall asleep between these: each call must ring.
    assert!(run("vfun-vm-app loop misbehave 0632000000 3").contains("made "));
    let slept = run("for i in 1 2 3; do vfun call echo $i; sleep 1; done");
    assert_eq!(slept, "1\n2\n3");
    let doctor = run("vfun doctor");
    assert!(doctor.contains("not loaded: only programs of root's"), "{doctor}");
    // Others are told what would help.
    let out = guest.run(&as_user("app", "vfun call echo x 2>&1"), LONG).unwrap();
    assert!(out.status == 5 && out.text().contains("modprobe vfun"), "{}", out.text());
    stand.until("everything given back", |s| s.totals().2 == 0);
    guest.shutdown(Duration::from_secs(20)).unwrap();
}

#[test]
fn an_unplugged_window_is_named_without_the_module_too() {
    let (stand, guest) = plugged("raw-unplug");
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| guest.run("vfun-vm-app loop misbehave 061e000000 60", LONG));
        stand.until("the calls", |s| s.grants().iter().any(|g| g.counters.calls > 5));
        guest.unplug_doorbell("window", LONG).unwrap();
        let out = calls.join().unwrap().unwrap();
        assert!(out.status == 7 && out.text().contains("error DeviceGone"), "{}", out.text());
    });
    let out = guest.run("vfun call echo x 2>&1", LONG).unwrap();
    assert!(out.status == 5 && out.text().contains("no ivshmem device"), "{}", out.text());
}
