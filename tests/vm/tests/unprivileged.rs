//! Programs of ordinary users in a guest, through the kernel module: what they
//! can do, what they cannot, and what becomes of them and of the host's account
//! when something ends in the middle.

use std::time::Duration;
use vfun_testguest::{Doorbell, Guest, RunOutput};
use vfun_tests_local::Stand;
use vfun_tests_vm::module::{doorbell_client, healthy};
use vfun_tests_vm::users::{GIVE, as_user, load, user_config};
use vfun_tests_vm::{LONG, boot};

struct Place {
    stand: Stand,
    guest: Guest,
    window: Doorbell,
}

impl Place {
    fn new(name: &str) -> Place {
        let stand = Stand::start();
        let window = doorbell_client(&stand, "vm1", "");
        let place = Place { guest: boot(&user_config(name)), stand, window };
        place.plug();
        place.root(&load());
        place
    }

    /// Plugs the window in and waits until the guest has seen it.
    fn plug(&self) {
        self.guest.plug_doorbell(0, "window", &self.window).unwrap_or_else(|e| self.fail(&e));
        self.root("until grep -q 0x1110 /sys/bus/pci/devices/*/device; do usleep 5000; done");
    }

    fn root(&self, script: &str) -> String {
        self.guest.run_ok(script, LONG).unwrap_or_else(|e| self.fail(&e))
    }

    fn user(&self, script: &str) -> String {
        self.root(&as_user("app", script))
    }

    fn run(&self, script: &str) -> RunOutput {
        self.guest.run(script, LONG).unwrap_or_else(|e| self.fail(&e))
    }

    fn fail(&self, e: &dyn std::fmt::Display) -> ! {
        panic!("{e}\n--- console\n{}\n--- vfund\n{}", self.guest.console(), self.stand.log())
    }

    /// Whatever was held is given back, and the kernel has nothing to complain of.
    fn clean(&self) {
        self.stand.until("everything given back", |s| {
            let (_, sessions, grants, _) = s.totals();
            (sessions, grants) == (0, 0)
        });
        healthy(&self.guest);
    }
}

#[test]
fn an_ordinary_user_calls_functions_and_reaches_nothing_else() {
    let p = Place::new("user");
    assert_eq!(p.user("vfun call echo 'hello host'"), "hello host");
    assert_eq!(p.user("vfun call factorial 20"), "2432902008176640000");
    assert_eq!(
        p.user("head -c 1000000 /dev/zero | tr '\\0' '\\1' > /tmp/ones; vfun call sum --type u8 /tmp/ones"),
        "1000000"
    );
    let path = p.user("vfun call null '' 2>&1");
    assert!(path.contains("module (/dev/vfun0)") && path.contains("woken by a doorbell"), "{path}");
    let doctor = p.run(&as_user("app", "vfun doctor"));
    assert_eq!(doctor.status, 0, "{}", doctor.text());
    assert!(doctor.text().contains("mode 660, group vfun"), "{}", doctor.text());

    // Waiting by a descriptor: an eventfd that the module rings.
    let told = p.user("vfun-vm-app any 5 2>/dev/null");
    assert!(told.ends_with(" of 5") && told != "told 0 of 5", "{told}");

    // Not the device behind the module's back, not even as root.
    for user in ["app", "root"] {
        let out = p.run(&as_user(user, "vfun --endpoint ivshmem call echo x 2>&1"));
        let said = out.text();
        assert!(out.status == 5 && said.contains("held by the driver 'vfun'"), "{user}: {said}");
    }
    // A user who is not in the group is told so.
    for endpoint in ["auto", "module"] {
        let script = format!("vfun --endpoint {endpoint} call echo x 2>&1");
        let out = p.run(&as_user("stranger", &script));
        let said = out.text();
        assert!(out.status == 5 && said.contains("group vfun"), "{}: {said}", out.status);
    }

    // While others have channels, of the window there is only its header.
    p.guest
        .run_ok(&format!("{} & sleep 3", as_user("other", "vfun-vm-app loop echo 0102 8")), LONG)
        .unwrap();
    assert!(!p.stand.grants().is_empty());
    let said = p.user("vfun-vm-app reach 2>/dev/null");
    assert_eq!(said, "read [0] write []\nwhole false false beyond false false");
    p.clean();
}

#[test]
fn two_users_at_once_do_not_meet() {
    let p = Place::new("two");
    std::thread::scope(|scope| {
        for (user, hex) in [("app", "0102030405"), ("other", "060708"), ("app", "ff")] {
            let p = &p;
            scope.spawn(move || {
                let script = format!("vfun-vm-app loop echo {hex} 4");
                let said = p.root(&as_user(user, &script));
                assert!(said.contains("made ") && !said.contains("made 0 "), "{user}: {said}");
            });
        }
    });
    p.clean();
}

#[test]
fn a_program_that_is_killed_leaves_nothing_behind() {
    let p = Place::new("killed");
    // At every step, from the first system call to the middle of calls.
    for pause in [0, 5, 10, 20, 40, 80, 160, 320, 640, 1000] {
        let app = as_user("app", "exec vfun-vm-app loop misbehave 0605000000 60 >/dev/null 2>&1");
        // `su` becomes the program, whose process this is from the first step on.
        p.root(&format!("{app} & usleep {}; kill -9 $!; wait $!; true", pause * 1000));
    }
    p.clean();
    assert_eq!(p.user("vfun call echo next"), "next");
}

#[test]
fn signals_disturb_no_wait() {
    let p = Place::new("signals");
    // Calls that are waited for asleep: 30 ms each.
    let said = p.user("vfun-vm-app storm misbehave 061e000000 5");
    let words: Vec<&str> = said.split_whitespace().collect();
    let count = |word: &str| -> u64 {
        let at = words.iter().position(|w| *w == word).expect(word);
        words[at + 1].parse().unwrap()
    };
    assert!(count("made") > 10 && count("signals") > 100, "{said}");
    assert_eq!(count("failed"), 0);
    p.clean();
}

#[test]
fn services_may_crash_and_the_manager_may_die_during_calls() {
    let mut p = Place::new("restart");
    std::thread::scope(|scope| {
        let guest = &p.guest;
        let crashes = scope.spawn(move || {
            let each = "vfun-vm-app loop misbehave 01 1";
            guest.run(&as_user("app", each), LONG).unwrap()
        });
        let calls = scope.spawn(move || {
            guest.run(&as_user("other", "vfun-vm-app loop echo 010203 8"), LONG).unwrap()
        });
        let until = std::time::Instant::now() + LONG;
        while !p.stand.grants().iter().any(|g| g.function == "echo" && g.counters.calls > 20) {
            assert!(std::time::Instant::now() < until, "no calls: {}", p.stand.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let out = crashes.join().unwrap();
        // Its service crashed until the manager gave up; nobody else noticed.
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(said.contains("failed") || said.contains("error Broken"), "{said}");
        p.stand.kill_vfund();
        std::thread::sleep(Duration::from_millis(500));
        p.stand.start_vfund();
        let out = calls.join().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status, 0, "{said}\n{}", String::from_utf8_lossy(&out.stderr));
        assert!(said.contains("failed 0"), "{said}");
    });
    assert_eq!(p.user("vfun call echo again"), "again");
    p.clean();
}

#[test]
fn a_reset_of_the_machine_during_calls_gives_everything_back() {
    let p = Place::new("reset");
    p.root(&format!("{} & sleep 2", as_user("app", "vfun-vm-app loop echo 01 60 >/dev/null 2>&1")));
    assert!(!p.stand.grants().is_empty());
    p.guest.reset().unwrap();
    p.root(&load());
    // Its heartbeat would take half a minute to be missed; the module says so at once.
    p.clean();
    assert_eq!(p.user("vfun call echo back"), "back");
    p.clean();
}

/// Unplugs the window while calls are waited for; what the program says.
fn unplugged(p: &Place, script: &str) -> String {
    std::thread::scope(|scope| {
        let call = scope.spawn(|| p.run(script));
        p.stand.until("the calls", |s| s.grants().iter().any(|g| g.counters.calls > 5));
        p.guest.unplug_doorbell("window", LONG).unwrap();
        let out = call.join().unwrap();
        assert_eq!(out.status, 7, "{}{}", out.text(), String::from_utf8_lossy(&out.stderr));
        out.text()
    })
}

#[test]
fn an_unplugged_window_is_named_and_may_come_back() {
    let p = Place::new("unplug");
    // 30 ms a call, so that the program mostly sleeps.
    let script = as_user("app", "vfun-vm-app loop misbehave 061e000000 60");
    let said = unplugged(&p, &script);
    assert!(said.contains("error DeviceGone"), "{said}");
    let out = p.run(&as_user("app", "vfun --endpoint module call echo x 2>&1"));
    assert_eq!(out.status, 5, "{}", out.text());
    // The window comes back, as another one.
    p.plug();
    p.root(GIVE);
    assert_eq!(p.user("vfun call echo back"), "back");
}
