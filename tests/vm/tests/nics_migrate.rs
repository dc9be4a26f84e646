//! A VM that holds a VF is migrated to another QEMU, which would be on another host: its VF
//! is given back first, and its connections survive.

use serde_json::{Value, json as object};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::LONG;
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::flow::Way;
use vfun_tests_vm::netns::{inside, ip};
use vfun_tests_vm::nics::{Vm, WINDOW, model, network, socket, until_holds};

/// Time between two packets to the VM.
const EVERY: Duration = Duration::from_millis(2);
/// The tap of the VM where it goes on.
const TAP: &str = "there0";

/// A QEMU that a VM goes on in. It ends with this.
struct There {
    qemu: Child,
    folder: tempfile::TempDir,
}

impl There {
    /// The same machine as the guest's, but with sockets and a tap of its own.
    fn start(guest: &Guest, qmp: &Path) -> There {
        let folder = tempfile::tempdir().unwrap();
        // A machine has its kernel's files also where it does not boot.
        let initramfs = guest.folder().join("initramfs");
        std::fs::copy(initramfs, folder.path().join("initramfs")).unwrap();
        let line = std::fs::read(format!("/proc/{}/cmdline", guest.pid())).unwrap();
        let (here, there) = (path(guest.folder()), path(folder.path()));
        let other_qmp = path(&folder.path().join("nics.qmp"));
        let word = |word: &[u8]| {
            let word = String::from_utf8(word.to_owned()).expect("UTF-8");
            let word = word.replace(&here, &there).replace(&path(qmp), &other_qmp);
            word.replace("ifname=pv0,", &format!("ifname={TAP},"))
        };
        let words: Vec<String> =
            line.split(|b| *b == 0).filter(|w| !w.is_empty()).map(word).collect();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let qemu = Command::new(&words[0])
            .args(&words[1..])
            .args(["-incoming", &format!("unix:{}", path(&folder.path().join("incoming")))])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        There { qemu, folder }
    }

    /// Where it takes a VM's state.
    fn uri(&self) -> String {
        format!("unix:{}", path(&self.folder.path().join("incoming")))
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until it listens.
    fn listens(&self) {
        let (incoming, end) = (self.folder.path().join("incoming"), Instant::now() + LONG);
        while !incoming.exists() {
            assert!(Instant::now() < end, "QEMU does not listen: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for There {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

fn path(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Migrates it; QEMU's last word of that.
fn migrate(guest: &Guest, there: &There) -> Value {
    guest.qmp("migrate", object!({ "uri": there.uri() })).unwrap();
    let end = Instant::now() + LONG;
    loop {
        let state = guest.qmp("query-migrate", Value::Null).unwrap();
        if matches!(state["status"].as_str(), Some("completed" | "failed" | "cancelled")) {
            return state;
        }
        assert!(Instant::now() < end, "{state}: {}", there.said());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Takes the VF away for a migration.
fn gives_its_vf_back(stand: &Stand, vm: &Vm) {
    let (rc, said) = vfun(stand, &["nics", "migrate", &vm.name, "--wait", "30"]);
    assert!(rc == 0 && said.contains("migrate it now"), "{rc}: {said}\n{}", stand.log());
    assert!(vm.row(stand)["vf"].is_null(), "it still has a VF");
    assert!(vm.active().contains("eth0"), "the bond is not on its paravirtual NIC");
}

fn explained(stand: &Stand, vm: &Vm) -> String {
    let (rc, said) = vfun(stand, &["nics", "explain", &vm.name]);
    assert_eq!(rc, 0, "{said}");
    said
}

#[test]
fn a_vm_with_a_vf_is_migrated_and_goes_on() {
    if !inside("nics_migrate::a_vm_with_a_vf_is_migrated_and_goes_on") {
        return;
    }
    network(1);
    ip(&format!("tuntap add {TAP} mode tap"));
    ip(&format!("link set {TAP} address fe:54:00:09:01:00 master br0 up"));
    let stand = Stand::with(&["--nics"]);
    let vm = Vm::start_to_migrate(&stand, 0, Way::Answered, EVERY);
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(&stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    vm.declare(&stand, 0);
    let measured = |us: &'static str| {
        let vm = &vm;
        move |s: &Stand| vm.row(s)[us].is_u64()
    };
    stand.until("its agent measured how long packets take", measured("paravirtual_us"));
    vm.pins(&stand, "pin");
    until_holds(&stand, &vm);
    stand.until("its agent measured that by the VF, too", measured("vf_us"));

    // A migration that does not take place: it gets its VF again.
    gives_its_vf_back(&stand, &vm);
    assert!(explained(&stand, &vm).contains("it is being migrated"));
    json(&stand, &["nics", "migrate", &vm.name, "--ended"]);
    until_holds(&stand, &vm);

    gives_its_vf_back(&stand, &vm);
    let qmp: PathBuf = socket(&stand, &vm.name);
    let there = There::start(&vm.guest, &qmp);
    there.listens();
    // QEMU's word, which docs/nics.md repeats.
    let refused = vm.guest.qmp("migrate", object!({ "uri": there.uri() })).unwrap_err();
    assert!(refused.to_string().contains("'peer mode' in device 'ivshmem'"), "{refused}");
    vm.guest.unplug_doorbell(WINDOW, LONG).unwrap();
    let begin = Instant::now();
    let state = migrate(&vm.guest, &there);
    assert_eq!(state["status"], "completed", "{state}\n{}", there.said());
    let Vm { guest, name, flow, .. } = vm;
    let count = flow.count(&guest, begin, Instant::now());
    eprintln!("moved to another QEMU: {count}");
    assert!(flow.arrives(&guest), "it does not go on: {}", there.said());

    // Its QEMU here ends, as management software has it: it may compete again.
    guest.kill();
    stand.until("the migration is over", |s| {
        let (_, said) = vfun(s, &["nics", "explain", &name]);
        !said.contains("it is being migrated")
    });
}
