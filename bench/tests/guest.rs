//! The measuring program with a real guest, at a tiny scale. As for all tests with
//! guests, a missing QEMU or kernel is a failure, on purpose; programs of the workspace
//! that are not built (`cargo build`) are passed over.

use std::path::Path;
use std::process::Command;
use vfun_bench::report::{Domain, DomainRow, DomainsReport, Kind, LatencyReport, Mode};
use vfun_bench::report::{ModuleFigure, ModuleReport, Waiting, WaitingReport};

fn built() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_vfun-bench"));
    let needed = [
        "vfund",
        "vfun-service",
        "vfun-jail",
        "vfun-keeper",
        "vfun-gateway",
        "libvfun_fn_null.so",
        "libvfun_fn_sum.so",
        "libvfun_fn_sum_f64.so",
        "libvfun_fn_echo.so",
        "libvfun_fn_factorial.so",
        "libvfun_fn_fibonacci.so",
    ];
    let built = needed.iter().all(|name| program.with_file_name(name).is_file());
    if !built {
        eprintln!(
            "not tested, because not all of these are built (cargo build): {}",
            needed.join(", ")
        );
    }
    built
}

fn run(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_vfun-bench")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    output.stdout
}

#[test]
fn a_guest_measures_over_its_window_and_its_network() {
    if !built() {
        return;
    }
    let report = run(&[
        "domains",
        "--scale",
        "1e-5",
        "--repeats",
        "1",
        "--json",
        "-",
        "--domain",
        "in-process,host-host,guest-host,guest-net",
    ]);
    let report: DomainsReport = serde_json::from_slice(&report).unwrap();
    for domain in [Domain::InProcess, Domain::HostHost, Domain::GuestHost, Domain::GuestNet] {
        assert_eq!(report.rows.iter().filter(|r| r.domain == domain).count(), 10, "{domain}");
    }
    let guest = |r: &&DomainRow| matches!(r.domain, Domain::GuestHost | Domain::GuestNet);
    for row in report.rows.iter().filter(guest) {
        assert!(
            row.to_host_host().is_some_and(|c| c.pairs >= 1),
            "in turns with the host: {row:?}"
        );
    }
    assert!(report.machine.accel.is_some() && report.machine.qemu_version.is_some());

    let report = run(&["latency", "--repeats", "1", "--json", "-", "--domain", "guest-host"]);
    let report: LatencyReport = serde_json::from_slice(&report).unwrap();
    for kind in [
        Kind::Floor,
        Kind::NullCall,
        Kind::FloorInFlight,
        Kind::Pipelined,
        Kind::Bandwidth,
        Kind::Memcpy,
    ] {
        assert!(
            report.rows.iter().any(|r| r.kind == kind && r.domain == Domain::GuestHost),
            "no {kind}"
        );
    }
}

/// The kernel module is built, like the guests' kernel.
fn module_built() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging/kmod.sh");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_guest_waits_in_each_mode_beside_a_bare_doorbell() {
    if !built() {
        return;
    }
    module_built();
    let line = ["waiting", "--domain", "guest-host", "--guest", "module", "--repeats", "1"];
    let line = [&line[..], &["--load", "60", "--idle", "1", "--json", "-"]].concat();
    let report: WaitingReport = serde_json::from_slice(&run(&line)).unwrap();
    let missed = report.settings.more.get("not_measured");
    let has = |kind, mode| {
        let row = report.find(Domain::GuestHost, kind, mode);
        assert!(row.is_some_and(|r| r.repeats >= 1), "no {kind:?}, {mode:?}: {missed:?}");
    };
    for &mode in Mode::ALL {
        has(Waiting::NullCall, Some(mode));
        has(Waiting::Crowd, Some(mode));
    }
    has(Waiting::BareDoorbell, None);
    has(Waiting::IdleBefore, None);
    has(Waiting::Idle, None);
}

#[test]
fn the_module_is_measured_beside_the_raw_path() {
    if !built() {
        return;
    }
    module_built();
    let report: ModuleReport =
        serde_json::from_slice(&run(&["module", "--repeats", "1", "--json", "-"])).unwrap();
    assert_eq!(report.settings.more.get("not_measured"), None);
    assert!(report.find(ModuleFigure::NullCall, "raw").is_some());
    let call = report.find(ModuleFigure::NullCall, "module").unwrap();
    assert!(call.over_raw.is_some());
    let figure = |kind| report.find(kind, "module").and_then(|r| r.p50_ns).unwrap();
    assert!(figure(ModuleFigure::Load) < figure(ModuleFigure::LoadToFirstCall));
    assert!(figure(ModuleFigure::AttachToFirstCall) > 0.0 && figure(ModuleFigure::Ring) > 0.0);
}
