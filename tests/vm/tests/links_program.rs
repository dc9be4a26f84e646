//! The memory of direct links that the guest's kernel module lends to programs: the sides of the link
//! that the host names for the program's port, and nothing else.

use std::time::Duration;
use vfun_packet::LinkPlace;
use vfun_testguest::Guest;
use vfun_tests_vm::fakehost::FakeHost;
use vfun_tests_vm::linkedworld::{MAC_A, WINDOW, World};
use vfun_tests_vm::module::{healthy, load, module_config, ok, until};
use vfun_tests_vm::{LONG, boot};
use vfun_wire::header::Role;

/// The word of its side that the program writes: proglink.c.
const SCRATCH: usize = 60;
/// Between two looks at what it says.
const LOOK: Duration = Duration::from_millis(50);
/// Of `TAKE`.
const NO_WINDOW: u32 = 6;
const NONSENSE: u32 = 71;

/// The program in the guest, and how many of its lines were looked at.
struct Program<'a> {
    guest: &'a Guest,
    looked: usize,
}

impl Program<'_> {
    /// Waits until it says this, after what it said before.
    fn says(&mut self, words: &str) {
        let mut said = String::new();
        for _ in 0..1200 {
            said = ok(self.guest, "cat /tmp/proglink.out");
            if let Some(at) = said.lines().skip(self.looked).position(|line| line == words) {
                self.looked += at + 1;
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("it does not say '{words}' after line {}: {said}", self.looked);
    }
}

/// A word of the header page of the side that begins there.
fn word(window: &FakeHost, side: u64, n: usize) -> u64 {
    window.part(side as usize + 8 * n, 8).reader().load(0, std::sync::atomic::Ordering::Acquire)
}

/// A guest with a program that has its port, and the link's window.
struct Scene {
    host: FakeHost,
    window: FakeHost,
    guest: Guest,
}

impl Scene {
    fn start() -> Self {
        let (host, window) = (FakeHost::start(), FakeHost::further(Role::Link, [0x11, 0x22]));
        host.names_port(0, 7, "sw0", MAC_A, 1400);
        host.names(0, WINDOW, &window);
        let mut config = module_config("links-program", vec![host.doorbell()]);
        config.hotplug_ports = 2;
        let guest = boot(&config);
        load(&guest);
        let scene = Scene { host, window, guest };
        scene.plug();
        ok(
            &scene.guest,
            "mkfifo /tmp/end; (sleep 100000 >/tmp/end & proglink </tmp/end >/tmp/proglink.out 2>&1) </dev/null >/dev/null 2>&1 &",
        );
        scene
    }

    fn plug(&self) {
        self.guest.plug_doorbell(0, "link", &self.window.doorbell()).unwrap();
        until("the window", || self.host.here() == [0x11]);
    }

    fn unplug(&self) {
        self.guest.unplug_doorbell("link", LONG).unwrap();
    }

    /// What the program wrote in the first side, and in the second one.
    fn wrote(&self) -> [u64; 2] {
        let (first, second) = World::place().sides();
        [first, second].map(|side| word(&self.window, side, SCRATCH))
    }

    /// The program ends, and all was as it should be.
    fn ends(&self) {
        ok(
            &self.guest,
            "killall sleep; for i in $(seq 500); do grep -q ^proglink: /tmp/proglink.out && exit 0; usleep 20000; done; exit 1",
        );
        let said = ok(&self.guest, "cat /tmp/proglink.out");
        let checks = said.lines().last().unwrap();
        assert!(checks.starts_with("proglink: ") && checks.ends_with(" checks"), "{said}");
    }
}

#[test]
fn a_program_gets_the_sides_of_its_link_and_nothing_else() {
    let scene = Scene::start();
    let mut program = Program { guest: &scene.guest, looked: 0 };
    program.says("has");
    let world = World::new(&scene.host, &scene.window);
    let place = World::place();

    // Its own side can be written, and nobody else's. What it writes behind the end reaches nobody.
    world.tells(9, place.word());
    program.says("9 out 0");
    assert_eq!(scene.wrote(), [9, 0]);
    world.tells(0, 0);
    program.says("none");
    assert_eq!(scene.wrote(), [9, 0]);
    world.tells(10, LinkPlace { is_second: true, ..place }.word());
    program.says("10 out 0");
    assert_eq!(scene.wrote(), [9, 10]);
    world.tells(0, 0);
    program.says("none");

    for (number, place, errno) in [
        (11, LinkPlace { window: WINDOW + 1, ..place }.word(), NO_WINDOW),
        (12, LinkPlace { window: 1 << 12, ..place }.word(), NO_WINDOW),
        // Beyond the window's end, too short for the port's frames, and no places.
        (13, LinkPlace { ring: 64 << 20, ..place }.word(), NONSENSE),
        (14, LinkPlace { ring: 4096, ..place }.word(), NONSENSE),
        (15, place.word() | 2, NONSENSE),
        (16, place.word() & !(0xff << 40), NONSENSE),
    ] {
        world.tells(number, place);
        program.says(&format!("{number} out {errno}"));
        world.tells(0, 0);
    }

    // The window goes, and the program lets go of it; one that is stopped holds nobody up.
    world.tells(17, place.word());
    program.says("17 out 0");
    for stops in [false, true] {
        let signal = |name| ok(&scene.guest, &format!("killall -{name} proglink"));
        stops.then(|| signal("STOP"));
        scene.unplug();
        stops.then(|| signal("CONT"));
        program.says("none");
        assert_eq!(scene.wrote(), [17, 10]);
        scene.plug();
        program.says("17 out 0");
    }

    // The port ends while the program has a link. The kernel's interface has the window then.
    scene.ends();
    ok(&scene.guest, "ip link set sw0 up");
    until("another channel", || scene.host.ports_up() == 1);
    healthy(&scene.guest);
}
