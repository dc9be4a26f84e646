//! One VM of a direct link is stopped, killed, started again, or writes anything into the memory that both share,
//! in each state of the link: the other VM is back on the switch, other ports of the switch go on, and
//! `vfun links` says why.
//!
//! It needs Open vSwitch and the driver, so `tests/links.sh trouble` runs it.

use crate::links::{Pair, address, signal};
use crate::ports::{kill, reaches};
use crate::ports_programs::BRIDGE;
use rustix::process::Signal;
use std::cell::RefCell;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vfun_tests_vm::module::{healthy, ok, until};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::openvswitch;
use vfun_tests_vm::testpmd::driver;

const HOST: &str = "10.9.0.1";
/// Two other ports, which the same thread of the switch polls.
const OTHERS: [&str; 2] = ["o0", "o1"];
/// Between two frames of theirs.
const EVERY: Duration = Duration::from_micros(1000);
/// How long they are watched before and meanwhile.
const WATCHED: Duration = Duration::from_secs(1);

/// What becomes of the second VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Stopped,
    Killed,
    StartedAgain,
    Scribbles,
}

/// When.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Linked,
    Going,
    Back,
}

/// Frames from one port of DPDK to another one of the same switch, all the time.
struct Others {
    sent: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Others {
    fn start(pair: &Pair) -> Self {
        for (n, name) in OTHERS.iter().enumerate() {
            pair.switch.vsctl(&format!(
                "add-port {BRIDGE} {name} -- set Interface {name} type=dpdk options:dpdk-devargs=net_tap{n},iface={name} options:n_rxq=2"
            ));
            ip(&format!("link set {name} up"));
        }
        ip(&format!("addr add 10.7.0.1/24 dev {}", OTHERS[0]));
        ip(&format!(
            "neigh replace 10.7.0.2 lladdr 02:00:00:00:00:77 dev {} nud permanent",
            OTHERS[0]
        ));
        let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
        let (sent, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, ends) = (sent.clone(), over.clone());
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                if socket.send_to(&[7; 64], "10.7.0.2:7").is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(EVERY);
            }
        });
        Others { sent, over }
    }

    /// Frames that were sent, and those that came, since this machine has them.
    fn look(&self) -> (Instant, u64, u64) {
        let file = format!("/sys/class/net/{}/statistics/rx_packets", OTHERS[1]);
        let came = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        (Instant::now(), self.sent.load(Ordering::Relaxed), came)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Frames a second that came, and how many of those that were sent.
fn rate(from: (Instant, u64, u64), to: (Instant, u64, u64)) -> (f64, f64) {
    let (sent, came) = ((to.1 - from.1) as f64, (to.2 - from.2) as f64);
    (came / (to.0 - from.0).as_secs_f64(), came / sent)
}

/// Two linked guests, and two other ports.
struct TroubleScene {
    pair: Pair,
    others: Others,
    /// What `vfun links` has said of the first VM in this case.
    whys: RefCell<Vec<String>>,
}

/// A line of the table.
struct TroubleFound {
    /// From the trouble, or the rule that came with it, until the first VM was back, ms.
    back: f64,
    whys: Vec<String>,
    ended: usize,
    /// Of the other ports' frames, how many came; and their rate beside that before.
    came: f64,
    rate: f64,
}

impl TroubleScene {
    fn start() -> Self {
        let pair = Pair::start(&[]);
        let others = Others::start(&pair);
        let scene = TroubleScene { pair, others, whys: RefCell::default() };
        scene.pair.link();
        scene.joins();
        scene.pair.linked();
        scene
    }

    fn rule(&self, rule: &str) {
        self.pair.switch.ofctl("add-flow", BRIDGE, &[rule]);
    }

    fn others_rule(&self) {
        let [from, to] = OTHERS;
        self.rule(&format!("in_port={from},actions=output:{to}"));
    }

    /// The two VMs are joined, and the two other ports.
    fn joins(&self) {
        self.pair.join();
        self.others_rule();
    }

    /// Instead, the first VM is joined to the host, and the second one to nobody.
    fn parts(&self) {
        let [a, b] = [0, 1].map(|n| self.pair.tap(n));
        self.rule(&format!("in_port={a},actions=LOCAL"));
        self.rule(&format!("in_port=LOCAL,actions=output:{a}"));
        self.rule(&format!("in_port={b},actions=drop"));
    }

    /// How frames of the first VM go, and why.
    fn state(&self) -> (String, String) {
        let rows = self.pair.stand.manager().links().unwrap();
        let row = rows.into_iter().find(|r| r.from.vm == "a").expect("a port");
        let mut whys = self.whys.borrow_mut();
        if whys.last() != Some(&row.why) {
            whys.push(row.why.clone());
        }
        (row.state, row.why)
    }

    /// Links of the first VM that have ended.
    fn ended(&self) -> usize {
        let from = format!("from=\"{}\"", self.pair.tap(0));
        let log = self.pair.stand.log();
        log.lines().filter(|l| l.contains("a direct link has ended") && l.contains(&from)).count()
    }

    fn becomes(&self, is: impl Fn(&str) -> bool) -> Instant {
        let mut last = Default::default();
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            last = self.state();
            if is(&last.0) {
                return Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{last:?}\n{}\n{}", self.pair.stand.log(), self.pair.switch.log());
    }

    /// The trouble itself.
    fn does(&self, trouble: Trouble) {
        let second = &self.pair.guests[1];
        match trouble {
            Trouble::Stopped => signal(second.pid(), Signal::STOP),
            Trouble::Killed => kill(second.pid()),
            // Its end is waited for later: now the button is pressed.
            Trouble::StartedAgain => {
                second.qmp("system_reset", serde_json::json!({})).unwrap();
            }
            Trouble::Scribbles => {
                let find = "for d in /sys/bus/pci/devices/*; do [ \"$(stat -c %s $d/resource2 2>/dev/null)\" = 4194304 ] && echo $d/resource2; done";
                let memory = ok(second, find);
                ok(
                    second,
                    &format!(
                        "(vfun-vm-app scribble {} 7 >/tmp/scribble 2>&1 </dev/null &)",
                        memory.trim()
                    ),
                );
            }
        }
    }

    /// The first VM sends to the second one all the time, whether that hears it or not.
    fn sends(&self) {
        let send = format!("vfun-vm-app udp-source {}:7 2000", address(1));
        ok(
            &self.pair.guests[0],
            &format!("killall -q vfun-vm-app; ({send} >/dev/null 2>&1 </dev/null &)"),
        );
    }

    /// Lets it come to the trouble in this state, and to a state in which the first VM must be back on the switch;
    /// since when it must.
    fn comes_to(&self, trouble: Trouble, when: When) -> Instant {
        // A VM that was stopped does not answer any more, so the link stays in the state for a while.
        let holds = |does: &dyn Fn()| {
            if matches!(trouble, Trouble::Killed) {
                signal(self.pair.guests[1].pid(), Signal::STOP);
            } else {
                self.does(trouble);
            }
            does();
        };
        match when {
            When::Linked => {
                self.does(trouble);
                std::thread::sleep(WATCHED);
            }
            When::Going => {
                self.parts();
                self.becomes(|s| s == "switch");
                holds(&|| self.joins());
                // A busy machine may have ended the link before.
                until("a turn, or no memory for a link", || {
                    let (state, why) = self.state();
                    state != "switch" || why.contains("unplug it")
                });
            }
            When::Back => holds(&|| self.parts()),
        }
        let begin = Instant::now();
        match (trouble, when) {
            (Trouble::Killed, When::Going | When::Back) => self.does(trouble),
            // Nothing has changed that a link goes by: a VM that is started again has its devices still, and its
            // switch has the rules.
            (_, When::Linked | When::Going) if trouble != Trouble::Killed => self.parts(),
            _ => {}
        }
        begin
    }

    /// The first VM reaches the host by the switch.
    fn is_on_the_switch(&self) {
        self.parts();
        self.becomes(|s| s == "switch");
        let first = &self.pair.guests[0];
        reaches(first, HOST);
        let said = ok(first, &format!("ping -c 20 -i 0.02 -W 5 {HOST}"));
        assert!(said.contains(" 0% packet loss"), "{said}");
        healthy(first);
    }

    /// All is as before. `boots`: how often the second VM had booted before the trouble.
    fn mends(&mut self, trouble: Trouble, boots: u64) {
        ok(&self.pair.guests[0], "killall -q vfun-vm-app; true");
        match trouble {
            Trouble::Stopped => signal(self.pair.guests[1].pid(), Signal::CONT),
            Trouble::Killed => self.pair.boots(1),
            Trouble::StartedAgain => {
                let second = &self.pair.guests[1];
                second.wait_boots(boots + 1, Duration::from_secs(120)).unwrap();
                self.pair.prepares(1);
            }
            Trouble::Scribbles => drop(ok(&self.pair.guests[1], "killall vfun-vm-app; true")),
        }
        self.joins();
        until("a link, or a reason", || {
            self.state().0 == "direct" || !self.state().1.contains("output to LOCAL")
        });
        self.pair.linked();
        reaches(&self.pair.guests[0], &address(1));
        healthy(&self.pair.guests[1]);
    }

    fn tries(&mut self, trouble: Trouble, when: When) -> TroubleFound {
        let (ended, boots) = (self.ended(), self.pair.guests[1].boots());
        self.whys.take();
        self.sends();
        let first = self.others.look();
        std::thread::sleep(WATCHED);
        let second = self.others.look();
        let begin = self.comes_to(trouble, when);
        let back = self.becomes(|s| s == "switch" || s == "over");
        std::thread::sleep(WATCHED.saturating_sub(begin.elapsed()));
        let third = self.others.look();
        let (before, meanwhile) = (rate(first, second), rate(second, third));
        self.is_on_the_switch();
        let ended = self.ended() - ended;
        self.mends(trouble, boots);
        TroubleFound {
            back: (back - begin).as_secs_f64() * 1e3,
            whys: self.whys.take(),
            ended,
            came: meanwhile.1,
            rate: meanwhile.0 / before.0,
        }
    }
}

#[test]
fn a_vm_in_trouble_leaves_the_other_one_on_the_switch() {
    let test = "links_trouble::a_vm_in_trouble_leaves_the_other_one_on_the_switch";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let mut scene = TroubleScene::start();
    until("frames of the other ports", || scene.others.look().2 > 0);
    println!(
        "| the second VM | state of the link | the first one is back after, ms | its links that ended | other ports: frames that came of those sent \
         | their rate beside that before | why |\n|---|---|---|---|---|---|---|"
    );
    for trouble in [Trouble::Stopped, Trouble::Scribbles, Trouble::StartedAgain, Trouble::Killed] {
        for when in [When::Linked, When::Going, When::Back] {
            let TroubleFound { back, whys, ended, came, rate } = scene.tries(trouble, when);
            assert!(!whys.is_empty(), "{trouble:?} {when:?}");
            let whys = whys.join("; ");
            println!(
                "| {trouble:?} | {when:?} | {back:.1} | {ended} | {came:.3} | {rate:.2} | {whys} |"
            );
        }
    }
}
