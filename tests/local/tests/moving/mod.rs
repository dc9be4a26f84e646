//! What tests of grants that move need: a (pretended) device, and who is on it.
#![allow(dead_code)] // each test uses some of it

use vfun::Function;
use vfun_admin::{Ask, LeaseRow, LeasesView, Reply};
use vfun_testdriver::Mode;
use vfun_tests_local::{Stand, repo};

const LONG: &str = "deadline_ms = 20000\n";

pub const PREEMPT: &[&str] =
    &["--leases", "fair", "--lease-interval-ms", "10", "--lease-hold-ms", "0"];

/// The test driver as its own hardware: what runs on a "VF" is another process.
pub fn offer(stand: &Stand, vfs: u32) {
    offer_with(stand, "libvfun_testdriver.so", vfs, "");
}

pub fn offer_with(stand: &Stand, library: &str, vfs: u32, more: &str) {
    let path = repo().join("services/testdriver/function.toml");
    // Nothing hangs here: a machine that stands still is not to look as if.
    let text = std::fs::read_to_string(path).unwrap().replace("deadline_ms = 2000\n", LONG)
        + &format!(
            "hardware = {{ location = \"fpga-simulated\", library = \"{library}\", instances = {vfs}, leased = true{more} }}\n"
        );
    assert!(text.contains(LONG), "the manifest has another deadline: {text}");
    stand.ask(&Ask::AddFunction { manifest: text, file: "test.toml".into() });
}

pub fn lease_by(stand: &Stand, policy: vfun_leases::Policy) {
    let ask = Ask::SetLeases { policy: Some(policy), interval_ms: None, min_hold_ms: None };
    assert!(matches!(stand.ask(&ask), Reply::Done { .. }));
}

pub fn on_vf(f: &Function) -> bool {
    words(&f.call(&order(1)).unwrap())[4] > 0
}

pub fn errors(stand: &Stand) -> u64 {
    stand.grants().iter().map(|g| g.counters.errors).sum()
}

pub fn leases(stand: &Stand) -> LeasesView {
    match stand.ask(&Ask::Leases) {
        Reply::Leases(view) => view,
        other => panic!("{other:?}"),
    }
}

pub fn switches(stand: &Stand) -> u64 {
    leases(stand).devices.iter().flat_map(|d| &d.grants).map(|g| g.switches).sum()
}

pub fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn order(call: u64) -> [u8; 16] {
    let mut args = [0; 16];
    args[0] = Mode::Order as u8;
    args[8..].copy_from_slice(&call.to_le_bytes());
    args
}

/// The only grant of an app, as leases see it.
pub fn lease(stand: &Stand, app: &str) -> LeaseRow {
    let rows = leases(stand).devices.into_iter().flat_map(|d| d.grants);
    rows.into_iter().find(|g| g.app == app).expect("it competes")
}
