//! Direct links: two real guests whose ports a stock Open vSwitch with DPDK joins by its rules go past
//! it, and are back when its rules or its features want the frames.
//!
//! It needs Open vSwitch and the driver, so tests/links.sh runs it.

use crate::ports::{copies, reaches, tell};
use crate::ports_programs::{BRIDGE, Way, counted, counted_in, finds, network_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::libvirt::{Libvirtd, missing};
use vfun_tests_vm::module::{dmesg, healthy, load, module_config, ok, until};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::openvswitch::{self, OpenVSwitch};
use vfun_tests_vm::runs::Runs;
use vfun_tests_vm::testpmd::{self, driver, own_port, says};

/// The client and its two VMs, each with a port in the switch.
const CLIENT: &str = "web";
const VMS: [&str; 2] = ["a", "b"];
/// How often numbers are sent, in µs, and how many in a round.
const EVERY: u64 = 2000;
const NUMBERS: u64 = 3000;

/// Two guests with ports in one switch, and memory that both may have.
pub struct Pair<G = Guest> {
    pub switch: OpenVSwitch,
    pub stand: Stand,
    pub guests: [G; 2],
    folder: tempfile::TempDir,
    /// The operator plugs memory into the first one.
    by_hand: bool,
}

/// By these lines the manager reaches the QEMUs of the VMs by itself.
fn manifest(reached: &[String; 2]) -> String {
    let vm = |n: usize| {
        let port = format!("[vm.{0}.ports.eth1]\nswitch = \"{BRIDGE}\"\nway = \"dpdk\"\n", VMS[n]);
        format!("[vm.{}]\n{}\n{port}", VMS[n], reached[n])
    };
    format!("name = \"{CLIENT}\"\nwindow = \"16 MiB\"\n{}{}", vm(0), vm(1))
}

/// The line by which the manager reaches the QEMU of a VM.
fn by_qmp(stand: &Stand, vm: &str) -> String {
    format!("qmp = \"{}\"", qmp(stand, vm))
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
    reachable(stand, vm, c)
}

/// With room for memory that is plugged in, and what plugs it.
fn reachable(stand: &Stand, vm: &str, mut c: GuestConfig) -> GuestConfig {
    c.hotplug_ports = 2;
    c.extra_args = vec!["-qmp".into(), format!("unix:{},server=on,wait=off", qmp(stand, vm))];
    c.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
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

impl Pair {
    /// The operator plugs into the first VM, and the manager into the second one.
    pub fn start(files: &[(PathBuf, String)]) -> Pair {
        Pair::reached(files, &VMS[1..])
    }

    /// The same where the manager reaches these.
    pub fn reached(files: &[(PathBuf, String)], reached: &[&str]) -> Pair {
        let line = |stand: &Stand, vm: &&str| {
            if reached.contains(vm) { by_qmp(stand, vm) } else { String::new() }
        };
        Pair::with(files, |stand| VMS.each_ref().map(|vm| line(stand, vm)), &[])
    }

    fn with(
        files: &[(PathBuf, String)],
        reached: impl Fn(&Stand) -> [String; 2],
        options: &[&str],
    ) -> Pair {
        let pair = Pair::boot(reached, options, |stand, vm| config(stand, vm, files));
        pair.up();
        pair
    }

    /// Guests in which nothing was begun.
    fn boot(
        reached: impl Fn(&Stand) -> [String; 2],
        options: &[&str],
        config: impl Fn(&Stand, &str) -> GuestConfig,
    ) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let ovs = folder.path().join("ovs");
        let (switch, stand) =
            network_with(&ovs, Way::Dpdk, &[&["--ports", "--links"], options].concat());
        let reached = reached(&stand);
        stand.add_client(&manifest(&reached)).unwrap();
        let configs = VMS.map(|vm| config(&stand, vm));
        let guests = std::thread::scope(|s| {
            let boots = configs.each_ref().map(|c| s.spawn(|| boot(c)));
            boots.map(|b| b.join().unwrap())
        });
        let by_hand = reached[0].is_empty();
        Pair { switch, stand, guests, folder, by_hand }
    }

    /// The same with testpmd in both, each with its VM's port and a tap device, between which it takes
    /// all frames: so what the VM sends by the tap device goes by the port.
    pub fn start_testpmd() -> Pair {
        let reached = |stand: &Stand| [String::new(), by_qmp(stand, VMS[1])];
        let pair = Pair::boot(reached, &[], |stand, vm| {
            let name = format!("links-testpmd-{vm}");
            let mut c =
                testpmd::config(&name, vec![doorbell(stand, vm)], &["librte_net_tap.so.23"]);
            c.spare_modules.push("tun".into());
            reachable(stand, vm, c)
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

    /// Another guest in the place of one that is gone.
    pub fn boots(&mut self, n: usize) {
        self.guests[n] = boot(&config(&self.stand, VMS[n], &[]));
        self.prepares(n);
    }

    /// Joins them, and gives both memory in common.
    pub fn link(&self) {
        self.join();
        reaches(&self.guests[0], &address(1));
        let add = ["window", "add", "pair", "--vm", "web/a", "--vm", "web/b", "--size", "4MiB"];
        json(&self.stand, &add);
        self.plug(VMS[0]);
    }
}

impl<G: Runs> Pair<G> {
    pub fn plug(&self, vm: &str) {
        json(&self.stand, &["attach", "--qmp", &qmp(&self.stand, vm), "--window", "pair"]);
    }

    /// Takes the memory that both have out of a guest; the operator gives it back by [`plug`](Self::plug).
    pub fn unplug(&self, n: usize) {
        json(&self.stand, &["detach", "--qmp", &qmp(&self.stand, VMS[n]), "--window", "pair"]);
    }

    /// The port's name on the host.
    pub fn tap(&self, n: usize) -> String {
        let all = json(&self.stand, &["port", "list"]);
        let vm = format!("{CLIENT}/{}", VMS[n]);
        let of = |p: &&Value| p["vm"] == VMS[n] || p["vm"] == vm.as_str();
        let found = all.as_array().unwrap().iter().find(of);
        found.unwrap_or_else(|| panic!("{all}"))["tap"].as_str().unwrap().to_owned()
    }

    /// Both VMs have their interfaces.
    fn up(&self) {
        (0..2).for_each(|n| self.prepares(n));
    }

    /// Gives a guest that has just come up its interface.
    pub fn prepares(&self, n: usize) {
        let guest = &self.guests[n];
        load(guest);
        crate::ports::up(guest, 10 + n as u8);
        // Else the kernel sends frames when it wants to.
        ok(guest, "echo 1 > /proc/sys/net/ipv6/conf/eth1/disable_ipv6; true");
    }

    /// Rules that send all frames of each port to the other one, and nothing else.
    pub fn join(&self) {
        let [a, b] = [self.tap(0), self.tap(1)];
        self.switch.ofctl("del-flows", BRIDGE, &[]);
        self.switch.ofctl("add-flow", BRIDGE, &[&format!("in_port={a},actions=output:{b}")]);
        self.switch.ofctl("add-flow", BRIDGE, &[&format!("in_port={b},actions=output:{a}")]);
    }

    pub fn rows(&self) -> Vec<Value> {
        json(&self.stand, &["links"]).as_array().expect("rows").clone()
    }

    /// Waits until frames of the first guest go over a link. A guest that a busy machine did not let run at a turn has lost
    /// its link, and the memory goes in anew.
    pub fn linked(&self) {
        let row = || self.rows().into_iter().find(|r| r["from"]["vm"] == VMS[0]).expect("a port");
        let is_barred = |r: &Value| r["why"].as_str().is_some_and(|w| w.contains("unplug it"));
        let mut last = Value::Null;
        for _ in 0..2000 {
            last = row();
            if last["state"] == "direct" {
                return;
            }
            if is_barred(&last) {
                self.unplug(0);
                if self.by_hand {
                    self.plug(VMS[0]);
                }
                until("the memory is let be used", || !is_barred(&row()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no link: {last}\n{}\n{}", self.stand.log(), self.switch.log());
    }

    /// Waits until frames of both directions go over a link, or both through the switch.
    pub fn both(&self, state: &str) {
        self.wait(state, &["a", "b"]);
    }

    /// The same of what these VMs send.
    pub fn wait(&self, state: &str, from: &[&str]) {
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
        self.turn(if direct { "on" } else { "off" });
        self.both(if direct { "direct" } else { "switch" });
    }

    fn turn(&self, what: &str) {
        let [a, b] = &[self.tap(0), self.tap(1)];
        for (from, to) in [(a, b), (b, a)] {
            tell(&self.stand, &["links", what, from, to]);
        }
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
            order = ok(to, &format!("usleep 500000; vfun-vm-app udp-order /tmp/heard 0 {count}"));
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
        ok(to, &format!("usleep 500000; vfun-vm-app udp-order /tmp/heard 0 {count}")).trim().into()
    }

    pub fn pings(&self, count: u32) {
        let ping = format!("ping -c {count} -i 0.02 -W 2 {}", address(1));
        let said = ok(&self.guests[0], &ping);
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
}

pub fn signal(pid: u32, signal: Signal) {
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
pub fn counts(pair: &Pair, in_vm: fn(&Guest) -> (u64, u64)) -> Vec<Counted> {
    let of = |n: usize| [counted(&pair.switch, &pair.tap(n)), in_vm(&pair.guests[n])];
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

    rules_count_all(&pair);
    nobody_is_needed(&pair);
    a_mirror_sees_all(&pair);
    flips_lose_nothing(&pair);
    counts_agree(&pair, &before, counted_in);

    // The operator wants none.
    pair.want(false);
    others_need_the_switch(&pair);
    pair.want(true);

    others_die(&mut pair);

    // Without the memory it goes by the switch.
    pair.unplug(0);
    pair.both("switch");
    pair.pings(20);
    pair.plug("a");
    pair.both("direct");
    pair.pings(20);
    let [a, b] = [pair.tap(0), pair.tap(1)];
    let said = tell(&pair.stand, &["links", "explain", &a, &b]);
    assert!(said.contains("direct"), "{said}");
    pair.guests.iter().for_each(healthy);
}

/// How long two VMs keep a window without a link, in these tests: longer than another manager needs to
/// see the switch.
const IDLE: [&str; 2] = ["--links-idle-ms", "8000"];

/// Windows that the manager made, as people see them.
fn made(stand: &Stand) -> Vec<Value> {
    let all = json(stand, &["window", "list"]).as_array().expect("rows").clone();
    all.into_iter().filter(|w| w["name"].as_str().unwrap().starts_with("link:")).collect()
}

/// How many ivshmem devices a guest has.
fn devices(guest: &impl Runs) -> String {
    let count = "n=0; for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor; read -r c <$d/device; \
         [ $v$c = 0x1af40x1110 ] && n=$((n+1)); done; echo $n";
    ok(guest, count).trim().to_owned()
}

#[test]
fn two_guests_get_a_window_by_themselves_and_lose_it_again() {
    let test = "links::two_guests_get_a_window_by_themselves_and_lose_it_again";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let mut pair = Pair::with(&[], |stand| VMS.map(|vm| by_qmp(stand, vm)), &IDLE);
    pair.join();
    pair.both("direct");
    pair.pings(50);
    let [window] = <[_; 1]>::try_from(made(&pair.stand)).unwrap();
    assert_eq!((&window["role"], &window["file"]), (&"link".into(), &"".into()), "{window}");
    pair.guests.iter().for_each(|guest| assert_eq!(devices(guest), "2"));

    // The next manager goes on with it.
    pair.stand.kill_vfund();
    pair.pings(20);
    let (rundir, path) = finds(&pair.folder.path().join("ovs"));
    pair.stand.start_with(&[("OVS_RUNDIR", &*rundir), ("PATH", &*path)]);
    pair.both("direct");
    pair.pings(20);
    assert_eq!(made(&pair.stand)[0]["name"], window["name"]);

    // Without a link it goes out of both, while frames go through the switch.
    pair.want(false);
    until("no window is left", || made(&pair.stand).is_empty());
    pair.guests.iter().for_each(|guest| assert_eq!(devices(guest), "1"));
    pair.pings(20);
    pair.want(true);
    assert_ne!(made(&pair.stand)[0]["name"], window["name"]);
    pair.pings(20);

    a_guest_keeps_it(&pair);
    pair.guests.iter().for_each(healthy);
}

#[test]
fn two_domains_of_libvirt_get_a_window_by_themselves_and_lose_it_again() {
    let test = "links::two_domains_of_libvirt_get_a_window_by_themselves_and_lose_it_again";
    if let Some(why) = missing() {
        eprintln!("\n*** LINKS OF LIBVIRT'S DOMAINS ARE NOT TESTED: {why} ***\n");
        return;
    }
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let mut libvirtd = Libvirtd::start();
    libvirtd.is_found();
    let folder = tempfile::tempdir().unwrap();
    let options = [&["--ports", "--links"][..], &IDLE].concat();
    let (switch, stand) = network_with(&folder.path().join("ovs"), Way::Dpdk, &options);
    // QEMU is another user there.
    std::fs::set_permissions(stand.root(), std::fs::Permissions::from_mode(0o711)).unwrap();
    stand.add_client(&manifest(&VMS.map(|vm| format!("libvirt = \"links-{vm}\"")))).unwrap();
    let guests = VMS.map(|vm| {
        let row = json(&stand, &["client", "show", &format!("{CLIENT}/{vm}")]);
        libvirtd.boot(&config(&stand, vm, &[]), row["libvirt"].as_str().expect("an element"))
    });
    let pair = Pair { switch, stand, guests, folder, by_hand: false };
    pair.up();
    pair.join();
    pair.both("direct");
    pair.pings(50);
    let shown = libvirtd.must(&["dumpxml", "links-a"]);
    assert!(shown.contains("<shmem name='virtfun.link-"), "{shown}");

    // Without libvirt what is there goes on, and nothing new comes.
    libvirtd.kill();
    pair.pings(20);
    assert!(pair.rows().iter().all(|r| r["state"] == "direct"), "{:?}", pair.rows());
    libvirtd.start_again();
    pair.turn("off");
    until("no window is left", || made(&pair.stand).is_empty());
    pair.guests.iter().for_each(|guest| assert_eq!(devices(guest), "1"));
    libvirtd.kill();
    pair.turn("on");
    let why = |row: &Value| row["why"].as_str().unwrap().contains("libvirt cannot be reached");
    until("it is said what is in the way", || pair.rows().iter().any(why));
    pair.pings(20);
    libvirtd.start_again();
    pair.both("direct");
    pair.pings(20);
}

/// A guest that does not let go of a window is named, and has no link any more.
fn a_guest_keeps_it(pair: &Pair) {
    // Its processors stand still, and its QEMU answers.
    let [_, b] = &pair.guests;
    b.qmp("stop", serde_json::json!({})).unwrap();
    pair.turn("off");
    pair.stand.until("the VM that keeps it to be named", |s| {
        s.status().troubles.iter().any(|t| t.contains("VM web/b has not let go of window link:"))
    });
    pair.turn("on");
    b.qmp("cont", serde_json::json!({})).unwrap();
    // It lets go of it late, and goes through the switch.
    let why = |row: &Value| row["why"].as_str().unwrap().contains("until it is started again");
    until("no link is there", || pair.rows().iter().all(why));
    pair.pings(20);
    let log = pair.stand.log();
    assert!(log.contains("VM web/b keeps window link:"), "{log}");
    assert_eq!(devices(&pair.guests[0]), "1", "the other one has let go of it");
}

/// Frames that a guest has sent over its link and has taken from it, as its kernel module counts them.
fn over_link(guest: &Guest) -> [u64; 2] {
    let said = ok(guest, "portstats eth1");
    ["link_sent ", "link_taken "].map(|of| {
        let line = said.lines().find_map(|l| l.strip_prefix(of));
        line.unwrap_or_else(|| panic!("{said}")).trim().parse().unwrap()
    })
}

/// Pings go over the links, there and back: both guests say so.
fn stays_direct(pair: &Pair, while_: &str) {
    const PINGS: u64 = 50;
    let before = pair.guests.each_ref().map(over_link);
    let ping = format!("ping -c {PINGS} -i 0.02 -W 2 {}", address(1));
    let said = pair.guests[0].run(&ping, Duration::from_secs(60)).unwrap().text();
    assert!(said.contains(" 0% packet loss"), "{while_}: {said}");
    let after = pair.guests.each_ref().map(over_link);
    let grown = |n: usize| (0..2).all(|w| after[n][w] >= before[n][w] + PINGS);
    assert!(grown(0) && grown(1), "{while_}: {before:?} {after:?}");
}

/// What went past the two rules is what went over the two links.
fn rules_count_all(pair: &Pair) {
    let of = |rows: &Value| -> u64 {
        rows.as_array().expect("rows").iter().map(|row| row["frames"].as_u64().unwrap()).sum()
    };
    until("rules count all frames of links", || {
        let flows = json(&pair.stand, &["links", "--flows"])["flows"].clone();
        let bridges = flows.as_array().expect("rules").iter().map(|rule| &rule["bridge"]);
        assert!(bridges.eq([BRIDGE; 2]), "{flows}");
        of(&flows) == of(&json(&pair.stand, &["links"])) && of(&flows) >= 200
    });
}

/// With the switch and the manager stopped, frames go on.
fn nobody_is_needed(pair: &Pair) {
    let all = [pair.switch.pid(), pair.stand.pid()];
    all.iter().for_each(|pid| signal(*pid, Signal::STOP));
    stays_direct(pair, "the switch and the manager are stopped");
    all.iter().for_each(|pid| signal(*pid, Signal::CONT));
    pair.both("direct");
}

/// Without links, frames need the switch.
fn others_need_the_switch(pair: &Pair) {
    pair.pings(20);
    signal(pair.switch.pid(), Signal::STOP);
    let before = pair.guests.each_ref().map(over_link);
    let ping = format!("ping -c 5 -i 0.2 -W 1 {}", address(1));
    let said = pair.guests[0].run(&ping, Duration::from_secs(60)).unwrap().text();
    signal(pair.switch.pid(), Signal::CONT);
    assert!(said.contains(" 100% packet loss"), "{said}");
    assert_eq!(before, pair.guests.each_ref().map(over_link));
    pair.pings(20);
}

/// A mirror that comes while frames are under way ends the link, and sees each frame from then on.
fn a_mirror_sees_all(pair: &Pair) {
    let (switch, from) = (&pair.switch, pair.tap(0));
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
    let [a, b] = [pair.tap(0), pair.tap(1)];
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
    stays_direct(pair, "there is no manager");
    signal(pair.switch.pid(), Signal::STOP);
    stays_direct(pair, "there is no manager, and the switch is stopped");
    signal(pair.switch.pid(), Signal::CONT);
    let folder = pair.folder.path().join("ovs");
    let (rundir, path) = finds(&folder);
    pair.stand.start_with(&[("OVS_RUNDIR", &*rundir), ("PATH", &*path)]);
    pair.both("direct");
    pair.pings(50);
}
