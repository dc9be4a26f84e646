//! Chains of two, four and eight VMs that pass frames on: each hop over a direct link, and by a stock
//! Open vSwitch with DPDK, turn by turn. The VMs are routers, and sleep while nothing comes.
//!
//! `tests/links.sh chain` runs it and prints the tables. No time is demanded: a machine that does other
//! work shows other times, and loses frames in front of a program that has no processor. That none is
//! repeated or late is demanded.

use crate::ports::{reaches, tell};
use crate::ports_figures::{median, row, used_ms};
use crate::ports_programs::{BRIDGE, around, switch_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};
use vfun_testguest::{Doorbell, Guest};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::boot;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::module::{dmesg, healthy, load, module_config, ok};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::netprograms::{files, folder, install, packed};
use vfun_tests_vm::openvswitch::{self, OpenVSwitch};
use vfun_tests_vm::testpmd::driver;

/// VMs of the longest chain; the shorter ones are its first VMs.
const VMS: usize = 8;
const CHAINS: [usize; 3] = [2, 4, VMS];
/// `VFUN_LINKS_TRIES` says another number.
const ROUNDS: usize = 5;
/// How often numbers are sent, in µs, and how many in a round.
const EVERY: u64 = 2000;
const NUMBERS: u64 = 1500;

struct Chain {
    switch: OpenVSwitch,
    stand: Stand,
    guests: Vec<Guest>,
    /// The host's names of the ports of each VM: to the VM before, and to the one after.
    taps: Vec<[Option<String>; 2]>,
    _folder: tempfile::TempDir,
}

fn vm(n: usize) -> String {
    format!("v{n}")
}

fn qmp(stand: &Stand, n: usize) -> String {
    stand.root().join(format!("{}.qmp", vm(n))).display().to_string()
}

/// The interface of a VM to the VM before (0) or after (1), if there is one.
fn interface(n: usize, side: usize) -> Option<&'static str> {
    match (n, side) {
        (0, 0) => None,
        (0, _) => Some("eth1"),
        (n, 1) if n == VMS - 1 => None,
        (_, side) => Some(["eth1", "eth2"][side]),
    }
}

/// The address of a VM at the hop before it.
fn address(n: usize) -> String {
    format!("10.20.{}.2", n - 1)
}

fn manifest(stand: &Stand) -> String {
    let mut said = "name = \"web\"\nwindow = \"16 MiB\"\n".to_owned();
    for n in 0..VMS {
        said += &format!("[vm.{}]\nqmp = \"{}\"\n", vm(n), qmp(stand, n));
        for name in [0, 1].into_iter().filter_map(|side| interface(n, side)) {
            let vm = vm(n);
            said += &format!("[vm.{vm}.ports.{name}]\nswitch = \"{BRIDGE}\"\nway = \"dpdk\"\n");
        }
    }
    said
}

fn start_guest(stand: &Stand, n: usize) -> Guest {
    let socket = stand.root().join(format!("ivshmem/web@{}.sock", vm(n)));
    let mut c = module_config(&format!("chain-{}", vm(n)), vec![Doorbell::new(socket)]);
    c.cpus = 1;
    c.memory_mib = 256;
    c.hotplug_ports = 2;
    c.extra_args = vec!["-qmp".into(), format!("unix:{},server=on,wait=off", qmp(stand, n))];
    c.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    if n == 0 || CHAINS.contains(&(n + 1)) {
        c.memory_mib = 512;
        c.files.extend(files(packed()));
    }
    boot(&c)
}

/// Its addresses, and the way to all others.
fn set_up(guest: &Guest, n: usize) {
    load(guest);
    let mut script = "echo 1 > /proc/sys/net/ipv4/ip_forward\n".to_owned();
    for (side, hop, last) in [(0, n.wrapping_sub(1), 2), (1, n, 1)] {
        let Some(name) = interface(n, side) else { continue };
        script += &format!(
            "for i in $(seq 600); do [ -e /sys/class/net/{name} ] && break; usleep 50000; done\n\
             echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6\n\
             ip addr add 10.20.{hop}.{last}/24 dev {name}; ip link set {name} up\n"
        );
    }
    for other in 0..VMS - 1 {
        if other + 1 < n {
            script += &format!("ip route add 10.20.{other}.0/24 via 10.20.{}.1\n", n - 1);
        } else if other > n {
            script += &format!("ip route add 10.20.{other}.0/24 via 10.20.{n}.2\n");
        }
    }
    ok(guest, &script);
}

/// The host's name of a port.
fn tap(all: &[Value], n: usize, side: usize) -> Option<String> {
    let (name, vm) = (interface(n, side)?, vm(n));
    let is = |p: &&Value| {
        p["port"] == name && (p["vm"] == vm.as_str() || p["vm"] == format!("web/{vm}").as_str())
    };
    let found = all.iter().find(is).unwrap_or_else(|| panic!("{vm} {name}: {all:?}"));
    Some(found["tap"].as_str().expect("a name").to_owned())
}

impl Chain {
    fn start() -> Chain {
        let folder = tempfile::tempdir().unwrap();
        let ovs = folder.path().join("ovs");
        let (switch, stand) =
            around(switch_for(&ovs, 2 * VMS as u32 - 4), &ovs, &["--ports", "--links"]);
        stand.add_client(&manifest(&stand)).unwrap();
        let guests = std::thread::scope(|s| {
            let boots: Vec<_> = (0..VMS)
                .map(|n| (n, &stand))
                .map(|(n, of)| s.spawn(move || start_guest(of, n)))
                .collect();
            boots.into_iter().map(|b| b.join().unwrap()).collect::<Vec<_>>()
        });
        let all = json(&stand, &["port", "list"]).as_array().expect("rows").clone();
        let taps: Vec<_> = (0..VMS).map(|n| [0, 1].map(|side| tap(&all, n, side))).collect();
        let chain = Chain { switch, stand, guests, taps, _folder: folder };
        for (n, guest) in chain.guests.iter().enumerate() {
            set_up(guest, n);
        }
        chain.join();
        for n in [1, VMS - 1] {
            reaches(&chain.guests[0], &address(n));
        }
        chain
    }

    /// The ports at both ends of a hop.
    fn hop(&self, n: usize) -> [&str; 2] {
        let [from, to] = [&self.taps[n][1], &self.taps[n + 1][0]];
        [from, to].map(|t| t.as_deref().expect("a port"))
    }

    /// Rules that join the ends of each hop.
    fn join(&self) {
        self.switch.ofctl("del-flows", BRIDGE, &[]);
        for n in 0..VMS - 1 {
            let [a, b] = self.hop(n);
            for [from, to] in [[a, b], [b, a]] {
                let rule = format!("in_port={from},actions=output:{to}");
                self.switch.ofctl("add-flow", BRIDGE, &[&rule]);
            }
        }
    }

    /// Memory in common for each hop, which the manager plugs into both VMs.
    fn share(&self) {
        for n in 0..VMS - 1 {
            let [a, b] = [n, n + 1].map(|n| format!("web/{}", vm(n)));
            let name = format!("hop{n}");
            json(&self.stand, &["window", "add", &name, "--vm", &a, "--vm", &b, "--size", "4MiB"]);
        }
        self.all("direct");
    }

    /// Waits until all hops are in a state, both ways.
    fn all(&self, state: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        let mut last = Value::Null;
        while Instant::now() < end {
            last = json(&self.stand, &["links"]);
            let rows = last.as_array().expect("rows");
            if rows.iter().filter(|r| r["state"] == state).count() >= 2 * (VMS - 1) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("not {state}: {last}\n{}\n{}", self.stand.log(), dmesg(&self.guests[1]));
    }

    fn want(&self, direct: bool) {
        let word = if direct { "on" } else { "off" };
        for n in 0..VMS - 1 {
            let [a, b] = self.hop(n);
            tell(&self.stand, &["links", word, a, b]);
            tell(&self.stand, &["links", word, b, a]);
        }
        self.all(if direct { "direct" } else { "switch" });
    }

    /// Milliseconds of processors that the VMs and the switch have used.
    fn used(&self) -> u64 {
        let vms = self.guests.iter().map(|g| used_ms(g.pid())).sum::<u64>();
        vms + used_ms(self.switch.pid())
    }

    /// Numbers from the first VM to another one: lost, repeated, late.
    fn numbers(&self, to: usize) -> String {
        let (from, guest) = (&self.guests[0], &self.guests[to]);
        ok(
            guest,
            "killall -q vfun-vm-app; rm -f /tmp/heard; (vfun-vm-app udp-sink 7 /tmp/heard >/dev/null 2>&1 </dev/null &)",
        );
        ok(guest, "until test -e /tmp/heard; do usleep 10000; done");
        ok(from, &format!("vfun-vm-app udp-source {}:7 {EVERY} {NUMBERS}", address(to)));
        // What is under way comes, or does not come any more.
        let look = format!("said=$(vfun-vm-app udp-order /tmp/heard 0 {NUMBERS})");
        let done = "[ \"$said\" = '0 0 0' ] && break; usleep 200000";
        ok(guest, &format!("for i in $(seq 50); do {look}; {done}; done; echo $said")).trim().into()
    }

    /// What a chain comes to: Mbit/s, processors for a GB of it (VMs and switch), half a round trip in
    /// µs at the median and the 99th percentile, processors for a frame that comes seldom, in µs, and
    /// how many of these were lost.
    fn measured(&self, to: usize) -> [f64; 6] {
        let before = self.used();
        let line = format!("/usr/bin/iperf3 -c {} -J -t 4", address(to));
        let said: Value = serde_json::from_str(&self.program(&line)).unwrap();
        let bytes = said["end"]["sum_received"]["bytes"].as_f64().expect("it came there");
        let bits = said["end"]["sum_received"]["bits_per_second"].as_f64().expect("likewise");
        let each = (self.used() - before) as f64 / 1e3 / (bytes / 1e9);
        let line = format!("/usr/bin/sockperf ping-pong -i {} -t 4 -m 14", address(to));
        let text = self.program(&line);
        let [half, late] = ["percentile 50.000", "percentile 99.000"].map(|of| {
            let rest = &text[text.find(of).unwrap_or_else(|| panic!("{text}")) + of.len()..];
            rest.lines().next().unwrap().trim_start_matches([' ', '=']).trim().parse().unwrap()
        });
        let before = self.used();
        let order = self.numbers(to);
        let frame = (self.used() - before) as f64 * 1e3 / NUMBERS as f64;
        let (lost, rest) = order.split_once(' ').expect("three numbers");
        assert_eq!(rest, "0 0", "VM {to}: repeated, late");
        [bits / 1e6, each, half, late, frame, lost.parse().unwrap()]
    }

    /// Runs a program of Debian in the first VM.
    fn program(&self, line: &str) -> String {
        ok(&self.guests[0], &format!("chroot /programs {line}"))
    }
}

const NAMES: [&str; 6] = [
    "TCP, Mbit/s",
    "processors for a GB of TCP, s (VMs and switch)",
    "half a round trip, median, us",
    "half a round trip, p99, us",
    "processors for a frame each 2 ms, us",
    "of 1500 of these, lost",
];

#[test]
fn a_chain_of_vms_goes_past_the_switch() {
    let asked = std::env::var_os("VFUN_LINKS_FIGURES").is_some() && driver().is_some();
    let test = "links_chain::a_chain_of_vms_goes_past_the_switch";
    if !asked || folder().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let chain = Chain::start();
    chain.share();
    install(&chain.guests[0]);
    for n in CHAINS.map(|vms| vms - 1) {
        install(&chain.guests[n]);
        ok(
            &chain.guests[n],
            "chroot /programs /usr/bin/iperf3 -s -D; (chroot /programs /usr/bin/sockperf server >/dev/null 2>&1 &)",
        );
    }
    // With the switch and the manager stopped, frames go through all eight VMs.
    let others =
        [chain.switch.pid(), chain.stand.pid()].map(|pid| Pid::from_raw(pid as i32).unwrap());
    others.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
    let ping = format!("ping -c 20 -i 0.05 -W 5 {}", address(VMS - 1));
    let said = chain.guests[0].run(&ping, Duration::from_secs(120));
    others.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap());
    let said = said.unwrap().text();
    assert!(said.contains(" 0% packet loss"), "{said}");

    let mut found: [[Vec<(f64, f64)>; 6]; 3] = Default::default();
    let rounds = std::env::var("VFUN_LINKS_TRIES").ok().and_then(|n| n.parse().ok());
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        let [direct, switch] = [true, false].map(|direct| {
            chain.want(direct);
            CHAINS.map(|vms| chain.measured(vms - 1))
        });
        for (chain, found) in found.iter_mut().enumerate() {
            for (figure, found) in found.iter_mut().enumerate() {
                found.push((direct[chain][figure], switch[chain][figure]));
            }
        }
    }
    eprintln!("| VMs | what | direct | by the switch | direct / switch |\n|---|---|---|---|---|");
    for (vms, found) in CHAINS.iter().zip(&found) {
        for (name, both) in NAMES.iter().zip(found) {
            eprintln!("| {vms} {}", row(name, both));
        }
    }
    eprintln!("| what | 8 VMs / 2 VMs, direct | by the switch |\n|---|---|---|");
    for (figure, name) in NAMES.iter().enumerate() {
        let of = |way: fn(&(f64, f64)) -> f64| {
            let [long, short] = [2, 0].map(|chain: usize| &found[chain][figure]);
            median(long.iter().zip(short).map(|(l, s)| way(l) / way(s)).collect())
        };
        eprintln!("| {name} | {:.2} | {:.2} |", of(|b| b.0), of(|b| b.1));
    }
    chain.guests.iter().for_each(healthy);
    // Where the switch loses none, the machine was quick enough, and links must lose none.
    for (vms, found) in CHAINS.iter().zip(&found) {
        let quiet: Vec<_> = found[5].iter().filter(|(_, switch)| *switch == 0.0).collect();
        let lossless = quiet.iter().any(|(direct, _)| *direct == 0.0);
        assert!(quiet.is_empty() || lossless, "{vms} VMs: {:?}", found[5]);
    }
}
