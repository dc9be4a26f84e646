//! Guests with the kernel module and its test programs inside.

use crate::config;
use crate::runs::Runs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use vfun_admin::Reply;
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::{Stand, programs, repo};

/// Where the module lies in the guest.
pub const MODULE: &str = "/lib/vfun.ko";
/// The test programs in C, in the guest's `/usr/bin`.
const PROGRAMS: [&str; 10] = [
    "misuse",
    "fuzz",
    "hold",
    "ranges",
    "ringcost",
    "pages",
    "portstats",
    "flood",
    "sendback",
    "proglink",
];

/// Declares a VM's client and says where its device connects.
pub fn doorbell_client(stand: &Stand, name: &str, more: &str) -> Doorbell {
    let manifest = format!("name = \"{name}\"\nwindow = \"16 MiB\"\n{more}");
    match stand.add_client(&manifest) {
        Ok(Reply::ClientAdded(row)) => Doorbell::new(row.socket.expect("a VM has a socket")),
        other => panic!("{other:?}"),
    }
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// The module, built for the kernel that guests boot.
pub fn module() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| output(&mut Command::new(repo().join("packaging/kmod.sh"))).into())
}

/// A folder with the test programs.
fn test_programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = programs().join("kmod-tests");
        let sources = repo().join("guest/kmod/tests");
        output(Command::new("make").arg("-s").arg("-C").arg(sources).arg({
            let mut to = std::ffi::OsString::from("OUT=");
            to.push(&out);
            to
        }));
        out
    })
}

/// A guest's configuration with the module and the test programs along; nothing
/// is loaded.
pub fn module_config(name: &str, doorbells: Vec<Doorbell>) -> GuestConfig {
    let mut c = config(name, vec![]);
    c.doorbells = doorbells;
    c.cpus = 2;
    // QEMU 7.2 gets this instruction wrong, which kernels from 6.6 on use for
    // each allocation; they can do without.
    // A host that has no processor for it for 20 s is no fault of the guest's kernel.
    c.kernel_args = "clearcpuid=cx16 watchdog_thresh=60".into();
    c.files.push((module().into(), MODULE.into()));
    for program in PROGRAMS {
        c.files.push((test_programs().join(program), format!("/usr/bin/{program}")));
    }
    c
}

/// What the guest's kernel has complained of.
pub fn complaints(guest: &Guest) -> String {
    let bad = "BUG:|WARNING:|Oops|KASAN|general protection|UBSAN|refcount_t|possible circular|\
               stack guard|soft lockup|blocked for more than|use-after-free|Bad page|scheduling while atomic";
    guest
        .run(&format!("dmesg | grep -E -A25 '{bad}'"), crate::LONG)
        .map(|out| out.text())
        .unwrap_or_else(|e| e.to_string())
}

/// Fails if there is any complaint.
pub fn healthy(guest: &Guest) {
    let said = complaints(guest);
    assert!(said.is_empty(), "the guest's kernel complains:\n{said}");
}

/// Runs a script that must succeed.
pub fn ok(guest: &impl Runs, script: &str) -> String {
    guest.run_ok(script, crate::LONG).unwrap_or_else(|e| panic!("{e}\n{}", dmesg(guest)))
}

/// What the module and its device have said.
pub fn dmesg(guest: &impl Runs) -> String {
    let said = guest.run("dmesg | grep -E 'vfun|BUG|WARN|Oops' | tail -n 20", crate::LONG);
    said.map(|o| o.text()).unwrap_or_default()
}

/// Waits until something is so; fails if it does not come.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come to pass");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Loads the module; there is a node then.
pub fn load(guest: &impl Runs) {
    ok(guest, &format!("insmod {MODULE} && test -c /dev/vfun0"));
}

/// Starts `hold` under a name, in the background, and waits until its session
/// has answered a call.
pub fn hold(guest: &Guest, name: &str, node: &str) {
    let script = format!(
        "hold {node} null > /tmp/{name}.out 2>&1 & echo $! > /tmp/{name}.pid; \
         for i in $(seq 500); do grep -q -E 'ready|failed' /tmp/{name}.out && break; usleep 20000; done; \
         grep -q ready /tmp/{name}.out || {{ cat /tmp/{name}.out; exit 1; }}"
    );
    ok(guest, &script);
}

/// What it printed.
pub fn said_by(guest: &Guest, name: &str) -> String {
    ok(guest, &format!("cat /tmp/{name}.out"))
}

/// Whether the module says so of the node's window of this number.
pub fn sees(guest: &Guest, window: u16, what: &str) -> bool {
    ok(guest, &format!("ranges /dev/vfun0 window {window}")).contains(what)
}

/// Waits until the `hold` of this name has seen its channel's end, and checks
/// what it found: how its wait ended, the reason in its datain, and how further
/// calls ended.
pub fn expect_over(guest: &Guest, name: &str, wait: &str, reason: &str, calls: &str) {
    let script = format!(
        "for i in $(seq 500); do grep -q held /tmp/{name}.out && break; usleep 20000; done; \
         cat /tmp/{name}.out"
    );
    let said = ok(guest, &script);
    for line in [
        format!("wait {wait}"),
        format!("broken {reason}"),
        "dataout written".to_owned(),
        format!("ring {calls}"),
        format!("request {calls}"),
        "eventfd 1".to_owned(),
        "held".to_owned(),
    ] {
        assert!(said.lines().any(|l| l == line), "no '{line}' in:\n{said}\n{}", dmesg(guest));
    }
}
