//! Ports: network interfaces of real guests, by the window, to a bridge of the host.

use serde_json::Value;
use std::path::PathBuf;
use vfun_testguest::Guest;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::module::{MODULE, doorbell_client, healthy, load, module_config, ok, until};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::runs::Runs;

const BRIDGE: &str = "br0";
const HOST: &str = "10.9.0.1";
/// Of the first VM.
const FIRST: u8 = 2;

/// A bridge with an address of the host's.
pub fn bridge() {
    ip(&format!("link add {BRIDGE} type bridge"));
    ip(&format!("addr add {HOST}/24 dev {BRIDGE}"));
    ip(&format!("link set {BRIDGE} up"));
}

fn address(n: u8) -> String {
    format!("10.9.0.{}", n + FIRST)
}

/// A VM with a port in the bridge, and its interface up.
fn vm(stand: &Stand, n: u8, more: &str) -> Guest {
    start(stand, n, (FIRST, BRIDGE, more), vec![])
}

/// The same with a port in another bridge, where the VM with number 0 has this address, with more
/// lines of the port, and more files in the VM.
pub fn vm_in(stand: &Stand, n: u8, port: (u8, &str, &str), files: Vec<(PathBuf, String)>) -> Guest {
    start(stand, n, port, files)
}

fn start(
    stand: &Stand,
    n: u8,
    (first, bridge, more): (u8, &str, &str),
    files: Vec<(PathBuf, String)>,
) -> Guest {
    let name = format!("vm{n}");
    let port = format!("[ports.eth1]\nswitch = \"{bridge}\"\n{more}");
    let doorbell = doorbell_client(stand, &name, &port);
    let mut config = module_config(&format!("ports-{name}"), vec![doorbell]);
    config.cpus = 1;
    config.files.extend(files);
    config.spare_modules.push("pktgen".into());
    config.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    let guest = boot(&config);
    load(&guest);
    up(&guest, n + first);
    guest
}

/// Sets the interface up with this address, and waits until its link is.
pub fn up(guest: &impl Runs, last: u8) {
    ok(guest, &format!("ip addr add 10.9.0.{last}/24 dev eth1; ip link set eth1 up"));
    carrier(guest);
}

/// Nothing is wrong with the port of a VM, and it is in use.
pub fn healthy_port(stand: &Stand, vm: &str) {
    let found = port(stand, vm);
    assert!(found["state"] == "active" && found["trouble"].is_null(), "{found}");
}

/// Waits until the interface has its link.
pub fn carrier(guest: &impl Runs) {
    ok(
        guest,
        "for i in $(seq 600); do [ \"$(cat /sys/class/net/eth1/carrier 2>/dev/null)\" = 1 ] && exit 0; usleep 50000; done; ip link; exit 1",
    );
}

/// Pings until an answer comes, for a bounded time.
pub fn reaches(guest: &impl Runs, to: &str) {
    ok(
        guest,
        &format!(
            "for i in $(seq 40); do ping -c 1 -W 1 {to} >/dev/null && exit 0; done; ip addr; exit 1"
        ),
    );
}

/// A port as `vfun port list` has it.
pub fn port(stand: &Stand, vm: &str) -> Value {
    let all = json(stand, &["port", "list"]);
    let found = all.as_array().unwrap().iter().find(|p| p["vm"] == vm);
    found.unwrap_or_else(|| panic!("{vm} has no port: {all}")).clone()
}

/// Runs a command that must succeed, and gives what it says.
pub fn tell(stand: &Stand, words: &[&str]) -> String {
    let (status, said) = vfun(stand, words);
    assert_eq!(status, 0, "{words:?}: {said}\n{}", stand.log());
    said
}

fn is_in_use(stand: &Stand, vm: &str) -> bool {
    port(stand, vm)["state"] == "active"
}

/// Copies a file from one guest to another one by HTTP, and compares it.
pub fn copies(from: &Guest, at: &str, to: &Guest) {
    ok(
        from,
        "mkdir -p /srv && dd if=/dev/urandom of=/srv/f bs=64k count=64 2>/dev/null && (pidof httpd >/dev/null || httpd -h /srv -p 8000)",
    );
    let sum = ok(from, "md5sum < /srv/f");
    let got = ok(to, &format!("wget -q -O /tmp/f http://{at}:8000/f && md5sum < /tmp/f"));
    assert_eq!(sum, got);
}

#[test]
fn guests_reach_their_host_and_each_other_through_a_bridge() {
    if !inside("ports::guests_reach_their_host_and_each_other_through_a_bridge") {
        return;
    }
    bridge();
    let stand = Stand::with(&["--ports"]);
    let guests = std::thread::scope(|s| {
        let boots = [0, 1].map(|n| {
            let stand = &stand;
            s.spawn(move || vm(stand, n, if n == 0 { "mtu = 9000\n" } else { "" }))
        });
        boots.map(|b| b.join().unwrap())
    });
    let [a, b] = &guests;
    let said = ok(a, "ip link show eth1");
    let told = port(&stand, "vm0");
    assert!(said.contains("mtu 9000") && said.contains(told["mac"].as_str().unwrap()), "{said}");
    for guest in &guests {
        reaches(guest, HOST);
    }
    reaches(a, &address(1));
    // A large frame is too long for the other VM; IP says so, or cuts it.
    ok(b, &format!("ping -c 2 -s 1472 {} >/dev/null", address(0)));
    copies(a, &address(0), b);
    copies(b, &address(1), a);
    // Nobody cut what went from VM to VM: the two have one bridge, and it is the kernel.
    until("few long frames", || {
        let counts = port(&stand, "vm1")["counts"].clone();
        let [frames, bytes] = ["from_vm", "from_vm_bytes"].map(|of| counts[of].as_u64().unwrap());
        bytes > 4 << 20 && bytes / frames > 1514
    });
    assert!(is_in_use(&stand, "vm0") && is_in_use(&stand, "vm1"), "{told}");
    let explained = tell(&stand, &["port", "explain", "vm0", "eth1"]);
    let is_fine = explained.contains("bridge br0") && explained.contains("yes, if the VM takes");
    assert!(is_fine && !explained.contains('!'), "{explained}");

    // Down and up again.
    ok(a, "ip link set eth1 down");
    until("the port is not in use", || !is_in_use(&stand, "vm0"));
    ok(a, "ip link set eth1 up");
    carrier(a);
    reaches(a, HOST);

    a_program_has_a_port(&stand, a, b);

    // A port that goes takes its interface along; one that comes brings it.
    tell(&stand, &["port", "remove", "vm1", "eth1"]);
    ok(
        b,
        "for i in $(seq 500); do ip link show eth1 >/dev/null 2>&1 || exit 0; usleep 50000; done; exit 1",
    );
    until("its tap device is gone", || !is_there("vm1.eth1"));
    tell(&stand, &["port", "add", "vm1", "eth1", "--switch", BRIDGE]);
    ok(
        b,
        "for i in $(seq 500); do ip link show eth1 >/dev/null 2>&1 && exit 0; usleep 50000; done; exit 1",
    );
    up(b, FIRST + 1);
    reaches(b, &address(0));
    guests.iter().for_each(healthy);
}

/// A program in `b` has the VM's port in place of the kernel, and answers `a`.
fn a_program_has_a_port(stand: &Stand, a: &Guest, b: &Guest) {
    const OWN: &str = "10.9.0.77";
    let has = format!("vfun-vm-app port eth1 {OWN}");
    let refused = || {
        let refused = b.run(&has, vfun_tests_vm::LONG).unwrap();
        let said = refused.text();
        assert!(refused.status == 7 && said.contains("port eth1 of this VM is in use"), "{said}");
    };
    refused();
    ok(b, "ip link set eth1 down");
    until("nobody has the port", || !is_in_use(stand, "vm1"));
    ok(b, &format!("({has} >/tmp/own 2>&1 </dev/null &)"));
    until("it has the port", || ok(b, "cat /tmp/own; true").contains("has eth1 of 1"));
    // The VM's own network knows nothing of it: this address is the program's alone.
    reaches(a, OWN);
    ok(a, &format!("ping -c 20 -i 0.05 -W 2 {OWN} | grep ' 0% packet loss'"));
    // Neither another program nor the kernel gets it before this one ends.
    refused();
    ok(b, "dmesg -c >/dev/null; ip link set eth1 up");
    until("the kernel was refused", || ok(b, "dmesg").contains("the host refuses the channel"));
    ok(b, "[ \"$(cat /sys/class/net/eth1/carrier)\" = 0 ]");
    ok(b, "killall -KILL vfun-vm-app");
    carrier(b);
    reaches(b, &address(0));
}

#[test]
fn a_port_outlives_its_service_its_manager_and_its_module() {
    if !inside("ports::a_port_outlives_its_service_its_manager_and_its_module") {
        return;
    }
    bridge();
    let mut stand = Stand::with(&["--ports"]);
    let guest = vm(&stand, 0, "");
    reaches(&guest, HOST);

    // The service: another one takes the rings up, and the counts go on.
    until("counts come", || port(&stand, "vm0")["counts"]["from_vm"].as_u64() > Some(0));
    let before = port(&stand, "vm0")["counts"]["from_vm"].as_u64().unwrap();
    let pid = stand.grants()[0].pid.expect("it is served");
    kill(pid);
    until("another service has it", || {
        stand.grants().first().is_some_and(|g| g.pid.is_some_and(|p| p != pid))
    });
    reaches(&guest, HOST);
    until("counts go on", || port(&stand, "vm0")["counts"]["from_vm"].as_u64() > Some(before));

    // The manager: frames go on without it, and the next one knows the port.
    ok(&guest, &format!("ping -i 0.2 {HOST} > /tmp/ping 2>&1 & echo $! > /tmp/ping.pid"));
    stand.kill_vfund();
    ok(&guest, &format!("ping -c 3 {HOST} > /dev/null"));
    let refused = guest.run("vfun-vm-app port eth1 10.9.0.77", vfun_tests_vm::LONG).unwrap();
    let said = refused.text();
    assert!(refused.status == 7 && said.contains("manager"), "{said}");
    stand.start_vfund();
    assert!(is_in_use(&stand, "vm0"), "{}", stand.log());
    reaches(&guest, HOST);

    // The module, under traffic.
    ok(
        &guest,
        &format!(
            "ping -f -c 100000 {HOST} >/dev/null 2>&1 & usleep 300000; rmmod vfun && insmod {MODULE}"
        ),
    );
    up(&guest, FIRST);
    reaches(&guest, HOST);
    healthy(&guest);
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn is_there(interface: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(interface).exists()
}

/// The bridge that an interface is in; empty if it is in none.
fn master(interface: &str) -> String {
    let to = std::fs::read_link(format!("/sys/class/net/{interface}/master"));
    to.map(|to| to.file_name().unwrap().to_str().unwrap().to_owned()).unwrap_or_default()
}

fn is_up(interface: &str) -> bool {
    let flags = std::fs::read_to_string(format!("/sys/class/net/{interface}/flags"));
    flags
        .is_ok_and(|f| u32::from_str_radix(f.trim().trim_start_matches("0x"), 16).unwrap() & 1 != 0)
}

fn trouble(stand: &Stand, vm: &str) -> String {
    port(stand, vm)["trouble"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn tap_devices_are_as_manifests_say_and_nobody_elses_are_touched() {
    if !inside("ports::tap_devices_are_as_manifests_say_and_nobody_elses_are_touched") {
        return;
    }
    for bridge in ["br0", "br1"] {
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("link set {bridge} up"));
    }
    let mut stand = Stand::with(&["--ports"]);
    for vm in ["a", "b"] {
        doorbell_client(&stand, vm, "");
    }
    tell(&stand, &["port", "add", "a", "eth1", "--switch", "br0", "--mtu", "1400"]);
    until("it is in br0, and up", || master("a.eth1") == "br0" && is_up("a.eth1"));
    // What is not named stays.
    tell(&stand, &["port", "add", "a", "eth1", "--mtu", "1450"]);
    assert_eq!(port(&stand, "a")["switch"], "br0");
    tell(&stand, &["port", "add", "a", "eth1", "--switch", "br1"]);
    until("it moves to br1", || master("a.eth1") == "br1");
    // What somebody took away comes back.
    ip("link del a.eth1");
    until("it is made again", || master("a.eth1") == "br1" && is_up("a.eth1"));
    tell(&stand, &["port", "add", "a", "eth1", "--no-switch"]);
    until("it leaves br1", || master("a.eth1").is_empty());

    // A bridge that comes later.
    tell(&stand, &["port", "add", "a", "eth1", "--switch", "later"]);
    until("the trouble is said", || trouble(&stand, "a").contains("later is no bridge of Linux"));
    ip("link add later type bridge");
    until("it goes there, and nothing is wrong", || {
        master("a.eth1") == "later" && trouble(&stand, "a").is_empty()
    });

    // One device for two ports, and what is no tap device.
    let (status, said) = vfun(&stand, &["port", "add", "b", "eth1", "--tap", "a.eth1"]);
    assert!(status != 0 && said.contains("is that of port eth1 of client a"), "{said}");
    tell(&stand, &["port", "add", "b", "eth1", "--tap", "br0", "--switch", "br1"]);
    until("it is refused", || trouble(&stand, "b").contains("no tap device"));
    assert!(master("br0").is_empty());
    tell(&stand, &["port", "remove", "b", "eth1"]);
    assert!(is_there("br0"));
    // A tap device that somebody else made is used, and stays.
    ip("tuntap add mine mode tap");
    tell(&stand, &["port", "add", "b", "eth1", "--tap", "mine"]);
    until("it says what to do", || trouble(&stand, "b").contains("ip link set mine up"));
    ip("link set mine up");
    until("nothing is wrong", || trouble(&stand, "b").is_empty());
    tell(&stand, &["port", "remove", "b", "eth1"]);

    // While no manager looks, the manifest changes: the next one removes what is left over.
    stand.kill_vfund();
    let manifest = stand.root().join("admin/clients/a.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let without: String = text.split("[ports").next().unwrap().into();
    std::fs::write(&manifest, without).unwrap();
    // The device of another manager, whose root begins like this one's.
    ip("tuntap add other mode tap");
    let alias = format!("port of VirtFun, {}2", stand.root().display());
    std::fs::write("/sys/class/net/other/ifalias", alias).unwrap();
    stand.start_vfund();
    until("it is removed", || !is_there("a.eth1"));
    assert!(is_there("other"));
    assert!(is_there("mine") && is_up("mine"));
}
