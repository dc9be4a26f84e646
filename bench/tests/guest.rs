//! The measuring program with a real guest, at a tiny scale. As for all tests with
//! guests, a missing QEMU or kernel is a failure, on purpose; programs of the workspace
//! that are not built (`cargo build`) are passed over.

use std::path::Path;
use std::process::Command;
use vfun_bench::report::{Domain, DomainsReport, Kind, LatencyReport};

fn built() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_vfun-bench"));
    let needed = [
        "vfund",
        "vfun-service",
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
    for &domain in Domain::ALL {
        assert_eq!(report.rows.iter().filter(|r| r.domain == domain).count(), 10, "{domain}");
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
