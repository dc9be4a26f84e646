//! How long a handover of a direct link takes, and what it costs: two guests on one machine.
//!
//! Nothing is demanded here: a machine that does other work shows other times. `tests/links.sh
//! handovers` runs it and prints tables.

use crate::links::{Pair, address};
use crate::ports::reaches;
use crate::ports_figures::{median, used_ms};
use crate::ports_programs::BRIDGE;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use vfun_testguest::Guest;
use vfun_tests_vm::linkwords::{LinkWatch, LinkWords};
use vfun_tests_vm::module::{healthy, ok, until};
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::netprograms::{files, folder, install, packed};
use vfun_tests_vm::oneway::Listener;
use vfun_tests_vm::openvswitch;
use vfun_tests_vm::testpmd::driver;

const HOST: &str = "10.9.0.1";
/// Between two numbers, µs.
const EVERY: u64 = 1000;
/// Rules that change, one after the other, if VFUN_LINKS_TRIES does not say how many.
const TRIES: usize = 20;
/// Rules of a large switch, and changes of them in a second.
const RULES: usize = 10_000;
const CHANGES: usize = 1000;
/// After a rule has changed, until it is looked what went where: far longer than anything lasts.
const LATER: Duration = Duration::from_millis(500);
/// As long as a window rests that was asked for twice.
const RESTS: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);

struct CostScene {
    pair: Pair,
    watch: LinkWatch,
    /// Hears what the first guest sends to the host.
    host: Listener,
    taps: [String; 2],
    /// A moment by both clocks.
    clocks: (Instant, SystemTime),
}

fn tries() -> usize {
    let said = std::env::var("VFUN_LINKS_TRIES");
    said.map_or(TRIES, |n| n.parse().expect("VFUN_LINKS_TRIES is a number"))
}

/// Median and longest, ms.
fn both(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    let longest = all.last().copied().unwrap_or_default();
    format!("{:.1} ({longest:.1})", median(all))
}

fn ms(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e3
}

/// The text of a line, and its moment, of a log that begins each line with the time of day.
fn line(text: &str) -> Option<(f64, &str)> {
    let (time, rest) = text.split_once(' ')?;
    let clock = time.split_once('T')?.1.strip_suffix('Z')?;
    let seconds =
        clock.split(':').try_fold(0.0, |all, part| Some(all * 60.0 + part.parse::<f64>().ok()?));
    Some((seconds?, rest))
}

impl CostScene {
    fn start() -> Self {
        let pair = Pair::reached(&files(packed()), &["a", "b"]);
        pair.guests.iter().for_each(install);
        pair.join();
        reaches(&pair.guests[0], &address(1));
        let add = ["window", "add", "pair", "--vm", "web/a", "--vm", "web/b", "--size", "4MiB"];
        vfun_tests_vm::cli::json(&pair.stand, &add);
        pair.linked();
        let windows = pair.stand.manager().windows().unwrap();
        let file = &windows.first().expect("there is one").file;
        let taps = [0, 1].map(|n| pair.tap(n));
        let macs = pair.guests.each_ref().map(|g| ok(g, "cat /sys/class/net/eth1/address"));
        let of_host = std::fs::read_to_string(format!("/sys/class/net/{BRIDGE}/address")).unwrap();
        for (n, guest) in pair.guests.iter().enumerate() {
            ok(guest, &format!("arp -i eth1 -s {} {}", address(1 - n), macs[1 - n].trim()));
            ok(guest, &format!("arp -i eth1 -s {HOST} {}", of_host.trim()));
        }
        CostScene {
            watch: LinkWatch::start(LinkWords::of(file, false)),
            host: Listener::start(format!("{HOST}:9").parse().unwrap()),
            taps,
            clocks: (Instant::now(), SystemTime::now()),
            pair,
        }
    }

    /// Numbers go from the first guest to the second one, and to the host, until [`rests`](Self::rests).
    fn sends(&self) {
        let [from, to] = &self.pair.guests;
        ok(to, "(vfun-vm-app udp-sink 7 /tmp/heard >/dev/null 2>&1 </dev/null &)");
        ok(to, "until test -e /tmp/heard; do usleep 10000; done");
        for to in [format!("{}:7", address(1)), format!("{HOST}:9")] {
            ok(
                from,
                &format!("(vfun-vm-app udp-source {to} {EVERY} >/dev/null 2>&1 </dev/null &)"),
            );
        }
        ok(to, "until test -s /tmp/heard; do usleep 10000; done");
    }

    fn rests(&self) {
        self.pair.guests.iter().for_each(|g| drop(ok(g, "killall vfun-vm-app; true")));
    }

    fn heard(&self) -> u64 {
        ok(&self.pair.guests[1], "vfun-vm-app udp-last /tmp/heard").trim().parse().unwrap()
    }

    /// Gaps between numbers, ms: the median, p99.9 and the longest.
    fn gaps(&self, from: u64, to: u64) -> [f64; 3] {
        let said =
            ok(&self.pair.guests[1], &format!("vfun-vm-app udp-gaps /tmp/heard {from} {to}"));
        let all: Vec<f64> =
            said.split_whitespace().map(|n| n.parse::<f64>().unwrap() / 1e3).collect();
        all.try_into().expect("three numbers")
    }

    /// What becomes of all frames of the first guest; the command's begin and end.
    fn rule(&self, actions: &str) -> (Instant, Instant) {
        let rule = format!("in_port={},actions={actions}", self.taps[0]);
        let begin = Instant::now();
        self.pair.switch.ofctl("add-flow", BRIDGE, &[&rule]);
        (begin, Instant::now())
    }

    fn joins(&self) -> (Instant, Instant) {
        self.rule(&format!("output:{}", self.taps[1]))
    }

    fn becomes(&self, state: &str) {
        let is = |row: &vfun_admin::links::LinkRow| row.from.vm == "a" && row.state == state;
        until(state, || self.pair.stand.manager().links().unwrap().iter().any(is));
    }

    /// It is linked, and frames go there.
    fn goes(&self) {
        self.pair.linked();
        self.watch.forgets();
        until("frames over the link", || self.watch.first().is_some());
    }

    /// The longest gap of each handover, beside the gaps without one.
    fn longest_gaps(&self) {
        self.goes();
        let from = self.heard();
        std::thread::sleep(IDLE);
        let control = self.gaps(from, self.heard());
        let (mut there, mut back) = (vec![], vec![]);
        for _ in 0..tries() {
            let from = self.heard();
            self.rule(&format!("output:{},in_port", self.taps[1]));
            self.becomes("switch");
            let turned = self.heard();
            self.joins();
            self.pair.linked();
            let to = self.heard();
            back.push(self.gaps(from, turned + 50)[2]);
            there.push(self.gaps(turned, to + 50)[2]);
        }
        let [half, most, longest] = control;
        println!(
            "\n| gaps between numbers (each {EVERY} us), ms | median | p99.9 | longest |\n|---|---|---|---|"
        );
        println!("| no handover, {} s | {half:.2} | {most:.2} | {longest:.2} |", IDLE.as_secs());
        for (name, all) in [("back to the switch", back), ("to the link", there)] {
            println!(
                "| longest gap of each of {} handovers {name} | | | {} (longest) |",
                tries(),
                both(all)
            );
        }
    }

    /// From a rule that drops all to the last frame, over the link and through the switch.
    fn withdrawals(&self, what: &str) {
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..tries() {
            self.joins();
            self.goes();
            let (begin, end) = self.rule("drop");
            std::thread::sleep(LATER);
            self.becomes("switch");
            let last = self.watch.last().expect("frames went there");
            times[0].push(ms(begin, last));
            times[1].push(ms(end, last));

            self.rule("LOCAL");
            let since = Instant::now();
            until("frames come to the host", || self.host.last().is_some_and(|at| at > since));
            let (begin, end) = self.rule("drop");
            std::thread::sleep(LATER);
            let last = self.host.last().expect("frames came");
            times[2].push(ms(begin, last));
            times[3].push(ms(end, last));
        }
        self.joins();
        let [link, link_end, switch, switch_end] = times.map(both);
        println!(
            "\n| {what}: last frame by the old rule, ms, median (longest) of {} | after the command began | after it ended (barrier) |\n|---|---|---|",
            tries()
        );
        println!(
            "| over the link | {link} | {link_end} |\n| through the switch alone | {switch} | {switch_end} |"
        );
    }

    /// From a rule that joins to the first frame over the link, with or without the memory being plugged in.
    fn begins(&self, plugs: bool) {
        let mut times: [Vec<f64>; 5] = Default::default();
        for _ in 0..tries().div_ceil(2) {
            self.rule("drop");
            let b = &self.taps[1];
            self.pair.switch.ofctl("add-flow", BRIDGE, &[&format!("in_port={b},actions=drop")]);
            self.becomes("switch");
            if plugs {
                (0..2).for_each(|n| self.pair.unplug(n));
            }
            std::thread::sleep(if plugs { RESTS } else { LATER });
            self.watch.forgets();
            let known = self.pair.stand.log().len();
            let (begin, _) = self.joins();
            until("a frame over the link", || self.watch.first().is_some());
            let first = ms(begin, self.watch.first().expect("just now"));
            self.pair.linked();
            let steps = self.steps(begin, &self.pair.stand.log()[known..]);
            let mut before = 0.0;
            for (n, at) in steps.into_iter().chain([first]).enumerate() {
                times[n].push(at - before);
                before = at;
            }
            times[4].push(first);
        }
        let [detector, plug, turn, frame, all] = times.map(both);
        let what = if plugs { "memory is plugged into both VMs" } else { "memory is there" };
        println!(
            "\n| {what}: ms, median (longest) of {} | detector | plug and the VMs' drivers | turn | first frame | in all |\n|---|---|---|---|---|---|",
            tries().div_ceil(2)
        );
        println!(
            "| from a rule to the first frame over the link | {detector} | {plug} | {turn} | {frame} | {all} |"
        );
    }

    /// When the port was joined, the turn was begun, and both VMs had made it, ms from a moment on.
    fn steps(&self, begin: Instant, log: &str) -> [f64; 3] {
        let (instant, time) = self.clocks;
        let of_day = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() % 86400.0;
        let begin = of_day + (begin - instant).as_secs_f64();
        let from = format!("from=\"{}\"", self.taps[0]);
        let at = |words: &[&str]| {
            let found =
                log.lines().filter_map(line).find(|(_, l)| words.iter().all(|w| l.contains(w)));
            (found.unwrap_or_else(|| panic!("no {words:?} in {log}")).0 - begin) * 1e3
        };
        let joined = format!("port {}: the switch sends all", self.taps[0]);
        [at(&[&joined]), at(&["direct link: going", &from]), at(&["direct link: direct", &from])]
    }

    /// Who watches the switch.
    fn watcher(&self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.pair.stand.pid());
        let children = std::fs::read_to_string(children).unwrap();
        let is = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|c| c.trim() == "vfun-links")
        };
        children.split_whitespace().map(|p| p.parse().unwrap()).find(is).expect("it runs")
    }

    /// Percent of a processor: the manager, who watches the switch, and the switch.
    fn uses(&self, meanwhile: impl FnOnce()) -> [f64; 3] {
        let pids = [self.pair.stand.pid(), self.watcher(), self.pair.switch.pid()];
        let (begin, before) = (Instant::now(), pids.map(used_ms));
        meanwhile();
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        [0, 1, 2].map(|n| (used_ms(pids[n]) - before[n]) as f64 / ms * 100.0)
    }

    fn add_flows(&self, flows: &str) {
        let at =
            format!("unix:{}", self.pair.switch.folder().join(format!("{BRIDGE}.mgmt")).display());
        let mut child = Command::new(openvswitch::programs().expect("asked for").join("ovs-ofctl"))
            .args(["add-flows", &at, "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().expect("piped").write_all(flows.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// A thousand changes a second, while withdrawals are measured among many rules.
    fn many_rules(&self) {
        let rule = |n: usize, to: usize| {
            format!(
                "priority=100,in_port=77,ip,nw_dst=11.0.{}.{},actions=output:{to}\n",
                n / 256,
                n % 256
            )
        };
        self.add_flows(&(0..RULES).map(|n| rule(n, 1)).collect::<String>());
        let (over, changes) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
        let mut used = [0.0; 3];
        let begin = Instant::now();
        std::thread::scope(|s| {
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let due = Instant::now() + Duration::from_millis(100);
                    let from = changes.fetch_add(CHANGES / 10, Ordering::Relaxed);
                    let flows =
                        (from..from + CHANGES / 10).map(|n| rule(n % RULES, 2 + n / RULES % 2));
                    self.add_flows(&flows.collect::<String>());
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            });
            used = self
                .uses(|| self.withdrawals(&format!("{RULES} rules, {CHANGES} changes a second")));
            over.store(true, Ordering::Relaxed);
        });
        let made = changes.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
        let [manager, watcher, switch] = used;
        println!(
            "changes made: {made:.0} a second; of a processor: vfund {manager:.1} %, vfun-links {watcher:.1} %, ovs-vswitchd {switch:.1} %"
        );
        self.pair.switch.ofctl("del-flows", BRIDGE, &["in_port=77"]);
    }

    /// Mbit/s and retransmissions of one TCP connection while something else is done.
    fn tcp(&self, seconds: u64, meanwhile: impl FnOnce()) -> (f64, u64) {
        let from: &Guest = &self.pair.guests[0];
        let line = format!(
            "(chroot /programs /usr/bin/iperf3 -c {} -J -t {seconds} >/tmp/iperf 2>&1 </dev/null; : >/tmp/iperf.end) >/dev/null 2>&1 </dev/null &",
            address(1)
        );
        ok(from, &format!("rm -f /tmp/iperf.end; {line}"));
        meanwhile();
        ok(
            from,
            "for i in $(seq 1100); do test -e /tmp/iperf.end && exit 0; usleep 100000; done; exit 1",
        );
        let said: serde_json::Value = serde_json::from_str(&ok(from, "cat /tmp/iperf")).unwrap();
        let sent = &said["end"]["sum_sent"];
        let (rate, again) = (sent["bits_per_second"].as_f64(), sent["retransmits"].as_u64());
        (rate.unwrap_or_else(|| panic!("{said}")) / 1e6, again.expect("Linux counts them"))
    }

    fn under_tcp(&self) {
        ok(&self.pair.guests[1], "chroot /programs /usr/bin/iperf3 -s -D");
        let seconds = 3 * tries() as u64;
        let mut flips = 0;
        let begin = Instant::now();
        let with = self.tcp(seconds, || {
            while flips < 10 * tries() && begin.elapsed().as_secs() + 2 < seconds {
                self.rule(&format!("output:{},in_port", self.taps[1]));
                self.becomes("switch");
                self.joins();
                self.pair.linked();
                flips += 2;
            }
        });
        let without = self.tcp(seconds, || ());
        println!("\n| iperf3, {seconds} s | Mbit/s | retransmissions |\n|---|---|---|");
        println!(
            "| {flips} handovers | {:.0} | {} |\n| none | {:.0} | {} |",
            with.0, with.1, without.0, without.1
        );
    }
}

#[test]
fn what_a_handover_costs() {
    let asked = std::env::var_os("VFUN_LINKS_FIGURES").is_some() && driver().is_some();
    if !asked || folder().is_none() || !inside("links_handovers::what_a_handover_costs") {
        return;
    }
    let scene = CostScene::start();
    let [manager, watcher, switch] = scene.uses(|| std::thread::sleep(IDLE));
    println!(
        "\nlinked, and nobody sends, of a processor: vfund {manager:.2} %, vfun-links {watcher:.2} %, ovs-vswitchd {switch:.2} %"
    );
    scene.sends();
    scene.longest_gaps();
    scene.withdrawals("few rules");
    scene.begins(false);
    scene.begins(true);
    scene.joins();
    scene.many_rules();
    scene.rests();
    scene.pair.join();
    scene.pair.linked();
    scene.under_tcp();
    scene.pair.guests.iter().for_each(healthy);
}
