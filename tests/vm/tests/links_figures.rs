//! What a direct link costs beside the way through the switch: two guests, turn by turn, on the
//! same machine.
//!
//! Nothing is demanded here: a machine that does other work shows other times. `tests/links.sh
//! figures` runs it and prints the table.

use crate::links::{Pair, address};
use crate::ports_figures::{median, row, used_ms};
use crate::ports_programs::counted_in;
use std::time::{Duration, Instant};
use vfun_testguest::Guest;
use vfun_tests_vm::module::{healthy, ok};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::netprograms::{files, folder, install, packed};
use vfun_tests_vm::testpmd::driver;

const ROUNDS: usize = 5;
/// How long the generator sends.
const SENDS: Duration = Duration::from_secs(4);

/// Runs a program of Debian in a guest.
fn program(guest: &Guest, line: &str) -> String {
    ok(guest, &format!("chroot /programs {line}"))
}

fn megabits(from: &Guest) -> f64 {
    let line = format!("/usr/bin/iperf3 -c {} -J -t 4 -O 1", address(1));
    let said: serde_json::Value = serde_json::from_str(&program(from, &line)).unwrap();
    said["end"]["sum_received"]["bits_per_second"].as_f64().expect("it came there") / 1e6
}

/// Microseconds of half a round trip: the median, and the 99th percentile.
fn latency(from: &Guest) -> [f64; 2] {
    let line = format!("/usr/bin/sockperf ping-pong -i {} -t 4 -m 14", address(1));
    let text = program(from, &line);
    ["percentile 50.000", "percentile 99.000"].map(|of| {
        let rest = &text[text.find(of).unwrap_or_else(|| panic!("{text}")) + of.len()..];
        rest.lines().next().unwrap().trim_start_matches([' ', '=']).trim().parse().unwrap()
    })
}

/// What the kernel's generator of the first guest came to.
struct Generated {
    /// Thousands of frames a second that the second guest took.
    rate: f64,
    /// Microseconds of processors for each of them: both VMs, and the switch.
    each: f64,
}

/// The first guest sends as fast as it can.
fn generates(pair: &Pair, bytes: u32) -> Generated {
    let [from, to] = &pair.guests;
    let mac = ok(to, "cat /sys/class/net/eth1/address");
    let lines = [
        "count 0",
        &format!("pkt_size {}", bytes - 4),
        "delay 0",
        "burst 16",
        &format!("dst {}", address(1)),
        &format!("dst_mac {}", mac.trim()),
    ]
    .map(|l| format!("echo {l} >/proc/net/pktgen/eth1"));
    let begin = format!(
        "modprobe pktgen; echo rem_device_all >/proc/net/pktgen/kpktgend_0; \
         echo add_device eth1 >/proc/net/pktgen/kpktgend_0 && {} && \
         (echo start >/proc/net/pktgen/pgctrl 2>/dev/null &)",
        lines.join(" && ")
    );
    ok(from, &begin);
    let pids = [from.pid(), to.pid(), pair.switch.pid()];
    let used = || pids.iter().map(|pid| used_ms(*pid)).sum::<u64>();
    let look = || (Instant::now(), counted_in(to).1, used());
    std::thread::sleep(Duration::from_secs(1));
    let first = look();
    std::thread::sleep(SENDS);
    let last = look();
    ok(from, "echo stop >/proc/net/pktgen/pgctrl; rmmod pktgen; true");
    let frames = (last.1 - first.1) as f64;
    Generated {
        rate: frames / (last.0 - first.0).as_secs_f64() / 1e3,
        each: (last.2 - first.2) as f64 * 1e3 / frames,
    }
}

/// Cycles that the switch's polling thread has spent on frames.
fn busy(pair: &Pair) -> u64 {
    let said = pair.switch.appctl("dpif-netdev/pmd-stats-show");
    let lines = said.lines().filter_map(|l| l.trim().strip_prefix("processing cycles:"));
    lines.filter_map(|l| l.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

#[test]
fn over_a_link_beside_the_switch() {
    let asked = std::env::var_os("VFUN_LINKS_FIGURES").is_some() && driver().is_some();
    if !asked || folder().is_none() || !inside("links_figures::over_a_link_beside_the_switch") {
        return;
    }
    let pair = Pair::start(&files(packed()));
    pair.guests.iter().for_each(install);
    let [from, to] = &pair.guests;
    ok(
        to,
        "chroot /programs /usr/bin/iperf3 -s -D; (chroot /programs /usr/bin/sockperf server >/dev/null 2>&1 &)",
    );
    pair.link();
    pair.both("direct");
    let mut rows: [Vec<(f64, f64)>; 7] = Default::default();
    let mut spent = vec![];
    for _ in 0..ROUNDS {
        let [direct, switch] = [true, false].map(|direct| {
            pair.want(direct);
            let before = busy(&pair);
            let (tcp, late) = (megabits(from), latency(from));
            let (small, large) = (generates(&pair, 64), generates(&pair, 1500));
            let spent = busy(&pair) - before;
            let all = [tcp, late[0], late[1], small.rate, large.rate, small.each, large.each];
            (all, spent)
        });
        for (n, row) in rows.iter_mut().enumerate() {
            row.push((direct.0[n], switch.0[n]));
        }
        spent.push((direct.1 as f64, switch.1 as f64));
    }
    let names = [
        "TCP, Mbit/s",
        "half a round trip, median, us",
        "half a round trip, p99, us",
        "frames of 64 B, thousands a second",
        "frames of 1500 B, thousands a second",
        "processors for a frame of 64 B, us",
        "processors for a frame of 1500 B, us",
    ];
    eprintln!("| what | direct | by the switch | direct / switch |\n|---|---|---|---|");
    for (name, both) in names.iter().zip(&rows) {
        eprintln!("{}", row(name, both));
    }
    let [direct, switch] = [0, 1].map(|n| median(spent.iter().map(|s| [s.0, s.1][n]).collect()));
    eprintln!("cycles of the switch for frames in a round: {direct:.0} direct, {switch:.0} not");
    pair.guests.iter().for_each(healthy);
}
