//! An attacker's guest beside a neighbour's: both real, both emulated. The one
//! maps its device as root and writes whatever it likes; the other works.

use std::time::Duration;
use vfun_testguest::GuestConfig;
use vfun_tests_hostile::steps::STEPS;
use vfun_tests_hostile::watch::{processes, totals};
use vfun_tests_local::built::long;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::doorbell_client;
use vfun_tests_vm::{LONG, boot, client, config};

/// How long each attack lasts, s.
fn seconds() -> u64 {
    long(2, 4)
}
const SEED: u64 = 0x5eed;

fn with(mut config: GuestConfig, program: &str) -> GuestConfig {
    config.files.push((programs().join(program), format!("/usr/bin/{program}")));
    config
}

fn attacked(stand: &Stand, attacker: GuestConfig, attacks: &[&str]) {
    let mut victim = with(config("victim", vec![]), "vfun-vm-app");
    victim.doorbells = vec![doorbell_client(stand, "victim", "")];
    let (victim, attacker) = std::thread::scope(|scope| {
        let victim = scope.spawn(|| boot(&victim));
        (victim.join().unwrap(), boot(&with(attacker, "vfun-hostile")))
    });
    let before = processes(stand.root());
    let time = attacks.len() as u64 * (seconds() + 1) + 4;
    std::thread::scope(|scope| {
        let script = format!("vfun-vm-app loop echo 0102030405060708 {time}");
        let victim = &victim;
        let works = scope.spawn(move || victim.run(&script, LONG).unwrap());
        stand.until("the neighbour's calls", |s| {
            s.grants().iter().any(|g| g.client == "victim" && g.counters.calls > 0)
        });
        let row = |s: &Stand| s.grants().into_iter().find(|g| g.client == "victim");
        let served = row(stand).expect("it has a grant");
        for attack in attacks {
            let script = format!(
                "vfun-hostile --attack {attack} --seed {SEED} --seconds {} --pci",
                seconds()
            );
            let out = attacker.run(&script, LONG).unwrap();
            let said = out.text();
            assert_eq!(out.status, 0, "{said} {}", String::from_utf8_lossy(&out.stderr));
            println!("{}", said.lines().last().unwrap_or_default());
            assert!(!said.contains("deeds 0 "), "{said}");
            // The host is as it was but for the attacker's own.
            let now = processes(stand.root());
            for (name, was) in &before {
                let is = now.get(name).map(|p| (p.pid, p.started));
                assert_eq!(is, Some((was.pid, was.started)), "{attack} seed {SEED}: {name}");
            }
            let is = row(stand).unwrap_or_else(|| panic!("{attack}: the neighbour lost its grant"));
            assert_eq!(
                (is.pid, is.restarts, &is.grant),
                (served.pid, 0, &served.grant),
                "{attack} seed {SEED}"
            );
            assert!(totals(stand.root()).is_ok());
        }
        let out = works.join().unwrap();
        let said = format!("{} {}", out.text(), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status, 0, "the neighbour: {said}");
        assert!(said.contains("failed 0"), "the neighbour: {said}");
    });
    attacker.kill();
    victim.shutdown(Duration::from_secs(30)).unwrap();
}

/// All is given back once both guests are gone; a plain window's sessions are
/// known to be dead by their heartbeats only.
fn nothing_left(stand: &Stand) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while stand.totals().1 + stand.totals().2 + stand.totals().3 > 0 {
        assert!(
            std::time::Instant::now() < until,
            "left: {:?} {:#?}",
            stand.totals(),
            stand.grants()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_attackers_guest_with_doorbells_hurts_only_itself() {
    let stand = Stand::start();
    let mut attacker = config("attacker", vec![]);
    attacker.doorbells = vec![doorbell_client(&stand, "attacker", "")];
    attacked(&stand, attacker, &["fields", "race-calls", "race-control", "bells", "crash"]);
    nothing_left(&stand);
}

#[test]
fn an_attackers_guest_without_doorbells_hurts_only_itself() {
    let stand = Stand::start();
    let attacker = config("attacker", vec![client(&stand, "attacker", "")]);
    attacked(&stand, attacker, &["random", "fields", "race-calls", "full-cells"]);
    nothing_left(&stand);
}

/// The machine itself is ended at each step of a session in it, as by a loss of power.
#[test]
fn a_guest_may_die_at_each_step() {
    let stand = Stand::start();
    let windows = ["one", "two"].map(|name| doorbell_client(&stand, name, ""));
    std::thread::scope(|scope| {
        for (i, window) in windows.into_iter().enumerate() {
            let stand = &stand;
            scope.spawn(move || {
                // Each boots a guest.
                let steps = STEPS.into_iter().skip(i).step_by(2);
                for step in steps.take(long(2, STEPS.len())) {
                    let mut config = with(config(&format!("mortal-{i}"), vec![]), "vfun-hostile");
                    config.doorbells = vec![window.clone()];
                    let guest = boot(&config);
                    let script = format!(
                        "vfun-hostile --pci --step '{}' --stay /tmp/there >/tmp/said 2>&1 & \
                         until [ -e /tmp/there ]; do kill -0 $! || {{ cat /tmp/said; exit 1; }}; usleep 5000; done",
                        step.name()
                    );
                    guest.run_ok(&script, LONG).unwrap_or_else(|e| panic!("{step:?}: {e}"));
                    guest.kill();
                    let client = ["one", "two"][i];
                    stand.until(&format!("{step:?}: all given back"), |s| {
                        s.grants().iter().all(|g| g.client != client)
                    });
                    println!("Guest | {} | given back", step.name());
                }
            });
        }
    });
    nothing_left(&stand);
    assert_eq!(stand.connect("next").function("echo").unwrap().call(b"x").unwrap(), b"x");
}
