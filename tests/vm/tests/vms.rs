//! Three guests at once: two VMs of one client, and one of another.

use std::path::PathBuf;
use std::time::Duration;
use vfun_admin::GrantRow;
use vfun_testguest::{Doorbell, Guest, GuestConfig, Window};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::{load, module_config};
use vfun_tests_vm::{LONG, boot, config};

/// The client's grants are two: a program in each of its VMs takes one.
const WEB: &str = "name = \"web\"\nwindow = \"4 MiB\"\nmax_grants = 2\n\
                   [vm.web]\n[vm.b]\ntransport = \"ivshmem-plain\"\n";
const OTHER: &str = "name = \"other\"\nwindow = \"4 MiB\"\ntransport = \"ivshmem-plain\"\n";
/// Calls of 30 ms, one after the other, for longer than the test takes.
const LOOP: &str =
    "(vfun-vm-app loop misbehave 061e000000 900 > /tmp/loop 2>&1; echo ended >> /tmp/loop) &";

fn with_app(config: GuestConfig) -> GuestConfig {
    let mut files = config.files;
    files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    GuestConfig { files, memory_mib: 320, cpus: 1, ..config }
}

fn plain(stand: &Stand, name: &str) -> GuestConfig {
    let path: PathBuf = stand.root().join(format!("virtfun-{name}"));
    with_app(config(
        &format!("vms-{}", name.replace('@', "-")),
        vec![Window { path, size: 4 << 20 }],
    ))
}

fn run(stand: &Stand, guest: &Guest, script: &str) -> String {
    guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()))
}

fn grant_of(stand: &Stand, owner: &str) -> Option<GrantRow> {
    stand.grants().into_iter().find(|g| g.owner() == owner)
}

/// Waits until the loop of a VM has had further calls answered.
fn goes_on(stand: &Stand, owner: &str) {
    let calls = |s: &Stand| grant_of(s, owner).map(|g| g.counters.calls);
    let before = calls(stand).unwrap_or_else(|| panic!("{owner} has no grant\n{}", stand.log()));
    stand.until("further calls", |s| calls(s).is_some_and(|n| n > before + 3));
}

/// Handles of one VM's grant and sessions, in the windows of others. The session that is
/// there is that of the VM's own loop.
fn handles_of_web_mean_nothing_in(stand: &Stand, others: [&Guest; 2]) {
    let grant = grant_of(stand, "web").unwrap().grant;
    let resource = "$(dirname $(grep -l 0x1110 /sys/bus/pci/devices/*/device))/resource2";
    let expected =
        "activate BadHandle\nstats BadHandle\nrelease BadHandle\nother sessions 1\nown true";
    for guest in others {
        let said = run(stand, guest, &format!("vfun-vm-app handles {grant} {resource}"));
        assert_eq!(said, expected);
    }
}

#[test]
fn two_vms_of_a_client_and_one_of_another_at_once() {
    let mut stand = Stand::start();
    stand.add_client(WEB).unwrap();
    stand.add_client(OTHER).unwrap();
    let doorbell = Doorbell::new(stand.root().join("ivshmem/web.sock"));
    let configs = [
        with_app(module_config("vms-web", vec![doorbell])),
        plain(&stand, "web@b"),
        plain(&stand, "other"),
    ];
    let guests = std::thread::scope(|s| {
        let boots = configs.each_ref().map(|c| s.spawn(|| boot(c)));
        boots.map(|b| b.join().unwrap())
    });
    let [web, b, other] = &guests;
    load(web);
    for guest in &guests {
        assert_eq!(run(&stand, guest, "vfun call factorial 20"), "2432902008176640000");
    }
    stand.until("all is given back", |s| s.totals().2 == 0);
    for (guest, owner) in [(web, "web"), (b, "web/b"), (other, "other")] {
        run(&stand, guest, LOOP);
        stand.until("its loop", |s| grant_of(s, owner).is_some_and(|g| g.state == "active"));
        goes_on(&stand, owner);
    }

    // The client's quota counts both; nobody else's does.
    for guest in [web, b] {
        let out = guest.run("vfun call echo x 2>&1", LONG).unwrap();
        assert!(out.status == 3 && out.text().contains("holds 2 grants"), "{}", out.text());
    }
    assert_eq!(run(&stand, other, "vfun call echo x"), "x");

    handles_of_web_mean_nothing_in(&stand, [b, other]);
    ["web", "web/b", "other"].into_iter().for_each(|owner| goes_on(&stand, owner));

    // Another manager goes on with all three.
    stand.kill_vfund();
    stand.start_vfund();
    ["web", "web/b", "other"].into_iter().for_each(|owner| goes_on(&stand, owner));

    // A reset of the first VM ends what its programs had, and nothing of the second one's.
    let held = grant_of(&stand, "web/b").unwrap().grant;
    web.reset().unwrap_or_else(|e| panic!("{e}\n{}", web.console()));
    load(web);
    stand.until("its loop is over", |s| grant_of(s, "web").is_none());
    assert_eq!(grant_of(&stand, "web/b").unwrap().grant, held);
    goes_on(&stand, "web/b");
    assert_eq!(run(&stand, web, "vfun call echo again"), "again");
    let [web, b, other] = guests;
    // So does its end.
    run(&stand, &web, LOOP);
    stand.until("its loop", |s| grant_of(s, "web").is_some_and(|g| g.state == "active"));
    web.kill();
    stand.until("it is gone", |s| grant_of(s, "web").is_none());
    ["web/b", "other"].into_iter().for_each(|owner| goes_on(&stand, owner));
    for guest in [&b, &other] {
        assert_eq!(run(&stand, guest, "grep -c ended /tmp/loop || true"), "0");
    }
    run(&stand, &b, "kill $(pidof vfun-vm-app); sleep 1");
    b.shutdown(Duration::from_secs(20)).unwrap();
    other.kill();
}
