//! Direct links in the guest's kernel module: frames of its interface go by the switch, over
//! the link, and back, and none is lost, repeated or out of order. This process is all that is
//! around the guest (linkedworld.rs).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfun_packet::LinkPlace;
use vfun_packet::layout::NO_MORE;
use vfun_packet::layout::header::{ACK, HAS_IN, HAS_OUT, KNOWS, OPEN};
use vfun_testguest::Guest;
use vfun_tests_vm::fakehost::{BYTES, FakeHost};
use vfun_tests_vm::linkedworld::{ECHO, MAC_A, WINDOW, World};
use vfun_tests_vm::module::{dmesg, healthy, load, module_config, ok, until};
use vfun_tests_vm::{LONG, boot};
use vfun_wire::header::Role;

/// An emulated guest on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Goes there and back under traffic.
const FLIPS: usize = 60;
/// Goes of a sender that has nothing to send.
const IDLE_FLIPS: usize = 10;

/// A guest with an interface, and the memory of a link.
struct LinkScene {
    host: FakeHost,
    window: FakeHost,
    guest: Guest,
}

impl LinkScene {
    fn start(name: &str) -> Self {
        let (host, window) = (FakeHost::start(), FakeHost::further(Role::Link, [0x11, 0x22]));
        host.names_port(0, 7, "sw0", MAC_A, 1400);
        host.names(0, WINDOW, &window);
        let mut config = module_config(name, vec![host.doorbell()]);
        config.hotplug_ports = 2;
        let guest = boot(&config);
        load(&guest);
        let stage = LinkScene { host, window, guest };
        stage.plug();
        // What comes before it listens is lost.
        ok(
            &stage.guest,
            &format!(
                "sendback {ECHO} > /tmp/sendback.out 2>&1 & \
                 for i in $(seq 500); do grep -q ':{ECHO:04X} ' /proc/net/udp && exit 0; usleep 20000; done; exit 1"
            ),
        );
        stage.up();
        stage
    }

    fn plug(&self) {
        self.guest.plug_doorbell(0, "link", &self.window.doorbell()).unwrap();
        until("the window", || self.host.here() == [0x11]);
    }

    fn unplug(&self) {
        self.guest.unplug_doorbell("link", LONG).unwrap();
    }

    /// The interface, once the guest has it, with its carrier.
    fn up(&self) {
        ok(
            &self.guest,
            "for i in $(seq 500); do [ -e /sys/class/net/sw0 ] && break; usleep 20000; done; \
             ip link set sw0 up && ip addr add 10.9.0.2/24 dev sw0 2>/dev/null; \
             for i in $(seq 500); do [ \"$(cat /sys/class/net/sw0/carrier)\" = 1 ] && break; usleep 20000; done; \
             for i in $(seq 50); do ping -c 1 -W 1 10.9.0.1 > /dev/null && exit 0; done; exit 1",
        );
    }

    /// Waits until the interface has a carrier, or none.
    fn carries(&self, what: &str) {
        let carrier = || ok(&self.guest, "cat /sys/class/net/sw0/carrier 2>/dev/null || echo 0");
        until("the carrier", || carrier().trim() == what);
    }

    /// A count of ethtool's.
    fn stat(&self, what: &str) -> u64 {
        let all = ok(&self.guest, "portstats sw0");
        let line = all.lines().find_map(|l| l.strip_prefix(&format!("{what} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {what} in {all}")).parse().expect("a number")
    }

    /// How many lines of the kernel's log say this.
    fn lines(&self, what: &str) -> usize {
        ok(&self.guest, &format!("dmesg | grep -c '{what}'; true")).parse().expect("a number")
    }
}

/// The world goes on in a thread of its own as long as this is there.
struct Around<'a, 'w> {
    world: &'a Mutex<World<'w>>,
    over: &'a AtomicBool,
    guest: &'a Guest,
}

impl Drop for Around<'_, '_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl<'w> Around<'_, 'w> {
    fn world(&self) -> MutexGuard<'_, World<'w>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A word of the guest's page.
    fn said(&self, word: usize) -> u64 {
        self.world().said(word)
    }

    /// The links that the guest says that it has.
    fn has(&self) -> [u64; 2] {
        let world = self.world();
        [HAS_OUT, HAS_IN].map(|word| world.said(word))
    }

    /// Waits until something is so, and nothing is wrong.
    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut(&mut World<'w>) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(&mut self.world()) {
            if Instant::now() > end {
                let how = self.world().how();
                panic!("no {what}: {how}\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.right();
    }

    fn log(&self) -> String {
        let stats = self.guest.run("portstats sw0", LONG).map(|o| o.text()).unwrap_or_default();
        format!("{stats}\n{}", dmesg(self.guest))
    }

    #[track_caller]
    fn right(&self) {
        let wrong = self.world().wrong();
        assert!(wrong.is_none(), "{wrong:?}\n{}", self.log());
    }

    /// So many datagrams go and come back.
    #[track_caller]
    fn carries(&self, count: u64) {
        self.world().sends(count);
        self.until("all datagrams", |w| w.all_came());
    }

    /// More come than came so far.
    #[track_caller]
    fn goes_on(&self, more: u64) {
        let before = self.world().echoes();
        self.until("more datagrams", |w| w.echoes() >= before + more);
    }

    #[track_caller]
    fn goes(&self) {
        self.until("a way to go", World::go);
        self.until("both over the link", |w| w.is_direct());
    }

    #[track_caller]
    fn comes_back(&self) {
        self.world().back();
        self.until("both by the switch", |w| w.is_back());
    }

    /// New links, and frames go over them.
    #[track_caller]
    fn goes_by(&self, numbers: [u64; 2]) {
        self.world().links(numbers);
        self.goes();
        let before = self.world().claims();
        self.carries(100);
        let after = self.world().claims();
        assert!(after.0 >= before.0 + 100 && after.1 >= before.1 + 100, "{before:?} {after:?}");
    }

    /// The links are over, and what they had with them.
    #[track_caller]
    fn ends(&self) {
        self.world().end();
        self.until("the links' end", |w| w.is_over());
        let mut world = self.world();
        world.unlinks();
        world.forgets();
    }
}

/// Does something while the world goes on.
fn around(stage: &LinkScene, what: impl FnOnce(&Around<'_, '_>)) {
    let (world, over) =
        (Mutex::new(World::new(&stage.host, &stage.window)), AtomicBool::new(false));
    std::thread::scope(|s| {
        let around = Around { world: &world, over: &over, guest: &stage.guest };
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let some = world.lock().unwrap_or_else(PoisonError::into_inner).step();
                std::thread::sleep(Duration::from_micros(if some { 20 } else { 200 }));
            }
        });
        what(&around);
    });
}

#[test]
fn frames_flip_to_a_link_and_back_and_none_is_lost() {
    let stage = LinkScene::start("links");
    around(&stage, |a| {
        a.carries(300);
        assert_eq!(a.said(KNOWS), 1);
        assert_eq!((stage.stat("link_out"), stage.stat("link_in")), (0, 0));
        a.goes_by([11, 12]);
        assert_eq!(a.has(), [11, 12]);
        assert_eq!((stage.stat("link_out"), stage.stat("link_in")), (11, 12));
        assert_eq!((stage.stat("link_out_direct"), stage.stat("link_in_direct")), (1, 1));
        // The guest's kernel may send something of its own meanwhile.
        let agrees = |_| {
            let claims = a.world().claims();
            (stage.stat("link_sent"), stage.stat("link_taken")) == claims
        };
        assert!((0..50).any(agrees), "the module and the link's memory count apart");

        // By the switch nothing comes over the link.
        a.comes_back();
        let before = a.world().claims();
        a.carries(100);
        assert_eq!(a.world().claims(), before);
        assert_eq!((stage.stat("link_out_direct"), stage.stat("link_in_direct")), (0, 0));

        a.world().sends(u64::MAX / 2);
        for _ in 0..FLIPS {
            a.goes();
            a.goes_on(20);
            a.comes_back();
            a.goes_on(20);
        }
        a.world().rests();
        a.until("those under way", |w| w.all_came());
        // One that has nothing to send turns when it is rung.
        for _ in 0..IDLE_FLIPS {
            a.goes();
            a.comes_back();
        }
        a_full_port_turns(&stage, a);
        let bells = a.world().bells();
        println!("{bells} bells at B\n{}", ok(&stage.guest, "portstats sw0"));
        assert!(bells > 0 && stage.stat("link_rings") > 0, "B was never rung");
        assert!(stage.stat("link_rung") > 0, "A was never rung");
        for what in ["bad", "refused", "full", "link_bad", "link_refused", "link_full"] {
            assert_eq!(stage.stat(what), 0, "{what}");
        }
        // The link is taken away, and another one comes.
        a.world().unlinks();
        a.until("its end", |w| w.said(HAS_OUT) == 0 && w.said(HAS_IN) == 0);
        a.carries(50);
        a.goes_by([13, 14]);
        // Without a turn, while nothing comes: it sends by the switch, and reads the link no more.
        a.world().tells(0, 0);
        a.until("its end", |w| w.said(HAS_OUT) == 0 && w.said(HAS_IN) == 0);
        assert!(
            a.said(ACK) & 1 == 1 && a.said(OPEN) == NO_MORE,
            "{} {}",
            a.said(ACK),
            a.said(OPEN)
        );
        a.ends();
        a.carries(50);
    });
    healthy(&stage.guest);
}

/// A port whose ring is full turns all the same, and frames that waited go over the link.
fn a_full_port_turns(stage: &LinkScene, a: &Around<'_, '_>) {
    let sent = || stage.stat("sent") + stage.stat("link_sent");
    let (before, stops) = (sent(), stage.stat("queue_stops"));
    a.world().sticks(true);
    ok(&stage.guest, "flood 10.9.0.1 1300 100 > /dev/null 2>&1 & usleep 300000");
    until("a full ring", || stage.stat("queue_stops") > stops);
    a.until("a way to go", World::go);
    until("its turn", || stage.stat("link_out_direct") == 1);
    until("all datagrams", || sent() >= before + 100);
    assert!(!a.world().is_direct(), "B has read what the switch does not have yet");
    a.world().sticks(false);
    a.until("both over the link", |w| w.is_direct());
    a.comes_back();
}

#[test]
fn what_ends_a_link_harms_nothing_else() {
    let stage = LinkScene::start("links-end");
    let is_back = |turn: u64| turn > 1 && turn & 1 == 1;
    around(&stage, |a| {
        // The window goes while frames go over it.
        a.goes_by([11, 12]);
        a.world().sends(u64::MAX / 2);
        a.goes_on(50);
        stage.unplug();
        assert_eq!(a.has(), [0, 0]);
        assert!(is_back(a.said(ACK)), "{}", a.said(ACK));
        a.world().forgets();
        a.ends();
        a.carries(100);
        stage.plug();
        a.goes_by([13, 14]);

        // Its host makes it anew. The module sees that at a heartbeat.
        a.world().sends(u64::MAX / 2);
        a.goes_on(50);
        stage.window.lay_out_anew();
        until("the way back", || is_back(a.said(ACK)));
        a.world().forgets();
        a.ends();
        a.carries(100);
        a.goes_by([17, 18]);

        // The interface goes down, and comes back with other memory.
        a.world().sends(u64::MAX / 2);
        a.goes_on(50);
        ok(&stage.guest, "ip link set sw0 down");
        until("its release", || stage.host.ports_held() == 0);
        a.world().forgets();
        a.ends();
        a.world().lets_go();
        ok(&stage.guest, "ip link set sw0 up");
        until("another channel", || stage.host.ports_up() == 1);
        assert!(a.world().takes_up());
        stage.up();
        assert_eq!((a.said(KNOWS), a.has()), (1, [0, 0]));
        a.carries(100);
        a.goes_by([15, 16]);

        // All of a hibernation but the last step: see module.rs. The module loses nothing; what the program
        // sends before the carrier is back, the kernel drops, as with any interface.
        a.world().sends(u64::MAX / 2);
        a.goes_on(50);
        assert!(stage.guest.run("echo disk > /sys/power/state", LONG).unwrap().status != 0);
        assert_eq!(stage.lines("hibernation: Creating image"), 1);
        stage.carries("1");
        a.world().forgets();
        a.world().sends(u64::MAX / 2);
        a.goes_on(50);
        assert_eq!(a.has(), [15, 16]);
        a.comes_back();
        a.goes();
        a.goes_on(50);

        // The module goes.
        ok(&stage.guest, "rmmod vfun");
        healthy(&stage.guest);
    });
}

#[test]
fn a_place_that_cannot_be_and_a_peer_that_writes_anything_harm_nothing() {
    let stage = LinkScene::start("links-wrong");
    let data = FakeHost::further(Role::Data, [0x33, 0x44]);
    stage.host.names(1, WINDOW + 1, &data);
    stage.guest.plug_doorbell(1, "data", &data.doorbell()).unwrap();
    until("the other window", || stage.host.here() == [0x11, 0x33]);
    let right = World::place();
    let wrong = [
        ("makes no sense", right.word() | 2),
        ("there is no such link window", LinkPlace { window: WINDOW + 3, ..right }.word()),
        ("there is no such link window", LinkPlace { window: WINDOW + 1, ..right }.word()),
        ("beyond the end of its window", LinkPlace { ring: BYTES, ..right }.word()),
        ("its ring is too short", LinkPlace { ring: 1 << 15, ..right }.word()),
    ];
    around(&stage, |a| {
        for (n, (what, place)) in (21..).zip(wrong) {
            a.world().tells(n, place);
            // One line for each of the two ways, however often the module looks.
            let line = format!("direct link {n} .*{what}");
            until(what, || stage.lines(&line) == 2);
            for _ in 0..5 {
                a.world().tells(n, place);
                std::thread::sleep(Duration::from_millis(200));
            }
            assert_eq!(stage.lines(&format!("direct link {n} ")), 2, "{}", dmesg(&stage.guest));
            assert_eq!(a.has(), [0, 0], "{what}");
        }
        a.world().unlinks();
        a.carries(50);
        a.goes_by([41, 42]);
        assert_eq!(stage.lines("direct link 4"), 0);

        ok(&stage.guest, "flood 10.9.0.1 1300 > /dev/null 2>&1 & echo $! > /tmp/flood.pid");
        let mut random = 1;
        for _ in 0..500 {
            a.world().sends(50);
            a.world().scribbles(&mut random);
            a.world().forgets();
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("{}", ok(&stage.guest, "portstats sw0"));
        assert!(stage.stat("link_bad") > 100, "too little was wrong");
        ok(&stage.guest, "kill $(cat /tmp/flood.pid)");
        a.world().back();
        until("both by the switch", || a.world().is_back());
        a.world().unlinks();
        until("its end", || a.has() == [0, 0]);
        a.world().forgets();
        a.carries(100);
        assert_eq!(a.said(OPEN) & 1, 1);
    });
    healthy(&stage.guest);
    ok(&stage.guest, "rmmod vfun");
    healthy(&stage.guest);
}
