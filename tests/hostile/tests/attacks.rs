//! Each attack, on a real host, beside a neighbour who works. What the attacker
//! can do ends at its own window.

use std::process::{Command, Stdio};
use std::time::Duration;
use vfun_admin::{Ask, Reply};
use vfun_tests_hostile::app::App;
use vfun_tests_hostile::attack::{ATTACKS, Attack, ON_FILES};
use vfun_tests_hostile::watch::Before;
use vfun_tests_hostile::window::{Place, Window};
use vfun_tests_hostile::witness::{Witness, manifest};
use vfun_tests_local::Stand;
use vfun_tests_local::built::long;

/// How long each attack lasts.
fn time() -> Duration {
    long(Duration::from_millis(600), Duration::from_secs(2))
}
/// The seed of a run of the tests, unless `VFUN_SEED` names another.
const SEED: u64 = 0x5eed;

fn seed() -> u64 {
    std::env::var("VFUN_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(SEED)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A host with a gateway, a VM's socket, a neighbour's client and an attacker's.
struct Host {
    stand: Stand,
    tcp: String,
}

impl Host {
    fn start() -> Self {
        let tcp = format!("127.0.0.1:{}", free_port());
        let stand = Stand::with(&["--tcp", &tcp]);
        stand.add_client(&manifest("neighbour")).unwrap();
        stand.add_client(&manifest("attacker")).unwrap();
        stand.add_client("name = \"vm\"\nwindow = \"1 MiB\"\n").unwrap();
        Host { stand, tcp }
    }

    fn neighbour(&self) -> Witness {
        let witness = Witness::start(self.stand.options("neighbour").client("neighbour"));
        self.stand.until("the neighbour's first calls", |_| {
            assert_eq!(witness.wrong(), None);
            witness.requests() > 0
        });
        witness
    }

    /// One attack by a process of its own; it must have done something.
    fn attack(&self, attack: &Attack, seed: u64) -> String {
        let out = Command::new(env!("CARGO_BIN_EXE_vfun-hostile"))
            .args(["--attack", attack.name, "--seed", &seed.to_string()])
            .args(["--seconds", &time().as_secs_f64().to_string()])
            .args(["--client", "attacker", "--tcp", &self.tcp])
            .arg("--socket")
            .arg(self.stand.root().join("host.sock"))
            .arg("--vm-socket")
            .arg(self.stand.root().join("ivshmem/vm.sock"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            out.status.success(),
            "{} seed {seed}: the attacker itself fell: {said}{}",
            attack.name,
            String::from_utf8_lossy(&out.stderr)
        );
        said
    }
}

/// The number after a word of the attacker's report.
fn count(said: &str, what: &str) -> u64 {
    let mut words = said.split_whitespace().skip_while(|w| *w != what).skip(1);
    words.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {what} in: {said}"))
}

#[test]
fn each_attack_ends_at_the_attackers_own_window() {
    let host = Host::start();
    let witness = host.neighbour();
    let mut failed = vec![];
    for attack in ATTACKS.iter().filter(|a| a.name != ON_FILES) {
        let seed = seed();
        let before = Before::look(host.stand.root(), "neighbour").unwrap();
        let calls = witness.calls();
        let said = host.attack(attack, seed);
        println!("{}", said.lines().last().unwrap_or_default());
        assert!(count(&said, "deeds") > 0, "{said}");
        let mut wrong = vec![];
        wrong.extend(before.compare().err());
        wrong.extend(witness.wrong());
        if witness.calls() == calls {
            wrong.push("the neighbour made no call meanwhile".into());
        }
        for what in wrong {
            failed.push(format!("attack {} seed {seed}: {what}", attack.name));
        }
    }
    let calls = witness.end();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(calls.is_ok_and(|n| n > 0));
    let last = host.stand.connect("after");
    assert_eq!(last.function("echo").unwrap().call(b"still").unwrap(), b"still");
}

#[test]
fn an_attacker_that_is_killed_in_the_middle_leaves_nothing() {
    let host = Host::start();
    let witness = host.neighbour();
    for (i, name) in ["race-calls", "control-flood", "drop", "giant"].iter().enumerate() {
        let before = Before::look(host.stand.root(), "neighbour").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_vfun-hostile"))
            .args(["--attack", name, "--seed", &i.to_string(), "--seconds", "60"])
            .args(["--client", "attacker", "--socket"])
            .arg(host.stand.root().join("host.sock"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        host.stand.until("the attacker's window", |s| {
            s.ask(&vfun_admin::Ask::Status);
            vfun_tests_hostile::watch::totals(s.root()).is_ok_and(|t| t.windows > 1)
        });
        std::thread::sleep(Duration::from_millis(150 + 50 * i as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        before.compare().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(witness.wrong(), None, "{name}");
    }
    witness.end().unwrap();
}

/// The plain window's client that cuts its own file.
const CUTTER: &str = "name = \"cutter\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";

/// Time enough for some windows to be laid out anew, which takes two seconds each.
fn cuts() -> &'static str {
    long("6", "12")
}

#[test]
fn who_truncates_its_window_ends_its_own_services_only() {
    let host = Host::start();
    host.stand.add_client(CUTTER).unwrap();
    let file = match host.stand.ask(&Ask::Clients) {
        Reply::Clients { clients } => clients
            .into_iter()
            .find(|c| c.name == "cutter")
            .and_then(|c| c.window_file)
            .expect("a plain window is a file"),
        other => panic!("{other:?}"),
    };
    let witness = host.neighbour();
    let before = Before::look(host.stand.root(), "neighbour").unwrap();
    let calls = witness.calls();
    let out = Command::new(env!("CARGO_BIN_EXE_vfun-hostile"))
        .args(["--attack", ON_FILES, "--seconds", cuts(), "--seed", &seed().to_string(), "--file"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(count(&said, "deeds") > 1, "it was served again after a cut: {said}");
    before.compare().unwrap_or_else(|e| panic!("seed {}: {e}", seed()));
    assert_eq!(witness.wrong(), None);
    assert!(witness.calls() > calls, "the neighbour made no call meanwhile");
    let log = host.stand.log();
    assert!(log.contains("window truncated"), "no cut was noticed: {log}");
    // What is left is a window like any other.
    host.stand.until("the window laid out anew", |_| {
        let Ok(w) = Window::attach(&Place::File(file.clone())) else { return false };
        let Some(Ok(app)) = App::hello(&w, 0, "after") else { return false };
        matches!(app.function(&w, "echo", 1, 64), Some(Ok(_)))
    });
    witness.end().unwrap();
}
