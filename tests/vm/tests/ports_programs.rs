//! Ports of a stock Open vSwitch, without DPDK and with it, used by programs of Debian as their packages
//! have them, and by the switch's operator as other ports are.
//!
//! It takes minutes, so only `make test-all` runs it (tests/ports.sh).

use crate::ports::{carrier, copies, healthy_port, port, reaches, tell, up, vm_in};
use std::path::Path;
use std::time::Duration;
use vfun_testguest::Guest;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::{MODULE, healthy, ok, until};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::netprograms::{NET_PROGRAMS, files, folder, install, packed};
use vfun_tests_vm::openvswitch::{self, OpenVSwitch};
use vfun_tests_vm::testpmd::driver;

pub const BRIDGE: &str = "sw0";
const HOST: &str = "10.9.0.1";
/// Where the programs of the tests look for the VM with number 0.
const FIRST: u8 = 10;
/// How long each program runs.
const LONG: Duration = Duration::from_secs(4);

/// How the switch gets the frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Tap,
    Dpdk,
}

impl Way {
    /// The lines of a port.
    pub fn lines(self) -> &'static str {
        match self {
            Way::Tap => "",
            Way::Dpdk => "way = \"dpdk\"\n",
        }
    }
}

/// A switch whose own interface has the host's address, and a manager that finds it.
pub fn network(folder: &Path, way: Way) -> (OpenVSwitch, Stand) {
    network_with(folder, way, &["--ports"])
}

/// The same with a manager that has these options.
pub fn network_with(folder: &Path, way: Way, options: &[&str]) -> (OpenVSwitch, Stand) {
    let switch = match way {
        Way::Tap => OpenVSwitch::start_plain(openvswitch::programs().expect("asked for"), folder),
        Way::Dpdk => switch_for(folder, 0),
    };
    around(switch, folder, options)
}

/// A switch with DPDK and our driver, and memory for so many ports more than usual.
pub fn switch_for(folder: &Path, more: u32) -> OpenVSwitch {
    let (programs, driver) = openvswitch::programs().zip(driver()).expect("asked for");
    let switch = OpenVSwitch::start_with(programs, folder, &[&driver], more);
    // The VMs want its processor, too.
    switch.vsctl("set Open_vSwitch . other_config:pmd-maxsleep=100");
    switch
}

/// The network and the manager of a switch.
pub fn around(switch: OpenVSwitch, folder: &Path, options: &[&str]) -> (OpenVSwitch, Stand) {
    switch.vsctl(&format!("add-br {BRIDGE} -- set Bridge {BRIDGE} datapath_type=netdev"));
    ip(&format!("addr add {HOST}/24 dev {BRIDGE}"));
    ip(&format!("link set {BRIDGE} up"));
    // What comes in by a tap device goes to the host's kernel as well as to the switch.
    std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").unwrap();
    let (rundir, path) = finds(folder);
    let variables = [("OVS_RUNDIR", &*rundir), ("PATH", &*path)];
    let stand = Stand::of(&programs().join("vfund"), options, &variables);
    (switch, stand)
}

/// By what a manager finds the switch and its programs.
pub fn finds(folder: &Path) -> (String, String) {
    let programs = openvswitch::programs().expect("asked for");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    (folder.to_str().unwrap().to_owned(), path)
}

/// Whether these tests are asked for, and this is the process in which they run.
fn asked(test: &str) -> bool {
    folder().is_some() && openvswitch::programs().is_some() && inside(test)
}

/// Frames and bytes of a port, as the switch counts them: from the VM, and to it.
pub fn counted(switch: &OpenVSwitch, tap: &str) -> (u64, u64) {
    let said = switch.ofctl("dump-ports", BRIDGE, &[tap]);
    let number = |of: &str| {
        let rest = &said[said.find(of).unwrap_or_else(|| panic!("{said}")) + of.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
        rest[..end].parse().unwrap()
    };
    (number("rx pkts="), number("tx pkts="))
}

/// What the interface in the VM has sent and received.
pub fn counted_in(guest: &Guest) -> (u64, u64) {
    let read = |file: &str| {
        ok(guest, &format!("cat /sys/class/net/eth1/statistics/{file}")).trim().parse().unwrap()
    };
    (read("tx_packets"), read("rx_packets"))
}

#[test]
fn programs_of_debian_run_through_a_stock_open_vswitch() {
    if asked("ports_programs::programs_of_debian_run_through_a_stock_open_vswitch") {
        programs_run(Way::Tap);
    }
}

#[test]
fn programs_of_debian_run_through_a_stock_open_vswitch_with_dpdk() {
    let test = "ports_programs::programs_of_debian_run_through_a_stock_open_vswitch_with_dpdk";
    if driver().is_some() && asked(test) {
        programs_run(Way::Dpdk);
    }
}

fn programs_run(way: Way) {
    let dir = tempfile::tempdir().unwrap();
    let (switch, stand) = network(&dir.path().join("ovs"), way);
    let guest = vm_in(&stand, 0, (FIRST, BRIDGE, way.lines()), files(packed()));
    install(&guest);
    reaches(&guest, HOST);
    for program in &NET_PROGRAMS {
        (program.serve)(&guest, LONG);
        let count = (program.run)(&guest, LONG).unwrap_or_else(|e| panic!("{}: {e}", program.name));
        eprintln!("{}: {count}", program.name);
        assert!(count.sent > 0, "{}", program.name);
    }
    healthy_port(&stand, "vm0");
    let tap = port(&stand, "vm0")["tap"].as_str().unwrap().to_owned();
    goes(&stand, &switch, &tap);
    healthy(&guest);
}

#[test]
fn three_guests_reach_each_other_through_a_stock_open_vswitch_with_dpdk() {
    let test =
        "ports_programs::three_guests_reach_each_other_through_a_stock_open_vswitch_with_dpdk";
    if driver().is_none() || !asked(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (switch, stand) = network(&dir.path().join("ovs"), Way::Dpdk);
    let guests = std::thread::scope(|s| {
        let boots = [0, 1, 2].map(|n| {
            let stand = &stand;
            s.spawn(move || vm_in(stand, n, (FIRST, BRIDGE, Way::Dpdk.lines()), vec![]))
        });
        boots.map(|b| b.join().unwrap())
    });
    let address = |n: usize| format!("10.9.0.{}", usize::from(FIRST) + n);
    for (n, from) in guests.iter().enumerate() {
        let next = (n + 1) % guests.len();
        reaches(&guests[next], &address(n));
        copies(from, &address(n), &guests[next]);
    }
    // One that goes leaves the others alone.
    let [first, second, third] = guests;
    drop(second);
    until("its link is down", || switch.vsctl("get Interface vm1.eth1 link_state").trim() != "up");
    copies(&third, &address(2), &first);
    [first, third].iter().for_each(healthy);
}

/// Nobody answers the VM.
fn silent(guest: &Guest, what: &str) {
    let said = guest.run(&format!("ping -c 2 -W 1 {HOST}"), LONG * 5).unwrap();
    assert_ne!(said.status, 0, "{what}: {}", said.text());
}

/// Some of many large pings are lost on their way there or back.
fn loses_some(guest: &Guest, what: &str) {
    let said = guest.run(&format!("ping -c 200 -i 0.01 -s 1400 -W 1 {HOST}"), LONG * 10).unwrap();
    let text = said.text();
    let some = text.contains("packet loss") && [" 0% ", " 100% "].iter().all(|l| !text.contains(l));
    assert!(some, "{what}: {text}");
}

/// Bounds on what a port receives and sends, as the switch has them for its way.
fn quality_of_service(switch: &OpenVSwitch, guest: &Guest, (tap, way): (&str, Way)) {
    let to_vm = match way {
        Way::Tap => "linux-htb other-config:max-rate=64000",
        Way::Dpdk => "egress-policer other-config:cir=8000 other-config:cbs=2048",
    };
    switch.vsctl(&format!("set Port {tap} qos=@q -- --id=@q create QoS type={to_vm}"));
    loses_some(guest, "what is sent to the VM has a bound");
    switch.vsctl(&format!("clear Port {tap} qos -- --all destroy QoS"));
    reaches(guest, HOST);
    // Without DPDK, this is a filter of the kernel, which may have none.
    if way == Way::Dpdk {
        let bound =
            |rate: u32| format!("ingress_policing_rate={rate} ingress_policing_burst={}", rate / 8);
        switch.vsctl(&format!("set Interface {tap} {}", bound(64)));
        loses_some(guest, "what comes from the VM has a bound");
        switch.vsctl(&format!("set Interface {tap} {}", bound(0)));
        reaches(guest, HOST);
    }
}

/// The kernel's own generator sends as fast as it can; all that the VM has sent came, or was
/// counted as lost.
fn generates(stand: &Stand, switch: &OpenVSwitch, guest: &Guest, tap: &str) {
    const COUNT: u64 = 50_000;
    let refused = || port(stand, "vm0")["counts"]["refused"].as_u64().unwrap();
    let before = (counted(switch, tap).0, counted_in(guest).0, refused());
    let of_eth1 =
        [&*format!("count {COUNT}"), "pkt_size 60", "delay 0", "burst 16", "dst 10.9.0.77"];
    let lines = of_eth1.map(|l| format!("echo {l} >/proc/net/pktgen/eth1"));
    ok(
        guest,
        &format!(
            "modprobe pktgen && echo add_device eth1 >/proc/net/pktgen/kpktgend_0 && {} && \
             echo start >/proc/net/pktgen/pgctrl; cat /proc/net/pktgen/eth1; rmmod pktgen",
            lines.join(" && ")
        ),
    );
    until("each frame was forwarded, or counted", || {
        let sent = counted_in(guest).0 - before.1;
        sent >= COUNT && counted(switch, tap).0 - before.0 + refused() - before.2 == sent
    });
}

/// VLANs, a port that is down, a mirror, and a bound.
fn what_a_switch_does(switch: &OpenVSwitch, guest: &Guest, tap: &str) {
    // A VLAN of its own.
    switch.vsctl(&format!("set Port {tap} tag=7"));
    silent(guest, "it is in another VLAN");
    switch.vsctl(&format!("set Port {BRIDGE} tag=7"));
    reaches(guest, HOST);
    switch.vsctl(&format!("clear Port {BRIDGE} tag -- clear Port {tap} tag"));
    reaches(guest, HOST);

    // Down and up by OpenFlow.
    switch.ofctl("mod-port", BRIDGE, &[tap, "down"]);
    silent(guest, "the port is down");
    switch.ofctl("mod-port", BRIDGE, &[tap, "up"]);
    reaches(guest, HOST);

    // A mirror sees all that the VM sends.
    switch.vsctl(&format!("add-port {BRIDGE} mirror -- set Interface mirror type=internal"));
    ip("link set mirror up");
    switch.vsctl(&format!(
        "--id=@p get Port {tap} -- --id=@m get Port mirror -- \
         --id=@x create Mirror name=x select-src-port=@p output-port=@m -- set Bridge {BRIDGE} mirrors=@x"
    ));
    let seen = counted(switch, "mirror").1;
    // Flows that the switch knows already follow within half a second, or later if it is busy.
    until("the mirror has them", || {
        ok(guest, &format!("ping -c 50 -i 0.01 {HOST} >/dev/null"));
        counted(switch, "mirror").1 >= seen + 20
    });
    switch.vsctl(&format!("clear Bridge {BRIDGE} mirrors"));

    // A bound on what the VM sends.
    let of13 = ["-O", "OpenFlow13"];
    let meter = "meter=1,kbps,band=type=drop,rate=64";
    switch.ofctl("add-meter", BRIDGE, &[&[meter], &of13[..]].concat());
    let bound = format!("priority=9,in_port={tap},actions=meter:1,normal");
    switch.ofctl("add-flow", BRIDGE, &[&[&*bound], &of13[..]].concat());
    loses_some(guest, "a meter");
    switch.ofctl("del-flows", BRIDGE, &[&format!("in_port={tap}")]);
    reaches(guest, HOST);
}

#[test]
fn an_operator_does_with_a_port_what_is_done_with_others() {
    if asked("ports_programs::an_operator_does_with_a_port_what_is_done_with_others") {
        operates(Way::Tap);
    }
}

#[test]
fn an_operator_does_the_same_with_a_port_of_dpdk() {
    let test = "ports_programs::an_operator_does_the_same_with_a_port_of_dpdk";
    if driver().is_some() && asked(test) {
        operates(Way::Dpdk);
    }
}

/// The switch counts what both ends count, as long as this ping alone is under way.
fn counts_agree(switch: &OpenVSwitch, guest: &Guest, tap: &str) {
    let before = (counted(switch, tap), counted_in(guest));
    ok(guest, &format!("ping -c 200 -i 0.01 {HOST} >/dev/null"));
    let grown = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
    let mut last = ((0, 0), (0, 0));
    let agrees = (0..100).any(|_| {
        let by_switch = grown(counted(switch, tap), before.0);
        last = (by_switch, grown(counted_in(guest), before.1));
        last.0 == last.1 && by_switch.0 >= 200
    });
    assert!(agrees, "of frames from and to the VM, the switch and the VM count {last:?}");
}

fn operates(way: Way) {
    let dir = tempfile::tempdir().unwrap();
    let (mut switch, mut stand) = network(&dir.path().join("ovs"), way);
    let guest = vm_in(&stand, 0, (FIRST, BRIDGE, way.lines()), vec![]);
    reaches(&guest, HOST);
    let tap = port(&stand, "vm0")["tap"].as_str().unwrap().to_owned();

    // Both ends and the switch count the same, also when the switch is another one. Nobody sends
    // meanwhile but this ping.
    ok(&guest, "echo 1 > /proc/sys/net/ipv6/conf/eth1/disable_ipv6; true");
    std::thread::sleep(Duration::from_secs(2));
    counts_agree(&switch, &guest, &tap);
    switch.kill_and_start();
    carrier(&guest);
    reaches(&guest, HOST);
    counts_agree(&switch, &guest, &tap);
    // The manager is another one, and the module of the VM is loaded again.
    stand.kill_vfund();
    reaches(&guest, HOST);
    let (rundir, path) = finds(&dir.path().join("ovs"));
    stand.start_with(&[("OVS_RUNDIR", &*rundir), ("PATH", &*path)]);
    counts_agree(&switch, &guest, &tap);
    ok(&guest, &format!("rmmod vfun && insmod {MODULE}"));
    up(&guest, FIRST);
    reaches(&guest, HOST);

    what_a_switch_does(&switch, &guest, &tap);
    quality_of_service(&switch, &guest, (&tap, way));
    generates(&stand, &switch, &guest, &tap);

    // Out of the switch, and in again.
    switch.vsctl(&format!("del-port {BRIDGE} {tap}"));
    silent(&guest, "it is in no switch");
    let again = match way {
        Way::Tap => String::new(),
        Way::Dpdk => format!(
            " -- set Interface {tap} type=dpdk options:dpdk-devargs={}",
            port(&stand, "vm0")["devargs"].as_str().unwrap()
        ),
    };
    switch.vsctl(&format!("add-port {BRIDGE} {tap}{again}"));
    carrier(&guest);
    reaches(&guest, HOST);
    if way == Way::Tap {
        // With DPDK it is the operator's now: it lacks the manager's mark.
        goes(&stand, &switch, &tap);
    }
    healthy(&guest);
}

/// The manager takes the port out of the switch when it is removed.
fn goes(stand: &Stand, switch: &OpenVSwitch, tap: &str) {
    tell(stand, &["port", "remove", "vm0", "eth1"]);
    until("the switch has it no more", || {
        !switch.vsctl(&format!("list-ports {BRIDGE}")).contains(tap)
    });
}
