//! A DPDK program in a VM that has a port of it: testpmd, as Debian has it.
//!
//! It takes a minute, so only `make test-all` runs it (tests/ports.sh).

use crate::ports::{bridge, carrier, port, reaches, tell, vm_in};
use crate::ports_programs::{BRIDGE, Way, network};
use std::process::Command;
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::boot;
use vfun_tests_vm::module::{doorbell_client, healthy, ok, until};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::netprograms::folder;
use vfun_tests_vm::openvswitch;
use vfun_tests_vm::testpmd::{config, driver, end, own_port, prepare, said, says, start};

/// testpmd answers pings to it: it has no address of its own.
const VM: &str = "10.9.0.2";
const HOST: &str = "10.9.0.1";

/// Whether testpmd answers so many pings in a row.
fn answers(count: u32) -> bool {
    let out = Command::new(folder().expect("asked for").join("run"))
        .args(["/bin/ping", "-c", &count.to_string(), "-i", "0.1", "-W", "2", VM])
        .output()
        .unwrap();
    out.status.success() && String::from_utf8_lossy(&out.stdout).contains(" 0% packet loss")
}

fn answering(guest: &Guest, what: &str) {
    if !(0..30).any(|_| answers(1)) {
        panic!("{what}: {}", said(guest));
    }
    assert!(answers(10), "{what}: {}", said(guest));
}

fn begin(guest: &Guest, more: &str) {
    start(guest, &own_port(more), "--forward-mode=icmpecho");
    answering(guest, "testpmd answers");
}

#[test]
fn a_program_of_dpdk_in_a_vm_has_a_port() {
    let test = "ports_testpmd::a_program_of_dpdk_in_a_vm_has_a_port";
    if driver().is_none() || folder().is_none() || !inside(test) {
        return;
    }
    bridge();
    let mut stand = Stand::with(&["--ports"]);
    let doorbell = doorbell_client(&stand, "vm0", "[ports.eth1]\nswitch = \"br0\"\n");
    let guest = boot(&config("ports-testpmd", vec![doorbell], &[]));
    prepare(&guest);

    // An interface that is up has the port; testpmd says what to do.
    ok(&guest, &format!("ip addr add {VM}/24 dev eth1; ip link set eth1 up"));
    carrier(&guest);
    start(&guest, &own_port(""), "--forward-mode=icmpecho");
    says(&guest, "port eth1 of this VM is in use");
    end(&guest, "TERM");
    ok(&guest, "ip link set eth1 down");

    // By its name, and a name that there is not.
    start(&guest, &own_port(",port=eth7"), "--forward-mode=icmpecho");
    says(&guest, "no port is called 'eth7': this VM has eth1");
    end(&guest, "TERM");
    begin(&guest, ",port=eth1");
    assert!(port(&stand, "vm0")["state"] == "active");
    assert!(said(&guest).contains(&*port(&stand, "vm0")["mac"].as_str().unwrap().to_uppercase()));

    // The service, and then the manager, are other ones: frames go on.
    let pid = stand.grants()[0].pid.expect("it is served");
    crate::ports::kill(pid);
    answering(&guest, "another service has it");
    stand.kill_vfund();
    assert!(answers(10), "without a manager: {}", said(&guest));
    stand.start_vfund();
    answering(&guest, "another manager has it");

    // The port is changed: it comes again, with what it is now.
    tell(&stand, &["port", "add", "vm0", "eth1", "--mtu", "1400"]);
    says(&guest, "the port is lost");
    answering(&guest, "it comes again");
    tell(&stand, &["port", "remove", "vm0", "eth1"]);
    says(&guest, "this VM has no ports");
    tell(&stand, &["port", "add", "vm0", "eth1", "--switch", "br0"]);
    answering(&guest, "it comes back");

    // Killed in the middle, it leaves the port to the kernel's interface.
    end(&guest, "KILL");
    ok(&guest, &format!("ip addr add {VM}/24 dev eth1; ip link set eth1 up"));
    carrier(&guest);
    reaches(&guest, HOST);
    healthy(&guest);
}

#[test]
fn a_user_without_the_right_gets_no_port() {
    let test = "ports_testpmd::a_user_without_the_right_gets_no_port";
    if driver().is_none() || !inside(test) {
        return;
    }
    bridge();
    let stand = Stand::with(&["--ports"]);
    let doorbell = doorbell_client(&stand, "vm0", "[ports.eth1]\nswitch = \"br0\"\n");
    let guest = boot(&config("ports-user", vec![doorbell], &[]));
    prepare(&guest);
    // Who may open the device, as those of the group vfun may, has no port for that.
    let line = own_port("");
    ok(
        &guest,
        &format!(
            "mkdir -p /tmp/run && chown app /tmp/run && chmod 666 /dev/vfun0; su app -s /bin/sh -c 'XDG_RUNTIME_DIR=/tmp/run dpdk-testpmd -l 0,1 -m 64 --no-telemetry {line} -- --total-num-mbufs=2048' >/tmp/testpmd 2>&1 </dev/null; true"
        ),
    );
    assert!(said(&guest).contains("CAP_NET_ADMIN"), "{}", said(&guest));
    assert!(!stand.log().contains("granted"), "{}", stand.log());
    healthy(&guest);
}

/// testpmd in one VM, the kernel's interface in another one, and the switch between them.
#[test]
fn a_program_of_dpdk_is_reached_through_a_stock_open_vswitch_with_dpdk() {
    let test = "ports_testpmd::a_program_of_dpdk_is_reached_through_a_stock_open_vswitch_with_dpdk";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (switch, stand) = network(&dir.path().join("ovs"), Way::Dpdk);
    let lines = Way::Dpdk.lines();
    let other = vm_in(&stand, 0, (10, BRIDGE, lines), vec![]);
    let port = format!("[ports.eth1]\nswitch = \"{BRIDGE}\"\n{lines}");
    let guest = boot(&config("ports-testpmd-1", vec![doorbell_client(&stand, "vm1", &port)], &[]));
    prepare(&guest);
    start(&guest, &own_port(""), "--forward-mode=icmpecho");
    reaches(&other, VM);
    ok(&other, &format!("ping -c 50 -i 0.05 -W 2 {VM} | grep ' 0% packet loss'"));
    // The link of the switch's port follows the program.
    let link = || switch.vsctl("get Interface vm1.eth1 link_state");
    until("its link is up", || link().trim() == "up");
    end(&guest, "KILL");
    until("its link is down", || link().trim() == "down");
    [&guest, &other].into_iter().for_each(healthy);
}
