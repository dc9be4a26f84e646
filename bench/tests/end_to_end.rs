//! The measuring program with a real manager, at a tiny scale. These tests need the
//! programs of the workspace beside it (`cargo build`) and pass over what is not built.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use vfun_bench::report::{
    Domain, DomainsReport, Experiment, Function, GrainReport, Kind, LatencyReport, LeasesReport,
    NicsExperiment, NicsReport, RemotingExperiment, RemotingReport, Source,
};

/// One at a time: each keeps both processors busy.
static ALONE: Mutex<()> = Mutex::new(());

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vfun-bench"))
}

/// Whether the programs are built; says so if not.
fn built() -> bool {
    let beside = |name: &str| program().with_file_name(name).is_file();
    let needed = [
        "vfund",
        "vfun-service",
        "vfun-jail",
        "vfun-keeper",
        "libvfun_fn_echo.so",
        "libvfun_fn_null.so",
        "libvfun_fn_sum.so",
        "libvfun_fn_sum_f64.so",
        "libvfun_fn_factorial.so",
        "libvfun_fn_fibonacci.so",
        "libvfun_fn_sha256.so",
        "libvfun_fn_model.so",
        "libvfun_fn_model_simulated.so",
    ];
    let missing: Vec<_> = needed.into_iter().filter(|n| !beside(n)).collect();
    if !missing.is_empty() {
        eprintln!("not tested, because these are not built (cargo build): {}", missing.join(", "));
    }
    missing.is_empty()
}

fn run(args: &[&str]) -> Output {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    Command::new(program()).args(args).output().unwrap()
}

fn good(args: &[&str]) -> Value {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"))
}

/// Every row has all these fields, even where they are null.
fn has_fields(report: &Value, fields: &[&str]) {
    for part in ["machine", "settings", "rows"] {
        assert!(report.get(part).is_some(), "no {part}");
    }
    let rows = report["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        for field in fields {
            assert!(row.get(field).is_some(), "no {field} in {row}");
        }
    }
}

#[test]
fn domains_have_the_published_shape() {
    if !built() {
        return;
    }
    let args = [
        "domains",
        "--scale",
        "1e-5",
        "--repeats",
        "2",
        "--domain",
        "in-process,host-host",
        "--json",
        "-",
    ];
    let report = good(&args);
    has_fields(
        &report,
        &[
            "function",
            "domain",
            "transport",
            "repetitions",
            "iterations",
            "seconds_mean",
            "seconds_sd",
            "ratio_to_host_host",
            "ratio_to_host_host_low",
            "ratio_to_host_host_high",
            "ratio_to_host_host_dropped",
            "published_seconds",
            "published_ratio_to_host_host",
        ],
    );
    let report: DomainsReport = serde_json::from_value(report).unwrap();
    assert_eq!(report.rows.len(), Function::ALL.len() * 5 * 2);
    assert!(
        report
            .rows
            .iter()
            .all(|r| r.seconds_mean > 0.0 && r.repeats == 2 && r.to_host_host().is_some())
    );
    // Of each pair both slices ran, however many were disturbed.
    for row in report.rows.iter().filter(|r| r.domain == Domain::HostHost) {
        let compared = row.to_in_process().unwrap();
        assert!(compared.pairs >= 2 && compared.dropped <= compared.pairs, "{row:?}");
    }
}

#[test]
fn latency_has_every_kind_beside_its_floor() {
    if !built() {
        return;
    }
    let report =
        good(&["latency", "--repeats", "1", "--domain", "in-process,host-host", "--json", "-"]);
    has_fields(
        &report,
        &[
            "domain",
            "transport",
            "kind",
            "p50_ns",
            "p99_ns",
            "p999_ns",
            "calls_per_s",
            "bytes",
            "bytes_per_s",
        ],
    );
    for kind in
        ["floor", "null_call", "unix", "tcp", "floor_in_flight", "pipelined", "bandwidth", "memcpy"]
    {
        assert!(report["rows"].as_array().unwrap().iter().any(|r| r["kind"] == kind), "no {kind}");
    }
    let report: LatencyReport = serde_json::from_value(report).unwrap();
    let unread = |r: &&vfun_bench::report::LatencyRow| r.function.as_deref() == Some("null");
    assert!(
        report.rows.iter().filter(unread).all(|r| r.p50_ns.is_some() && r.bytes_per_s.is_none())
    );
}

#[test]
fn a_bare_machine_calls_beside_the_host() {
    if !built() {
        return;
    }
    let args = ["latency", "--repeats", "1", "--domain", "kvm-bare", "--json", "-"];
    if let Err(why) = vfun_barevm::tried() {
        println!("not measured, because this host runs no bare machine: {why}");
        let output = run(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("kvm-bare"), "{said}");
        return;
    }
    let report = good(&args);
    let more = report["settings"]["kvm_bare"].as_str().unwrap();
    assert!(more.starts_with("user-mode code in a bare KVM virtual machine, without"), "{more}");
    let report: LatencyReport = serde_json::from_value(report).unwrap();
    let row = |domain, kind| {
        let row = report.rows.iter().find(|r| (r.domain, r.kind) == (domain, kind));
        row.unwrap_or_else(|| panic!("no {kind} of {domain}")).p50_ns.unwrap()
    };
    for domain in [Domain::KvmBare, Domain::HostHost] {
        assert!(row(domain, Kind::NullCall) > 0.0 && row(domain, Kind::Floor) > 0.0);
    }
    let refused = run(&["grain", "--domain", "kvm-bare"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("measure it with `latency`"), "{said}");
}

#[test]
fn grain_has_its_finest() {
    if !built() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("grain.csv");
    let args = [
        "grain",
        "--repeats",
        "1",
        "--domain",
        "host-host",
        "--json",
        "-",
        "--csv",
        csv.to_str().unwrap(),
    ];
    let report = good(&args);
    has_fields(&report, &["domain", "work_ns", "slowdown"]);
    assert!(report["finest_grain_ns"].get("host-host").is_some());
    let report: GrainReport = serde_json::from_value(report).unwrap();
    assert!(report.rows.iter().all(|r| r.work_ns > 0.0 && r.pairs == 9));
    assert!(report.rows.iter().all(|r| r.slowdown.is_none_or(|s| s > 0.0)));
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), report.rows.len() + 1);
}

#[test]
fn footprint_has_starts_memory_and_idling() {
    if !built() {
        return;
    }
    let report = good(&[
        "footprint",
        "--repeats",
        "2",
        "--idle",
        "1",
        "--domain",
        "host-host",
        "--json",
        "-",
    ]);
    has_fields(
        &report,
        &["domain", "transport", "kind", "process", "p50_ns", "bytes", "cpu_share"],
    );
    let kinds: Vec<_> =
        report["rows"].as_array().unwrap().iter().map(|r| r["kind"].clone()).collect();
    for kind in ["activation", "activation_with_start", "resident", "idle"] {
        assert!(kinds.iter().any(|k| k == kind), "no {kind} in {kinds:?}");
    }
}

#[test]
fn waiting_has_modes_crowds_and_idling() {
    if !built() {
        return;
    }
    let line = ["waiting", "--repeats", "1", "--load", "60", "--idle", "1", "--json", "-"];
    let report = good(&line);
    has_fields(&report, &["domain", "kind", "mode", "p50_ns", "calls_per_s", "cpu_share", "ratio"]);
    let rows = report["rows"].as_array().unwrap();
    let has = |kind: &str, mode: Value| {
        assert!(rows.iter().any(|r| r["kind"] == kind && r["mode"] == mode), "no {kind}, {mode}");
    };
    for mode in ["spin", "hybrid", "sleep"] {
        has("null_call", mode.into());
        has("crowd", mode.into());
    }
    has("bare_doorbell", Value::Null);
    has("idle", Value::Null);
}

#[test]
fn scale_has_calls_memory_and_take_overs() {
    if !built() {
        return;
    }
    let line = ["scale", "--short", "--repeats", "1", "--idle", "1", "--json", "-"];
    let report = good(&line);
    has_fields(
        &report,
        &[
            "clients",
            "channels",
            "p50_ns",
            "ratio",
            "paced_ratio",
            "activation_p50_ns",
            "busy_per_s",
        ],
    );
    let rows = report["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows.iter().map(|r| (&r["clients"], &r["channels"])).collect();
    assert_eq!(sizes, [(&1.into(), &4.into()), (&4.into(), &32.into())]);
    for row in rows {
        // Of those that were killed another one has gone on with all grants.
        assert!(row["take_over_ns"].as_f64().unwrap() > 0.0);
        assert!(row["calls_meanwhile"].as_u64().unwrap() > 0);
        assert_eq!(row["failed_meanwhile"], 0);
        assert!(row["manager_bytes"].as_u64().unwrap() > 1_000_000);
        assert!(row["services_share"].as_f64().is_some());
    }
}

#[test]
fn leases_have_all_experiments_and_lose_no_call() {
    if !built() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (svg, csv) = (file("leases.svg"), file("leases.csv"));
    let report = good(&["leases", "--short", "--json", "-", "--chart", &svg, "--csv", &csv]);
    has_fields(
        &report,
        &["experiment", "source", "policy", "group", "p50_ns", "vf_share", "boost", "added_p99_ns"],
    );
    let report: LeasesReport = serde_json::from_value(report).unwrap();
    for experiment in Experiment::ALL {
        assert!(report.of(*experiment).count() >= 2, "no {experiment}");
    }
    let (calls, trouble) = report.trouble();
    assert!(calls > 1000);
    assert_eq!(trouble, vfun_bench::leases::Trouble::default());
    let switches: u64 = report.of(Experiment::Switch).filter_map(|r| r.switches).sum();
    assert!(switches >= 200, "{switches}");
    // What was run was also simulated.
    let crowds = |e| report.of(e).filter(|r| r.source == Source::Real).count();
    let run = [Experiment::Groups, Experiment::Starvation, Experiment::Worth].map(crowds);
    assert_eq!(report.agreement.len(), run.iter().sum::<usize>());
    // Nobody is on a VF longer than there are VFs, but for a look that came late.
    for row in report.of(Experiment::Groups).filter(|r| r.policy.as_deref() == Some("none")) {
        assert_eq!(row.vf_share, Some(0.0), "{row:?}");
    }
    assert!(report.timeline.points.iter().any(|p| p.on_vf));
    assert!(fs::read_to_string(svg).unwrap().contains("A lease that comes and goes"));
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), report.rows.len() + 1);
}

#[test]
fn simulated_time_needs_no_manager() {
    let report =
        good(&["leases", "--simulated", "--functions", "/nonexistent", "--short", "--json", "-"]);
    let report: LeasesReport = serde_json::from_value(report).unwrap();
    assert!(report.rows.iter().all(|r| r.source == Source::Simulated));
    assert!(report.rows.iter().any(|r| r.clients == Some(100)));
    let output = run(&["leases", "--simulated", "--experiment", "gain"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--simulated"));
}

#[test]
fn network_vfs_are_simulated_and_decisions_timed_without_any_program() {
    let report = good(&[
        "nics",
        "--short",
        "--experiment",
        "groups,liar,decision",
        "--vf",
        "4000",
        "--json",
        "-",
    ]);
    has_fields(&report, &["experiment", "source", "policy", "group", "vf_share", "p50_ns"]);
    let report: NicsReport = serde_json::from_value(report).unwrap();
    let of = |e| report.of(e).count();
    // Four groups under four policies, with two timings.
    assert_eq!(of(NicsExperiment::Groups), 32);
    assert_eq!((of(NicsExperiment::Liar), of(NicsExperiment::Decision)), (6, 2));
    let boosts = report.of(NicsExperiment::Groups).filter_map(|r| r.boost);
    assert_eq!(boosts.reduce(f64::max), Some(0.5));
    let output = run(&["nics", "--vf", "9000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--paravirtual 8000"));
}

#[test]
fn the_process_of_network_vfs_takes_reports_and_its_cost_is_measured() {
    if !program().with_file_name("vfun-nics").is_file() {
        return eprintln!("not tested, because vfun-nics is not built (cargo build)");
    }
    let report = good(&["nics", "--short", "--experiment", "daemon", "--json", "-"]);
    let report: NicsReport = serde_json::from_value(report).unwrap();
    let row = report.of(NicsExperiment::Daemon).next().unwrap();
    assert!(row.cpu_share.unwrap() > 0.0 && row.vm_bytes.unwrap() > 0.0, "{row:?}");
}

#[test]
fn without_a_guest_the_rest_is_measured_and_the_error_says_what_to_do() {
    if !built() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let output = Command::new(program())
        .args([
            "domains",
            "--scale",
            "1e-6",
            "--repeats",
            "1",
            "--domain",
            "host-host,guest-host",
            "--json",
            "-",
        ])
        .env("VFUN_GUEST_KERNEL_DIR", "/nonexistent")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("packaging/guest-kernel.sh"), "{said}");
    let report: DomainsReport = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.rows.len(), 10);
    assert!(report.settings.more["not_measured"].as_str().unwrap().contains("guest-host"));
}

/// The keeper of the measuring process `parent`: its process and its root.
fn keeper_of(parent: u32) -> Option<(u32, PathBuf)> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).find_map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<_> =
            line.split(|&b| b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        let at = words.iter().position(|w| w == "vfun-bench-keeper")?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let of: u32 = stat.rsplit_once(") ")?.1.split_whitespace().nth(1)?.parse().ok()?;
        (of == parent).then(|| Some((pid, PathBuf::from(words.get(at + 1)?))))?
    })
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "not so in 30 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killed_it_leaves_nothing_behind() {
    if !built() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let mut child = Command::new(program())
        .args([
            "domains",
            "--scale",
            "0.01",
            "--repeats",
            "100",
            "--domain",
            "host-host",
            "--json",
            "-",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut found = None;
    eventually("a keeper with a manager", || {
        found = keeper_of(child.id());
        found.as_ref().is_some_and(|(_, root)| root.join("admin/vfund.sock").exists())
    });
    let (keeper, root) = found.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("keeper and root gone", || {
        !root.exists() && !Path::new(&format!("/proc/{keeper}")).exists()
    });
    let left = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let named = root.to_str().unwrap().as_bytes().to_vec();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = left(&entry.file_name().to_string_lossy());
        assert!(
            !line.windows(named.len()).any(|w| w == named),
            "{}",
            String::from_utf8_lossy(&line)
        );
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    // The exit codes are those of `vfun`.
    for (args, code, words) in [
        (&["domains", "--root", "/nonexistent"][..], 5, "vfund"),
        (&["domains", "--functions", "/nonexistent"], 1, "--functions"),
        (&["grain", "--endpoint", "ivshmem"], 2, "--endpoint"),
        (&["latency", "--endpoint", "host:/nonexistent/host.sock"], 5, "/nonexistent/host.sock"),
        (&["inside", "nonsense"], 2, "no job"),
    ] {
        let output = run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

/// What PKCS#11 is measured with.
fn softhsm() -> bool {
    let softhsm = std::path::Path::new("/usr/lib/softhsm/libsofthsm2.so").exists();
    softhsm && program().with_file_name("libvfun_pkcs11.so").is_file()
}

#[test]
fn remoting_measures_both_libraries() {
    let beside = |name: &str| program().with_file_name(name).is_file();
    let libraries = ["libgdma.so", "libvfun_gdma.so", "libvfun_gdmaback.so"];
    if !built() || !libraries.into_iter().all(beside) {
        return;
    }
    let report = good(&["remoting", "--short", "--json", "-"]);
    has_fields(
        &report,
        &[
            "experiment",
            "case",
            "simulated",
            "bytes",
            "wait",
            "p50_ns",
            "p99_ns",
            "least_ns",
            "base",
            "base_p50_ns",
            "base_least_ns",
            "ratio_of",
            "ratio",
            "ratio_low",
            "ratio_high",
            "pairs",
            "dropped",
            "added_ns",
            "per_s",
            "base_per_s",
            "crossings",
        ],
    );
    let report: RemotingReport = serde_json::from_value(report).unwrap();
    for &experiment in RemotingExperiment::ALL {
        let rows: Vec<_> = report.of(experiment).collect();
        let left_out = experiment == RemotingExperiment::Pkcs11 && !softhsm();
        assert!(!rows.is_empty() || left_out, "{experiment}");
        assert!(rows.iter().all(|r| r.p50_ns.is_some() && r.base_p50_ns.is_some()), "{rows:?}");
    }
    let crossings =
        |e: RemotingExperiment| report.of(e).filter_map(|r| r.crossings).collect::<Vec<_>>();
    assert_eq!(crossings(RemotingExperiment::Calls), [1.0; 3]);
    assert_eq!(crossings(RemotingExperiment::Answers), [0.0, 0.0]);
    // 64 releases and the call behind them went together.
    assert_eq!(crossings(RemotingExperiment::Records), [1.0 / 64.0]);
}
