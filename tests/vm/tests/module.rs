//! The guest's kernel module, in real guests with a real manager.

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use vfun_testguest::Guest;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::{
    MODULE, dmesg, doorbell_client, expect_over, healthy, hold, load, module_config, ok, said_by,
};
use vfun_tests_vm::{LONG, boot};

/// How long one run of the random caller takes.
const FUZZ_SECONDS: u32 = 10;

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
}

fn gone(stand: &Stand) {
    stand.until("all sessions gone", |s| s.totals().1 == 0 && s.totals().2 == 0);
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
    assert_eq!(out.status, 0, "{}\n{}", out.text(), dmesg(&guest));
    gone(&stand);
}

/// A program that is killed in the middle of its goodbye: if that was not said
/// yet, the end of its file says it, and the host need not wait for 30 s of
/// silence.
#[test]
fn a_goodbye_that_is_killed_is_said_all_the_same() {
    let stand = Stand::start();
    let guest = boot(&module_config("goodbyes", vec![doorbell_client(&stand, "vm1", "")]));
    load(&guest);
    let out = guest.run("misuse /dev/vfun0 goodbyes", Duration::from_secs(300)).unwrap();
    assert_eq!(out.status, 0, "{}\n{}", out.text(), dmesg(&guest));
    gone(&stand);
    // Some 30 of the 480 were left to the 30 s before. A few may be, where the
    // host stands still for as long as the kernel waits: 2 s.
    let silent = stand.log().matches("has not moved its heartbeat").count();
    assert!(silent <= 4, "{silent} sessions were left:\n{}", stand.log());
    healthy(&guest);
}

/// Memory that an app of the guest and a function write, seen from all sides.
#[test]
fn a_buffer_is_shared_with_the_host_and_nobody_else_and_goes_with_its_program() {
    let stand = Stand::start();
    let mut config = module_config("buffer", vec![doorbell_client(&stand, "vm1", "")]);
    config.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    let guest = boot(&config);
    load(&guest);
    let begin = "vfun-vm-app buffer > /tmp/b 2>&1 & echo $! > /tmp/b.pid; \
                 until grep -q -E '^shared|^error|panicked' /tmp/b; do usleep 20000; done; cat /tmp/b";
    let said = ok(&guest, begin);
    assert!(said.ends_with("shared 1048576 bytes, sum 131064401"), "{said}\n{}", stand.log());
    let grants = stand.grants();
    assert_eq!((grants[0].session_buffers, grants[0].session_buffer_bytes), (1, 1 << 20));
    assert_eq!((stand.status().buffers, stand.status().buffer_bytes), (1, 1 << 20));
    // Another program of the guest reaches the window's header alone.
    let other = ok(&guest, "vfun-vm-app reach 2>/dev/null");
    assert!(other.starts_with("read [0] write []"), "{other}");
    ok(&guest, "kill -9 $(cat /tmp/b.pid)");
    gone(&stand);
    stand.until("the buffer given back", |s| s.status().buffers == 0);
    healthy(&guest);
}

/// Queues of a program in the guest: woken through the module, and told of their end.
#[test]
fn queues_work_through_it_until_their_service_dies() {
    let stand = Stand::start();
    let mut config = module_config("queues", vec![doorbell_client(&stand, "vm1", "")]);
    config.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    let guest = boot(&config);
    load(&guest);
    let said = |what: &str| {
        let until = format!(
            "until grep -q -E '{what}|^error|panicked' /tmp/q; do usleep 20000; done; cat /tmp/q"
        );
        ok(&guest, &until)
    };
    ok(&guest, "vfun-vm-app queues > /tmp/q 2>&1 &");
    let back = said("^back");
    assert!(back.ends_with("back 20250"), "{back}\n{}", stand.log());
    // Another program of the guest reaches nothing of them.
    let other = ok(&guest, "vfun-vm-app reach 2>/dev/null");
    assert!(other.starts_with("read [0] write []"), "{other}");
    let queues = stand.grants().into_iter().find(|g| g.depth == 0).expect("it is active");
    assert_eq!((queues.function.as_str(), queues.state.as_str()), ("mirror", "active"));
    kill(queues.pid.expect("it is served"));
    let over = said("^over");
    assert!(over.contains("error Broken") && over.contains("its service died"), "{over}");
    gone(&stand);
    healthy(&guest);
}

#[test]
fn random_calls_do_it_no_harm() {
    let stand = Stand::start();
    let guest = boot(&module_config("fuzz", vec![doorbell_client(&stand, "vm1", "")]));
    load(&guest);
    let out = guest
        .run(&format!("fuzz /dev/vfun0 {FUZZ_SECONDS} 2>&1"), Duration::from_secs(180))
        .unwrap();
    println!("{}", out.text());
    healthy(&guest);
    assert_eq!(out.status, 0, "{}\n{}", out.text(), dmesg(&guest));
    gone(&stand);
    hold(&guest, "a", "/dev/vfun0");
    ok(&guest, "kill $(cat /tmp/a.pid)");
    gone(&stand);
}

#[test]
fn it_cannot_be_unloaded_in_use_but_unbound_and_nothing_leaks() {
    let stand = Stand::start();
    let guest = boot(&module_config("unbind", vec![doorbell_client(&stand, "vm1", "")]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    hold(&guest, "b", "/dev/vfun0");
    let out = guest.run("rmmod vfun", LONG).unwrap();
    assert!(out.status != 0, "unloaded under an open file");
    let bdf = Guest::doorbell_bdf(0);
    ok(&guest, &format!("echo {bdf} > /sys/bus/pci/drivers/vfun/unbind"));
    for who in ["a", "b"] {
        // 6: DEVICE_GONE; 19: ENODEV; 0x18: POLLERR | POLLHUP and POLLIN (1).
        expect_over(&guest, who, "19", "6", "19");
    }
    // The host was told, and need not wait for heartbeats to fail.
    gone(&stand);
    assert!(guest.run("rmmod vfun", LONG).unwrap().status != 0, "unloaded under an open file");
    ok(&guest, &format!("test ! -e /dev/vfun0; echo {bdf} > /sys/bus/pci/drivers/vfun/bind"));
    // The node of the device as it is now; the old files stay gone.
    hold(&guest, "c", "/dev/vfun0");
    ok(&guest, "kill $(cat /tmp/a.pid /tmp/b.pid /tmp/c.pid); sleep 0.3");
    gone(&stand);

    let once = format!(
        "rmmod vfun && insmod {MODULE} && hold /dev/vfun0 null > /tmp/h & p=$!; \
         until grep -q ready /tmp/h 2>/dev/null; do usleep 20000; done; kill $p; wait $p; \
         rm -f /tmp/h; until rmmod vfun; do usleep 20000; done; insmod {MODULE}"
    );
    let pages = "sync; echo 3 > /proc/sys/vm/drop_caches; usleep 300000; \
                 awk '/^(Slab|Percpu|VmallocUsed|KernelStack)/ { s += $2 } END { print s }' /proc/meminfo";
    for _ in 0..5 {
        ok(&guest, &once);
    }
    let before: i64 = ok(&guest, pages).parse().expect("a number of KiB");
    for _ in 0..20 {
        ok(&guest, &once);
    }
    let after: i64 = ok(&guest, pages).parse().expect("a number of KiB");
    println!("kernel memory: {before} KiB, after 20 loads {after} KiB");
    // One device's window table, interrupts and node are more than 30 KiB.
    assert!(after - before < 300, "{before} KiB before, {after} KiB after 20 loads");
    assert_eq!(ok(&guest, "cat /sys/module/vfun/refcnt"), "0");
    healthy(&guest);
    gone(&stand);
}

#[test]
fn a_guest_that_is_reset_loses_its_old_sessions_at_once() {
    let stand = Stand::start();
    let guest = boot(&module_config("reset", vec![doorbell_client(&stand, "vm1", "")]));
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    assert_eq!(stand.totals().1, 1);
    let beaten = Instant::now();
    guest.reset().unwrap();
    // No one has told the host yet. Where 30 s may have passed, silence has.
    let totals = stand.totals();
    assert!(totals.1 == 1 || beaten.elapsed() > Duration::from_secs(25), "{totals:?}");
    load(&guest);
    gone(&stand);
    hold(&guest, "a", "/dev/vfun0");
    healthy(&guest);
}

#[test]
fn it_is_put_to_sleep_and_woken() {
    let stand = Stand::start();
    let mut config = module_config("sleep", vec![doorbell_client(&stand, "vm1", "")]);
    // The image of all that is in use must fit beside it.
    config.memory_mib = 512;
    let guest = boot(&config);
    load(&guest);
    hold(&guest, "a", "/dev/vfun0");
    // Neither s2idle nor S3 comes back in this emulated machine, with the module
    // or without. A hibernation without a place for its image does all of it up
    // to the last step: freezes programs, puts devices to sleep, takes the
    // image, wakes devices, and gives up.
    for n in 1..=3 {
        assert!(guest.run("echo disk > /sys/power/state", LONG).unwrap().status != 0);
        let images = ok(&guest, "dmesg | grep -c 'hibernation: Creating image'");
        assert_eq!(images, n.to_string(), "{}", ok(&guest, "dmesg | tail -n 15"));
        hold(&guest, &format!("after{n}"), "/dev/vfun0");
        // The one from before is alive: nothing has ended it.
        assert!(!said_by(&guest, "a").contains("broken"), "{}", said_by(&guest, "a"));
    }
    healthy(&guest);
}

#[test]
fn it_is_there_soon_and_rings_cheaply() {
    let stand = Stand::start();
    let guest = boot(&module_config("cost", vec![doorbell_client(&stand, "vm1", "")]));
    let start = Instant::now();
    load(&guest);
    let whole = start.elapsed();
    let time = |what: &str| {
        ok(&guest, &format!("dmesg | grep -m1 '{what}' | tr -d '[]' | awk '{{print $1}}'"))
    };
    let (from, to) = (time("loading out-of-tree"), time("VirtFun window of"));
    println!("insmod to /dev/vfun0: kernel's clock {from} s to {to} s; with the shell {whole:?}");
    let bdf = Guest::doorbell_bdf(0);
    println!("{}", ok(&guest, "ringcost /dev/vfun0"));
    ok(&guest, &format!("echo {bdf} > /sys/bus/pci/drivers/vfun/unbind"));
    println!(
        "{}",
        ok(
            &guest,
            &format!(
                "echo 1 > /sys/bus/pci/devices/{bdf}/enable; ringcost /sys/bus/pci/devices/{bdf}/resource0"
            )
        )
    );
}
