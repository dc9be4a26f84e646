//! The guest's kernel module with a host that is made to do what a test needs:
//! unplug, lay out anew, keep silent, or answer nonsense.

use std::time::{Duration, Instant};
use vfun_tests_vm::fakehost::{FakeHost, Mood};
use vfun_tests_vm::module::{
    dmesg, expect_over, healthy, hold, load, module_config, ok, said_by, until,
};
use vfun_tests_vm::{LONG, boot};

/// What `hold` writes all over its dataout.
const MARK: u64 = 0x5a5a_5a5a_5a5a_5a5a;
/// How long a host that answers nonsense is asked.
const NONSENSE_SECONDS: u32 = 10;

#[test]
fn after_unplug_old_mappings_reach_nothing_of_the_next_device() {
    let (first, second) = (FakeHost::start(), FakeHost::start());
    let mut config = module_config("unplug", vec![]);
    config.hotplug_ports = 1;
    let guest = boot(&config);
    ok(&guest, "insmod /lib/vfun.ko; test ! -e /dev/vfun0");
    let node = "for i in $(seq 500); do test -c /dev/vfun0 && break; usleep 20000; done; \
                test -c /dev/vfun0 && readlink /sys/class/misc/vfun0/device";
    for round in 0..3 {
        let start = Instant::now();
        guest.plug_doorbell(0, "vf", &first.doorbell()).unwrap();
        let place = ok(&guest, node);
        println!("plugged at {place}, usable after {:?}", start.elapsed());
        let names = [format!("a{round}"), format!("b{round}")];
        for name in &names {
            hold(&guest, name, "/dev/vfun0");
        }
        let (_, resets) = first.requests();
        let start = Instant::now();
        guest.unplug_doorbell("vf", LONG).unwrap();
        println!("unplugged after {:?}", start.elapsed());
        until("a farewell", || first.requests().1 > resets);
        for name in &names {
            expect_over(&guest, name, "19", "6", "19");
        }
        // The next one comes to lie at the same address; those who wrote into
        // the first still do so, every 10 ms, into pages of their own.
        guest.plug_doorbell(0, "vf", &second.doorbell()).unwrap();
        ok(&guest, node);
        hold(&guest, "fresh", "/dev/vfun0");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(second.count(MARK), 0, "an old mapping reached the new device");
        assert!(!said_by(&guest, "fresh").contains("broken"));
        ok(&guest, "kill $(cat /tmp/fresh.pid)");
        guest.unplug_doorbell("vf", LONG).unwrap();
    }
    // Those in a0 to b2 still have their files open.
    assert!(guest.run("rmmod vfun", LONG).unwrap().status != 0);
    ok(&guest, "kill $(cat /tmp/*.pid) 2>/dev/null; sleep 0.5; rmmod vfun");
    healthy(&guest);
}

#[test]
fn a_window_laid_out_anew_takes_the_old_pages_away() {
    let host = FakeHost::start();
    let guest = boot(&module_config("anew", vec![host.doorbell()]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    let beats = host.heartbeats();
    until("heartbeats", || host.heartbeats() > beats);
    host.lay_out_anew();
    // 0: the wait ended with news; 5: SHUTDOWN; 32: EPIPE for the old channel.
    let said = {
        let script = "for i in $(seq 500); do grep -q held /tmp/a.out && break; usleep 20000; done; cat /tmp/a.out";
        ok(&guest, script)
    };
    for line in ["broken 5", "magic 1", "ring 32", "request 116", "map 0"] {
        assert!(said.lines().any(|l| l == line), "no '{line}' in:\n{said}\n{}", dmesg(&guest));
    }
    hold(&guest, "b", "/dev/vfun0");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(host.count(MARK), 0, "an old mapping reached the new window");
    healthy(&guest);
}

#[test]
fn a_silent_host_holds_nobody_up_for_long() {
    let host = FakeHost::start();
    let guest = boot(&module_config("silent", vec![host.doorbell()]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    host.mood(Mood::Silent);
    // Killed in the middle of a request; then the module is unloaded.
    ok(
        &guest,
        "hold /dev/vfun0 > /dev/null & sleep 1; kill -9 $!; wait $!; kill $(cat /tmp/a.pid); sleep 0.2",
    );
    let start = Instant::now();
    ok(&guest, "rmmod vfun");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    ok(&guest, "insmod /lib/vfun.ko; test -c /dev/vfun0");
    host.mood(Mood::Sane);
    hold(&guest, "b", "/dev/vfun0");
    healthy(&guest);
}

#[test]
fn a_host_that_answers_nonsense_crashes_nothing() {
    let host = FakeHost::start();
    let guest = boot(&module_config("nonsense", vec![host.doorbell()]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    host.mood(Mood::Nonsense);
    let (before, _) = host.requests();
    for seed in 1..=2 {
        let script = format!("fuzz /dev/vfun0 {NONSENSE_SECONDS} {seed} 2>&1");
        let out = guest.run(&script, Duration::from_secs(180)).unwrap();
        println!("{}", out.text());
        assert_eq!(out.status, 0, "{}\n{}", out.text(), dmesg(&guest));
    }
    let (after, _) = host.requests();
    println!("{} requests answered with nonsense", after - before);
    assert!(after - before > 50, "too few requests came: {}", after - before);
    // And the other programs that would be fooled.
    ok(
        &guest,
        "for i in $(seq 5); do hold /dev/vfun0 > /dev/null & sleep 0.4; kill -9 $!; done; kill $(cat /tmp/a.pid)",
    );
    healthy(&guest);
    host.mood(Mood::Sane);
    host.lay_out_anew();
    ok(&guest, "sleep 1");
    hold(&guest, "b", "/dev/vfun0");
    ok(&guest, "kill $(cat /tmp/b.pid); sleep 0.5; rmmod vfun; insmod /lib/vfun.ko");
    hold(&guest, "c", "/dev/vfun0");
    healthy(&guest);
}
