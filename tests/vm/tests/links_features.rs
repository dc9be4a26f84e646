//! Each feature of Open vSwitch that is more than to pass frames on, switched on and off again while numbered
//! frames go over a direct link: the link is gone, the feature is offered each frame from then on, and the
//! link comes back.
//!
//! It needs Open vSwitch and the driver, so `tests/links.sh features` runs it.

mod table;

use crate::links::{Pair, address};
use crate::ports::reaches;
use crate::ports_programs::{BRIDGE, counted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use table::{Arrives, Counter, FEATURES, Feature};
use vfun_tests_vm::collectors::{Collector, ipfix_records, netflow_frames, sflow_samples};
use vfun_tests_vm::linkwords::{LinkWatch, LinkWords};
use vfun_tests_vm::module::{healthy, ok, until};
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::openvswitch;
use vfun_tests_vm::testpmd::driver;

/// Between two numbers, µs.
const EVERY: u64 = 2000;
/// So many frames at least that a feature must be offered.
const OFFERED: u64 = 200;
/// Open vSwitch adds up counts of its cached flows twice a second: when none came for so long, all are there.
const SETTLED: Duration = Duration::from_millis(700);

/// Two linked guests, the first of which sends numbers without end, and who else counts frames.
struct FeatureScene {
    pair: Pair,
    words: LinkWords,
    watch: LinkWatch,
    sflow: Collector,
    netflow: Collector,
    ipfix: Collector,
    controller: Shown,
    taps: [String; 2],
}

/// A program that is shown frames as a controller is. It ends with this.
struct Shown {
    child: Child,
    said: tempfile::NamedTempFile,
}

impl Shown {
    fn start(pair: &Pair) -> Self {
        let said = tempfile::NamedTempFile::new().unwrap();
        let at = format!("unix:{}", pair.switch.folder().join(format!("{BRIDGE}.mgmt")).display());
        let child = Command::new(openvswitch::programs().expect("asked for").join("ovs-ofctl"))
            .args(["monitor", &at, "65534"])
            .env("OVS_RUNDIR", pair.switch.folder())
            .stdin(Stdio::null())
            .stdout(said.reopen().unwrap())
            .stderr(said.reopen().unwrap())
            .spawn()
            .unwrap();
        Shown { child, said }
    }

    fn count(&self) -> u64 {
        let said = std::fs::read_to_string(self.said.path()).unwrap();
        said.lines().filter(|l| l.contains("PACKET_IN")).count() as u64
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What became of a feature: a line of the table.
struct FeatureFound {
    /// From the command's begin until the link was gone, and from its end until the last frame went over
    /// the link, ms.
    gone: f64,
    last: f64,
    /// From the end of the command that ends it until the link was back, ms.
    back: f64,
    sent: u64,
    order: String,
    /// A guest was not let run for too long, and lost its link.
    forced: bool,
    /// What Open vSwitch warned of meanwhile.
    warned: Vec<String>,
}

fn ms(from: Instant, to: Instant) -> f64 {
    match to.checked_duration_since(from) {
        Some(time) => time.as_secs_f64() * 1e3,
        None => -from.duration_since(to).as_secs_f64() * 1e3,
    }
}

/// The number after these words.
fn number_after(text: &str, words: &str) -> Option<u64> {
    let rest = &text[text.find(words)? + words.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

impl FeatureScene {
    fn start() -> Self {
        let pair = Pair::start(&[]);
        pair.switch
            .vsctl(&format!("add-port {BRIDGE} mirror -- set Interface mirror type=internal"));
        ip("link set mirror up");
        pair.link();
        pair.linked();
        // Nobody asks for addresses while a feature drops that.
        let macs = pair.guests.each_ref().map(|g| ok(g, "cat /sys/class/net/eth1/address"));
        for (n, guest) in pair.guests.iter().enumerate() {
            ok(guest, &format!("arp -i eth1 -s {} {}", address(1 - n), macs[1 - n].trim()));
        }
        let taps = [0, 1].map(|n| pair.tap(n));
        let windows = pair.stand.manager().windows().unwrap();
        let file = &windows.first().expect("there is one").file;
        let scene = FeatureScene {
            words: LinkWords::of(file, false),
            watch: LinkWatch::start(LinkWords::of(file, false)),
            sflow: Collector::sflow(6343),
            netflow: Collector::netflow(5566),
            ipfix: Collector::ipfix(4739),
            controller: Shown::start(&pair),
            taps,
            pair,
        };
        scene.sends();
        scene
    }

    /// Numbers go from the first guest to the second one from now on.
    fn sends(&self) {
        let [from, to] = &self.pair.guests;
        ok(to, "(vfun-vm-app udp-sink 7 /tmp/heard >/dev/null 2>&1 </dev/null &)");
        ok(to, "until test -e /tmp/heard; do usleep 10000; done");
        let send = format!("vfun-vm-app udp-source {}:7 {EVERY}", address(1));
        ok(from, &format!("({send} >/dev/null 2>&1 </dev/null &)"));
        ok(to, "until test -s /tmp/heard; do usleep 10000; done");
    }

    fn pause(&self, pause: bool) {
        let signal = if pause { "STOP" } else { "CONT" };
        ok(&self.pair.guests[0], &format!("killall -{signal} vfun-vm-app"));
    }

    /// With the names of this scene.
    fn named(&self, line: &str) -> String {
        let [a, b] = &self.taps;
        line.replace("{a}", a).replace("{b}", b).replace("{br}", BRIDGE)
    }

    /// Does what the lines say; what Open vSwitch complains of, if it does.
    fn tells(&self, lines: &[&str]) -> Result<(), String> {
        lines.iter().try_for_each(|l| self.pair.switch.tries_line(&self.named(l)).map(drop))
    }

    fn asks(&self, line: &str) -> String {
        self.pair.switch.tries_line(&self.named(line)).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// How frames of the first guest go.
    fn state(&self) -> (String, String) {
        let rows = self.pair.stand.manager().links().unwrap();
        let row = rows.into_iter().find(|r| r.from.vm == "a").expect("a port");
        (row.state, row.why)
    }

    /// Waits until they go so; when that was.
    fn becomes(&self, state: &str) -> Instant {
        let mut last = Default::default();
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            last = self.state();
            if last.0 == state {
                return Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("not {state}: {last:?}\n{}\n{}", self.pair.stand.log(), self.pair.switch.log());
    }

    /// Frames that the first guest has sent, and those that were sent to the second one: by the switch or over
    /// the link. Asked at the switch, which answers sooner than a guest.
    fn sent(&self) -> u64 {
        counted(&self.pair.switch, &self.taps[0]).0
    }

    fn received(&self) -> u64 {
        counted(&self.pair.switch, &self.taps[1]).1
    }

    fn heard(&self) -> u64 {
        ok(&self.pair.guests[1], "vfun-vm-app udp-last /tmp/heard").trim().parse().unwrap()
    }

    fn counts(&self, counter: Counter) -> u64 {
        let after = |line: &str, words: &str| {
            let said = self.asks(line);
            number_after(&said, words).unwrap_or_else(|| panic!("{said}"))
        };
        let rules = || after("f dump-aggregate {br} table=0,in_port={a}", "packet_count=");
        let dropped = |n: usize, of: &str| {
            let said = self.asks(&format!("f dump-ports {{br}} {}", self.taps[n]));
            let line = said.lines().find(|l| l.contains(&format!("{of} pkts="))).expect("a line");
            number_after(line, "drop=").unwrap_or_else(|| panic!("{said}"))
        };
        match counter {
            Counter::Rules => rules(),
            Counter::Table(n) => {
                after(&format!("f dump-aggregate {{br}} table={n}"), "packet_count=")
            }
            Counter::Mirror => counted(&self.pair.switch, "mirror").1,
            Counter::Group => after("f dump-group-stats {br} group_id=3", "packet_count="),
            Counter::Meter => after("f meter-stats {br} meter=1", "packet_in_count:"),
            Counter::Policed => rules() + dropped(0, "rx"),
            Counter::Shaped => self.received() + dropped(1, "tx"),
            Counter::SFlow => self.sflow.count(),
            Counter::NetFlow => self.netflow.count(),
            Counter::Ipfix => self.ipfix.count(),
            Counter::Controller => self.controller.count(),
        }
    }

    fn all(&self, counters: &[Counter]) -> Vec<u64> {
        counters.iter().map(|c| self.counts(*c)).collect()
    }

    /// Waits until nothing is under way, and all is counted.
    fn settles(&self, counters: &[Counter]) -> Vec<u64> {
        let pause = if counters.contains(&Counter::NetFlow) { 4 * SETTLED } else { SETTLED };
        let mut last = self.all(counters);
        until("counts that stay", || {
            std::thread::sleep(pause);
            let before = std::mem::replace(&mut last, self.all(counters));
            before == last
        });
        last
    }

    /// The feature has the frames: the switch goes on by what it has cached for some time.
    fn takes_hold(&self, f: &Feature) {
        let (begin, mut now) = (self.all(f.counters), vec![]);
        let grow = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            now = self.all(f.counters);
            now.iter().zip(&begin).all(|(now, then)| *now >= then + 20)
        });
        let rules = || self.asks("f dump-flows {br}");
        assert!(grow, "{}: {:?} grow not: {begin:?} {now:?}\n{}", f.name, f.counters, rules());
        let comes = || if f.arrives == Arrives::Unheard { self.heard() } else { self.received() };
        if matches!(f.arrives, Arrives::Nothing | Arrives::Unheard) {
            until(&format!("{}: nothing comes", f.name), || {
                let (came, sent) = (comes(), self.sent());
                until("frames are sent", || self.sent() >= sent + 50);
                comes() == came
            });
        }
    }

    /// Each frame that is sent from now on is offered to the feature; how many that are.
    fn offers(&self, f: &Feature) -> u64 {
        self.takes_hold(f);
        self.pause(true);
        let (seen, sent, received) = (self.settles(f.counters), self.sent(), self.received());
        let heard = self.heard();
        self.pause(false);
        until("frames are sent", || self.sent() >= sent + OFFERED);
        self.pause(true);
        let sent = self.sent() - sent;
        let mut now = vec![];
        let all = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            now = self.all(f.counters);
            now.iter().zip(&seen).all(|(now, then)| now - then >= sent)
        });
        assert!(all, "{}: of {sent} frames, {:?} were seen: {seen:?} {now:?}", f.name, f.counters);
        let came = || self.received() - received;
        match f.arrives {
            // The switch may send frames of its own.
            Arrives::All | Arrives::Unread => until("each comes", || came() >= sent),
            Arrives::Some => assert!(came() <= sent, "{}: {} of {sent}", f.name, came()),
            Arrives::Nothing => assert_eq!(came(), 0, "{}", f.name),
            Arrives::Unheard => assert_eq!(self.heard(), heard, "{}", f.name),
            Arrives::Unsent => unreachable!("nothing is sent"),
        }
        if let Some((line, words)) = f.shows {
            let said = self.asks(line);
            assert!(said.contains(words), "{}: {said}", f.name);
        }
        self.pause(false);
        sent
    }

    /// The sender's port is down: it has no carrier, and nothing comes.
    fn is_mute(&self) -> u64 {
        let [from, _] = &self.pair.guests;
        until("it has no carrier", || {
            ok(from, "cat /sys/class/net/eth1/carrier 2>/dev/null; true").trim() != "1"
        });
        let came = self.received();
        std::thread::sleep(SETTLED);
        assert_eq!(self.received(), came);
        0
    }

    /// As before it.
    fn ends(&self, f: &Feature) {
        self.pause(false);
        self.tells(f.off).unwrap();
        self.pair.linked();
    }

    /// How often a link of the first guest ended by force.
    fn forced(&self) -> u64 {
        let rows = self.pair.stand.manager().links().unwrap();
        rows.into_iter().find(|r| r.from.vm == "a").expect("a port").forced
    }

    /// Switches it on and off again; what Open vSwitch says if it does not have it.
    fn tries(&self, f: &Feature) -> Result<FeatureFound, String> {
        self.pair.linked();
        self.watch.forgets();
        until("frames go over the link", || self.watch.first().is_some());
        let (first, log) = (self.heard(), self.pair.switch.log().len());
        let forced = self.forced();
        let begin = Instant::now();
        self.tells(f.on)?;
        let told = Instant::now();
        let gone = self.becomes("switch");
        let why = self.named(f.why);
        until(&format!("{}: the reason '{why}'", f.name), || self.state().1.contains(&why));
        let over_link = || (self.words.sent(), self.words.taken());
        let direct = over_link();
        let sent = if f.arrives == Arrives::Unsent { self.is_mute() } else { self.offers(f) };
        // Nothing went past the switch meanwhile.
        assert_eq!(over_link(), direct, "{}: frames over the link", f.name);
        let last = self.watch.last().expect("frames went over the link");

        let warned = self.pair.switch.log()[log..].to_owned();
        self.tells(f.off)?;
        let ended = Instant::now();
        self.pair.linked();
        let back = ms(ended, Instant::now());
        self.watch.forgets();
        until("frames go over the link", || self.watch.first().is_some());
        let end = self.heard();
        until("later ones come", || self.heard() > end + 20);
        let heard = &self.pair.guests[1];
        let order = ok(heard, &format!("vfun-vm-app udp-order /tmp/heard {first} {end}"));
        let warned = warned.lines().filter(|l| l.contains("|WARN|") || l.contains("|ERR|"));
        Ok(FeatureFound {
            gone: ms(begin, gone),
            last: ms(told, last),
            back,
            sent,
            order: order.trim().to_owned(),
            forced: self.forced() > forced,
            warned: warned.map(str::to_owned).collect(),
        })
    }
}

#[test]
fn each_feature_of_a_stock_switch_has_its_frames_back() {
    let test = "links_features::each_feature_of_a_stock_switch_has_its_frames_back";
    if driver().is_none() || openvswitch::programs().is_none() || !inside(test) {
        return;
    }
    let scene = FeatureScene::start();
    reaches(&scene.pair.guests[0], &address(1));
    let only = std::env::var("VFUN_LINKS_FEATURE").unwrap_or_default();
    let (mut wrong, mut warned) = (vec![], vec![]);
    println!(
        "| feature | link gone after its command began, ms | last direct frame after the command ended, ms | frames offered \
         | numbers lost, repeated, late | link back after it went, ms |\n|---|---|---|---|---|---|"
    );
    for f in FEATURES.iter().filter(|f| f.name.contains(&only)) {
        // One that fails does not hide the next one.
        let found = catch_unwind(AssertUnwindSafe(|| scene.tries(f)));
        let Ok(Ok(FeatureFound { gone, last, back, sent, order, forced, warned: of_it })) = found
        else {
            match found {
                Ok(Err(said)) => {
                    println!("| {} | Open vSwitch has it not: {said} | | | | |", f.name)
                }
                _ => wrong.push(format!("{}: see above", f.name)),
            }
            scene.ends(f);
            continue;
        };
        let by_force = if forced { " (by force: a guest was not let run)" } else { "" };
        println!("| {} | {gone:.1} | {last:.1} | {sent} | {order}{by_force} | {back:.1} |", f.name);
        let right = match f.arrives {
            Arrives::All => order == "0 0 0",
            _ => order.ends_with(" 0 0") && !order.starts_with("0 "),
        };
        if !right && !forced {
            wrong.push(format!("{}: lost, repeated, late: {order}", f.name));
        }
        warned.extend(of_it);
    }
    println!("Open vSwitch warned:\n{}", warned.join("\n"));
    assert!(wrong.is_empty(), "{wrong:?}");
    scene.pair.guests.iter().for_each(healthy);
}

#[test]
fn what_collectors_are_told_is_counted() {
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let sflow = words(&[5, 1, 0, 0, 1, 0, 3, 1, 4, 9, 2, 0, 1, 4, 9]);
    assert_eq!(sflow_samples(&sflow), Some(2));
    assert_eq!(sflow_samples(&sflow[..40]), None);
    let mut netflow = words(&[5 << 16 | 2, 0, 0, 0, 0, 0]);
    netflow.extend(words(&[0, 0, 0, 0, 70, 0, 0, 0, 0, 0, 0, 0].repeat(2)));
    assert_eq!(netflow_frames(&netflow), Some(140));
    let ipfix = |set: u32| words(&[10 << 16 | 24, 0, 41, 1, set << 16 | 8, 7]);
    assert_eq!((ipfix_records(&ipfix(256)), ipfix_records(&ipfix(2))), (Some(42), Some(41)));
}
