//! `vfun-bench ports`, with a program in the place of testpmd that says what a test wants.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Says what each way brings: the device is its argument behind `--vdev`.
const TESTPMD: &str = r#"#!/bin/sh
for word in "$@"; do
    case $word in
        net_vfun0,path=*)
            at=${word#*path=}
            [ -e "${at%%,*}" ] && brings=30 ;;
        net_memif0,*) brings=20 ;;
        net_vhost0,*) echo 'VHOST: cannot bind'; exit 1 ;;
        --forward-mode=txonly) brings=0 ;;
    esac
done
echo 'Port 0: 26:09:88:64:8B:56'
for million in 0 90 1 $brings 2 7; do
    [ "$brings" = 0 ] && million=0
    echo "  Rx-pps:  ${million}000000   Rx-bps: 1"
done
exec sleep 600
"#;

fn bench(path: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vfun-bench")).args(args).env("PATH", path).output().unwrap()
}

fn report(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["rows"].as_array().unwrap().clone()
}

fn of<'a>(rows: &'a [Value], figure: &str, bytes: u32) -> &'a Value {
    let is = |row: &&Value| row["figure"] == figure && row["frame_bytes"] == bytes;
    rows.iter().find(is).unwrap_or_else(|| panic!("no {figure} of {bytes} bytes"))
}

#[test]
fn the_ring_is_measured_where_there_is_no_testpmd() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("ports.csv");
    let csv = csv.to_str().unwrap();
    let output = bench(folder.path(), &["ports", "--repeats", "1", "--json", "-", "--csv", csv]);
    let rows = report(&output);
    for bytes in [64, 1500] {
        assert!(of(&rows, "one-way", bytes)["p99_ns"].as_f64() > Some(0.0));
        let ring = of(&rows, "ring", bytes);
        // A slice in which an end had no processor brings nothing.
        for field in ["frames_per_s_high", "base_per_s_high"] {
            assert!(ring[field].as_f64() > Some(0.0), "{ring}");
        }
        assert_eq!((&ring["pairs"], &ring["left_out"]), (&6.into(), &Value::Null));
        for figure in ["driver-memif", "driver-vhost", "ring-memif", "ring-vhost"] {
            let why = of(&rows, figure, bytes)["left_out"].as_str().unwrap();
            assert!(why.contains("dpdk-testpmd is not installed"), "{why}");
        }
    }
    let look = rows.iter().find(|row| row["figure"] == "empty-look").unwrap();
    assert!(look["p50_ns"].as_f64() > Some(0.0) && look["spinning"] == 1, "{look}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), rows.len() + 1);
    let without =
        bench(Path::new("/bin"), &["ports", "--repeats", "1", "--rounds", "0", "--json", "-"]);
    assert_eq!(of(&report(&without), "driver-memif", 64)["left_out"], "--rounds 0");
}

#[test]
fn each_way_has_its_round_and_one_that_fails_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("dpdk-testpmd");
    fs::write(&program, TESTPMD).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    let driver = folder.path().join("librte_net_vfun.so");
    fs::write(&driver, "").unwrap();
    let driver = driver.to_str().unwrap();
    let path = std::env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")]);
    let args = ["ports", "--repeats", "1", "--rounds", "1", "--json", "-", "--dpdk-driver"];
    let output = bench(Path::new(&path.unwrap()), &[&args[..], &[driver]].concat());
    let rows = report(&output);
    for bytes in [64, 1500] {
        // The best of three seconds, but for the first and those in which nothing came.
        let row = of(&rows, "driver-memif", bytes);
        assert_eq!(
            (row["frames_per_s"].as_f64(), row["base_per_s"].as_f64()),
            (Some(30e6), Some(20e6))
        );
        // Other work on the machine may have disturbed it.
        let ratio = row["ratio"].as_f64();
        assert!(ratio == Some(1.5) || row["dropped"] == 1, "{row}");
        assert_eq!(row["pairs"], 1);
        let ring = of(&rows, "ring-memif", bytes);
        assert!(ring["frames_per_s"].as_f64() > Some(0.0), "{ring}");
        for figure in ["driver-vhost", "ring-vhost"] {
            let why = of(&rows, figure, bytes)["left_out"].as_str().unwrap();
            assert!(why.contains("VHOST: cannot bind"), "{why}");
        }
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("net_vhost is left out").count(), 1, "it is not tried again: {said}");
}

#[test]
fn a_driver_that_was_named_must_be_there() {
    let output = bench(Path::new("/bin"), &["ports", "--dpdk-driver", "/nonexistent.so"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--dpdk-driver /nonexistent.so"), "{said}");
}

/// Says what each way brings: the way is in the prefix of its files.
const LINKED: &str = r#"#!/bin/sh
for word in "$@"; do
    case $word in
        --file-prefix=direct-*) brings=30 ;;
        --file-prefix=switch-*) brings=10 ;;
    esac
done
echo 'Port 0: 26:09:88:64:8B:56'
for million in 0 1 $brings $brings $brings $brings $brings $brings; do
    echo "  Rx-pps:  ${million}000000   Rx-bps: 1"
done
exec sleep 600
"#;

/// Programs of a switch that note what they were told.
const SWITCH: &str = r#"#!/bin/sh
echo "${0##*/} $*" >>"${0%/*}/told"
case "$*" in
    *--remote=punix:*) socket=${*##*punix:}; : >"$socket"; exec sleep 600 ;;
    *--pidfile=*) exec sleep 600 ;;
esac
"#;

fn program(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_link_is_measured_beside_the_switch_one_way_and_both() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "dpdk-testpmd", LINKED);
    for name in ["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl"] {
        program(folder.path(), name, SWITCH);
    }
    let driver = folder.path().join("librte_net_vfun.so");
    fs::write(&driver, "").unwrap();
    let path = std::env::join_paths([folder.path(), Path::new("/usr/bin"), Path::new("/bin")]);
    let args = ["links", "--rounds", "1", "--json", "-", "--dpdk-driver", driver.to_str().unwrap()];
    let rows = report(&bench(Path::new(&path.unwrap()), &args));
    // With less than three processors both ends by the switch are one program, and one way is left out.
    let wide = std::thread::available_parallelism().unwrap().get() >= 3;
    for (figure, ends) in [("link-one-way", 1.0), ("link-both-ways", 2.0)] {
        for bytes in [64, 1500] {
            let row = of(&rows, figure, bytes);
            if !wide && ends == 1.0 {
                assert!(row["left_out"].as_str().unwrap().contains("3 processors"), "{row}");
                continue;
            }
            let rates = [&row["frames_per_s"], &row["base_per_s"]].map(|r| r.as_f64().unwrap());
            assert_eq!(rates, [30e6 * ends, 10e6 * ends], "{row}");
            assert!(row["ratio"].as_f64() == Some(3.0) || row["dropped"] == 1, "{row}");
            assert_eq!(row["spinning"], if wide { 3 } else { 2 });
        }
    }
    let turns = if wide { 4 } else { 2 };
    // Both ports are memory of this run's, and rules join them both ways.
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    for words in ["in_port=p0,actions=output:p1", "in_port=p1,actions=output:p0"] {
        assert_eq!(told.matches(words).count(), turns, "{told}");
    }
    assert_eq!(
        told.matches("options:dpdk-devargs=\"net_vfun1,path=/proc/").count(),
        turns,
        "{told}"
    );
}

#[test]
fn what_links_need_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |folder: &Path| {
        let output = bench(folder, &["links", "--rounds", "1"]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(folder.path()).contains("dpdk-testpmd"), "{}", said(folder.path()));
    program(folder.path(), "dpdk-testpmd", LINKED);
    assert!(said(folder.path()).contains("ovs-vswitchd"), "{}", said(folder.path()));
}
