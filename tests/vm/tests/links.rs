//! Direct links: two real guests whose ports a stock Open vSwitch with DPDK joins by its rules go past
//! it, and are back when its rules or its features want the frames.
//!
//! It needs Open vSwitch and the driver, so tests/links.sh runs it.

use crate::ports::{copies, reaches, tell};
use crate::ports_programs::{BRIDGE, Way, counted, counted_in, finds, network_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::module::{dmesg, healthy, load, module_config, ok, until};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::openvswitch::{self, OpenVSwitch};
use vfun_tests_vm::testpmd::{self, driver, own_port, says};

/// The client and its two VMs, each with a port in the switch.
const CLIENT: &str = "web";
const VMS: [&str; 2] = ["a", "b"];
/// How often numbers are sent, in µs, and how many in a round.
const EVERY: u64 = 2000;
const NUMBERS: u64 = 3000;

/// Two guests with ports in one switch, and memory that both may have.
pub struct Pair {
    pub switch: OpenVSwitch,
    pub stand: Stand,
    pub guests: [Guest; 2],
    folder: tempfile::TempDir,
}

/// The manager reaches QEMU of the second VM by itself; the operator plugs into the first one.
fn manifest(stand: &Stand) -> String {
    let vm = |vm: &str, more: &str| {
        let port = format!("[vm.{vm}.ports.eth1]\nswitch = \"{BRIDGE}\"\nway = \"dpdk\"\n");
        format!("[vm.{vm}]\n{more}{port}")
    };
    let reached = format!("qmp = \"{}\"\n", qmp(stand, VMS[1]));
    format!("name = \"{CLIENT}\"\nwindow = \"16 MiB\"\n{}{}", vm(VMS[0], ""), vm(VMS[1], &reached))
}

fn qmp(stand: &Stand, vm: &str) -> String {
    stand.root().join(format!("{vm}.qmp")).display().to_string()
}

fn config(stand: &Stand, vm: &str, files: &[(PathBuf, String)]) -> GuestConfig {
    let mut c = module_config(&format!("links-{vm}"), vec![doorbell(stand, vm)]);
    c.cpus = 1;
    c.memory_mib = 384;
    c.spare_modules.push("pktgen".into());
    c.files.extend_from_slice(files);
    c
}

fn doorbell(stand: &Stand, vm: &str) -> Doorbell {
    Doorbell::new(stand.root().join(format!("ivshmem/{CLIENT}@{vm}.sock")))
}

/// Starts testpmd; the tap device has the VM's address.
pub fn begin_testpmd(guest: &Guest, address: &str) {
    let tap = format!(
        "{} -d {}/librte_net_tap.so.23 --vdev net_tap0,iface=dtap0",
        own_port(""),
        testpmd::DRIVERS
    );
    testpmd::start(guest, &tap, "--forward-mode=io --no-flush-rx");
    ok(
        guest,
        "for i in $(seq 600); do test -e /sys/class/net/dtap0 && exit 0; usleep 50000; done; cat /tmp/testpmd; exit 1",
    );
    ok(guest, "echo 1 > /proc/sys/net/ipv6/conf/dtap0/disable_ipv6; true");
    ok(guest, &format!("ip addr add {address}/24 dev dtap0; ip link set dtap0 up"));
    says(guest, "NIC statistics for port 1");
}

pub fn address(n: usize) -> String {
    format!("10.9.0.{}", 10 + n)
}

/// The port's name on the host.
fn tap(pair: &Pair, n: usize) -> String {
    let all = json(&pair.stand, &["port", "list"]);
    let vm = format!("{CLIENT}/{}", VMS[n]);
    let of = |p: &&Value| p["vm"] == VMS[n] || p["vm"] == vm.as_str();
    let found = all.as_array().unwrap().iter().find(of);
    found.unwrap_or_else(|| panic!("{all}"))["tap"].as_str().unwrap().to_owned()
}

impl Pair {
    pub fn start(files: &[(PathBuf, String)]) -> Pair {
        let pair = Pair::boot(|stand, vm| config(stand, vm, files));
        for (n, guest) in pair.guests.iter().enumerate() {
            load(guest);
            crate::ports::up(guest, 10 + n as u8);
            // Else the kernel sends frames when it wants to.
            ok(guest, "echo 1 > /proc/sys/net/ipv6/conf/eth1/disable_ipv6; true");
        }
        pair
    }

    /// Guests with what all of them need, in which nothing was begun.
    fn boot(config: impl Fn(&Stand, &str) -> GuestConfig) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let ovs = folder.path().join("ovs");
        let (switch, stand) = network_with(&ovs, Way::Dpdk, &["--ports", "--links"]);
        stand.add_client(&manifest(&stand)).unwrap();
        let configs = VMS.map(|vm| {
            let mut c = config(&stand, vm);
            c.hotplug_ports = 2;
            let qmp = format!("unix:{},server=on,wait=off", qmp(&stand, vm));
            c.extra_args = vec!["-qmp".into(), qmp];
            c.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
            c
        });
        let guests = std::thread::scope(|s| {
            let boots = configs.each_ref().map(|c| s.spawn(|| boot(c)));
            boots.map(|b| b.join().unwrap())
        });
        Pair { switch, stand, guests, folder }
    }

    /// The same with testpmd in both, each with its VM's port and a tap device, between which it takes
    /// all frames: so what the VM sends by the tap device goes by the port.
    pub fn start_testpmd() -> Pair {
        let pair = Pair::boot(|stand, vm| {
            let name = format!("links-testpmd-{vm}");
            let mut c =
                testpmd::config(&name, vec![doorbell(stand, vm)], &["librte_net_tap.so.23"]);
            c.spare_modules.push("tun".into());
            c
        });
        // Programs that poll: who has no processor for 100 ms is silent, and loses the link. Without
        // groups by session (CONFIG_SCHED_AUTOGROUP) all are equal as it is.
        for pid in pair.guests.iter().map(Guest::pid).chain([pair.switch.pid(), pair.stand.pid()]) {
            let _ = std::fs::write(format!("/proc/{pid}/autogroup"), "-15");
        }
        for (n, guest) in pair.guests.iter().enumerate() {
            testpmd::prepare(guest);
            ok(guest, "modprobe tun; ip link set lo up");
            begin_testpmd(guest, &address(n));
        }
        pair
    }

    /// Rules that send all frames of each port to the other one, and nothing else.
    pub fn join(&self) {
        let [a, b] = [tap(self, 0), tap(self, 1)];
        self.switch.ofctl("del-flows", BRIDGE, &[]);
        self.switch.ofctl("add-flow", BRIDGE, &[&format!("in_port={a},actions=output:{b}")]);
        self.switch.ofctl("add-flow", BRIDGE, &[&format!("in_port={b},actions=output:{a}")]);
    }

    /// Joins them, and gives both memory in common.
    pub fn link(&self) {
        self.join();
        reaches(&self.guests[0], &address(1));
        let add = ["window", "add", "pair", "--vm", "web/a", "--vm", "web/b", "--size", "4MiB"];
        json(&self.stand, &add);
        self.plug(VMS[0]);
    }

    pub fn plug(&self, vm: &str) {
        json(&self.stand, &["attach", "--qmp", &qmp(&self.stand, vm), "--window", "pair"]);
    }

    fn rows(&self) -> Vec<Value> {
        json(&self.stand, &["links"]).as_array().expect("rows").clone()
    }

    /// Waits until frames of both directions go over a link, or both through the switch.
    pub fn both(&self, state: &str) {
        self.wait(state, &["a", "b"]);
    }

    /// The same of what these VMs send.
    fn wait(&self, state: &str, from: &[&str]) {
        let mut last = vec![];
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while std::time::Instant::now() < end {
            last = self.rows();
            let is =
                |vm: &&str| last.iter().any(|r| r["from"]["vm"] == **vm && r["state"] == state);
            if from.iter().all(is) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let [a, b] = self.guests.each_ref().map(dmesg);
        let log = self.stand.log();
        panic!("not {state}: {last:?}\n{log}\n{a}\n{b}\n{}", self.switch.log());
    }

    /// As the operator wants it: over links, or by the switch.
    pub fn want(&self, direct: bool) {
        let [a, b] = &[tap(self, 0), tap(self, 1)];
        for (from, to) in [(a, b), (b, a)] {
            tell(&self.stand, &["links", if direct { "on" } else { "off" }, from, to]);
        }
        self.both(if direct { "direct" } else { "switch" });
    }

    pub fn unplug(&self, vm: &str) {
        json(&self.stand, &["detach", "--qmp", &qmp(&self.stand, vm), "--window", "pair"]);
    }

    /// The second guest hears numbers from now on.
    fn hears(&self) {
        let to = &self.guests[1];
        ok(
            to,
            "killall -q vfun-vm-app; rm -f /tmp/heard; (vfun-vm-app udp-sink 7 /tmp/heard >/dev/null 2>&1 </dev/null &)",
        );
        ok(to, "until test -e /tmp/heard; do usleep 10000; done");
    }

    /// Numbers from the first guest to the second one as long as something else is done. How many
    /// there were, and what came of them; none is waited for that does not come for long.
    pub fn numbers_while(&self, every_us: u64, meanwhile: impl FnOnce()) -> (u64, String) {
        let [from, to] = &self.guests;
        self.hears();
        let send = format!("vfun-vm-app udp-while {}:7 {every_us} /tmp/sending", address(1));
        ok(
            from,
            &format!(
                "rm -f /tmp/sent; : >/tmp/sending; (({send} >/tmp/sent.new; mv /tmp/sent.new /tmp/sent) >/dev/null 2>&1 </dev/null &)"
            ),
        );
        ok(to, "until test -s /tmp/heard; do usleep 10000; done");
        meanwhile();
        ok(from, "rm /tmp/sending; until test -e /tmp/sent; do usleep 10000; done");
        let count = ok(from, "cat /tmp/sent").trim().parse().unwrap();
        let mut order = String::new();
        for _ in 0..40 {
            order = ok(to, &format!("usleep 500000; vfun-vm-app udp-order /tmp/heard {count}"));
            if order.starts_with("0 ") {
                break;
            }
        }
        (count, order.trim().into())
    }

    /// So many numbers from the first guest to the second one, while something else is done.
    fn numbers(&self, count: u64, meanwhile: impl FnOnce()) -> String {
        let [from, to] = &self.guests;
        self.hears();
        let send = format!("vfun-vm-app udp-source {}:7 {EVERY} {count}", address(1));
        ok(
            from,
            &format!("rm -f /tmp/sent; (({send}; : > /tmp/sent) >/dev/null 2>&1 </dev/null &)"),
        );
        meanwhile();
        ok(
            from,
            "for i in $(seq 600); do test -e /tmp/sent && exit 0; usleep 100000; done; exit 1",
        );
        ok(to, &format!("usleep 500000; vfun-vm-app udp-order /tmp/heard {count}")).trim().into()
    }

    pub fn pings(&self, count: u32) {
        let ping = format!("ping -c {count} -i 0.02 -W 2 {}", address(1));
        let said = ok(&self.guests[0], &ping);
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Frames from a VM, and to it: as the switch counts them, and as the VM does.
pub type Counted = [(u64, u64); 2];

/// What the switch counts for both ports is what both VMs count.
pub fn counts_agree(pair: &Pair, before: &[Counted], in_vm: fn(&Guest) -> (u64, u64)) {
    let mut last = vec![];
    let agrees = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        last = counts(pair, in_vm);
        let grown = |now: (u64, u64), then: (u64, u64)| (now.0 - then.0, now.1 - then.1);
        last.iter().zip(before).all(|(now, then)| grown(now[0], then[0]) == grown(now[1], then[1]))
    });
    assert!(agrees, "before {before:?}, now {last:?}");
}

/// Of each port.
fn counts(pair: &Pair, in_vm: fn(&Guest) -> (u64, u64)) -> Vec<Counted> {
    let of = |n: usize| [counted(&pair.switch, &tap(pair, n)), in_vm(&pair.guests[n])];
    (0..2).map(of).collect()
}

#[test]
fn two_guests_go_past_a_stock_switch_and_come_back() {
    let test = "links::two_guests_go_past_a_stock_switch_and_come_back";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let mut pair = Pair::start(&[]);
    reaches(&pair.guests[0], &address(1));
    assert!(pair.rows().iter().all(|r| r["state"] == "switch"), "{:?}", pair.rows());

    // Joined by rules, and with memory in common, they are linked.
    pair.link();
    let before = counts(&pair, counted_in);
    pair.both("direct");
    pair.pings(100);
    let direct = |p: &Pair| p.rows().iter().map(|r| r["frames"].as_u64().unwrap()).sum::<u64>();
    until("frames are counted", || direct(&pair) >= 200);
    counts_agree(&pair, &before, counted_in);
    copies(&pair.guests[0], &address(0), &pair.guests[1]);
    copies(&pair.guests[1], &address(1), &pair.guests[0]);

    nobody_is_needed(&pair);
    a_mirror_sees_all(&pair);
    flips_lose_nothing(&pair);
    counts_agree(&pair, &before, counted_in);

    // The operator wants none.
    pair.want(false);
    pair.pings(20);
    pair.want(true);

    others_die(&mut pair);

    // Without the memory it goes by the switch.
    pair.unplug("a");
    pair.both("switch");
    pair.pings(20);
    pair.plug("a");
    pair.both("direct");
    pair.pings(20);
    let [a, b] = [tap(&pair, 0), tap(&pair, 1)];
    let said = tell(&pair.stand, &["links", "explain", &a, &b]);
    assert!(said.contains("direct"), "{said}");
    pair.guests.iter().for_each(healthy);
}

/// With the switch and the manager stopped, frames go on.
fn nobody_is_needed(pair: &Pair) {
    let all = [pair.switch.pid(), pair.stand.pid()];
    all.iter().for_each(|pid| signal(*pid, Signal::STOP));
    let said = pair.guests[0]
        .run(&format!("ping -c 50 -i 0.02 -W 2 {}", address(1)), Duration::from_secs(60));
    all.iter().for_each(|pid| signal(*pid, Signal::CONT));
    let said = said.unwrap().text();
    assert!(said.contains(" 0% packet loss"), "{said}");
    pair.both("direct");
}

/// A mirror that comes while frames are under way ends the link, and sees each frame from then on.
fn a_mirror_sees_all(pair: &Pair) {
    let (switch, from) = (&pair.switch, tap(pair, 0));
    switch.vsctl(&format!("add-port {BRIDGE} mirror -- set Interface mirror type=internal"));
    vfun_tests_vm::netns::ip("link set mirror up");
    pair.both("direct");
    let order = pair.numbers(NUMBERS, || {
        switch.vsctl(&format!(
            "--id=@p get Port {from} -- --id=@m get Port mirror -- \
             --id=@x create Mirror name=x select-src-port=@p output-port=@m -- \
             set Bridge {BRIDGE} mirrors=@x"
        ));
        pair.wait("switch", &["a"]);
        let seen = counted(switch, "mirror").1;
        // The switch has flows in its cache that it looks through now and then.
        until("the mirror sees frames", || counted(switch, "mirror").1 >= seen + 100);
        // From now on it sees each frame that the VM sends.
        let (seen, sent) = (counted(switch, "mirror").1, counted_in(&pair.guests[0]).0);
        until("frames are sent", || counted_in(&pair.guests[0]).0 >= sent + 300);
        until("the mirror sees each", || {
            let sent = counted_in(&pair.guests[0]).0 - sent;
            counted(switch, "mirror").1 - seen >= sent
        });
    });
    assert_eq!(order, "0 0 0", "lost, repeated, late");
    switch.vsctl(&format!("clear Bridge {BRIDGE} mirrors"));
    pair.both("direct");
}

/// The rules change, and are as before.
pub fn flip(pair: &Pair) {
    let [a, b] = [tap(pair, 0), tap(pair, 1)];
    let also = format!("in_port={a},priority=40000,tcp,actions=output:{b},in_port");
    pair.switch.ofctl("add-flow", BRIDGE, &[&also]);
    // The way back is joined still.
    pair.wait("switch", &["a"]);
    pair.switch.ofctl("del-flows", BRIDGE, &[&format!("in_port={a},tcp")]);
    pair.both("direct");
}

/// Numbered frames while the rules change again and again.
fn flips_lose_nothing(pair: &Pair) {
    let flips = || {
        let mut flips = 0;
        let end = std::time::Instant::now() + Duration::from_micros(EVERY * NUMBERS);
        while std::time::Instant::now() < end {
            flip(pair);
            flips += 1;
        }
        eprintln!("{flips} flips");
        assert!(flips > 0);
    };
    // What is lost without a flip is no fault of one.
    assert_eq!(pair.numbers(NUMBERS, || ()), "0 0 0", "without a flip: lost, repeated, late");
    assert_eq!(pair.numbers(NUMBERS, flips), "0 0 0", "lost, repeated, late");
}

/// The switch and the manager are killed, and others come.
fn others_die(pair: &mut Pair) {
    // What is under way meanwhile waits for the next switch, or is dropped.
    pair.switch.kill_and_start();
    reaches(&pair.guests[0], &address(1));
    // Nobody has told the new one the rules.
    pair.join();
    pair.both("direct");
    pair.pings(50);

    pair.stand.kill_vfund();
    pair.pings(50);
    let folder = pair.folder.path().join("ovs");
    let (rundir, path) = finds(&folder);
    pair.stand.start_with(&[("OVS_RUNDIR", &*rundir), ("PATH", &*path)]);
    pair.both("direct");
    pair.pings(50);
}
