//! The report of network VFs in every form, from made-up figures and from simulated time.

use crate::sample;
use std::path::{Path, PathBuf};
use vfun_bench::nics::{HandOver, Kin, PacketTimes, Scene, play};
use vfun_bench::report::checks::{self, Outcome};
use vfun_bench::report::{
    NicsExperiment, NicsReport, NicsRow, Origin, ReportError, chart, csv, json, text,
};
use vfun_leases::Policy;

const PACKETS: PacketTimes = PacketTimes { paravirtual_ns: 8e6, vf_ns: 2e6, busy_per_s: 1e5 };

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nics");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn scene(kin: Vec<Kin>) -> Scene {
    Scene {
        kin,
        vfs: 5,
        interval_ms: 10_000,
        tenure_ms: 30_000,
        takes: HandOver { order_ms: 5, setup_ms: 20, plug_ms: 640, unplug_ms: 56 },
        card_counts: true,
        warm_ms: 120_000,
        counts_ms: 1_200_000,
    }
}

/// Simulated rows of each experiment, and made-up figures of a clock.
fn report() -> NicsReport {
    use NicsExperiment::{Daemon, Decision, Groups, Liar, Rates, Starvation};
    let mut r = NicsReport::new(sample::machine(), sample::settings(1.0));
    let mut add = |experiment, policies: &[Policy], kin: Vec<Kin>| {
        let scene = scene(kin);
        for &policy in policies {
            let stays = play(&scene, policy);
            let rows = NicsRow::of_scene(experiment, "a case", policy, &scene, &stays, &PACKETS);
            r.rows.extend(rows);
        }
    };
    let of = |rates: &[f64]| -> Vec<Kin> {
        rates.iter().map(|rate| Kin::new(&format!("{:.0} k/s", rate / 1e3), 2, *rate)).collect()
    };
    let all = [Policy::None, Policy::Random, Policy::Fair, Policy::Activity];
    add(Groups, &all, of(&[20e3, 40e3, 80e3, 100e3]));
    add(Rates, &[Policy::Activity], of(&[10e3, 30e3, 60e3, 90e3]));
    let server = Kin { reserve_percent: 50, ..Kin::new("server, 50 % reserved", 1, 1e3) };
    add(Starvation, &[Policy::Activity], vec![server, Kin::new("others", 8, 1e5)]);
    let liar = Kin { claims: 100.0, ..Kin::new("liar", 2, 5e3) };
    let kin = vec![Kin::new("busy", 5, 5e4), Kin::new("honest", 2, 5e3), liar];
    add(Liar, &[Policy::Activity], kin);
    let measured = |experiment, case| NicsRow::new(experiment, Origin::Measured, case, (100, 63));
    r.rows.push(measured(Decision, "a decision").with_times(&mut [3_000_000, 2_000_000]));
    r.rows.push(NicsRow {
        cpu_share: Some(0.004),
        vm_bytes: Some(193e3),
        ..measured(Daemon, "no VF moves")
    });
    r
}

#[test]
fn golden_text() {
    crate::report::golden("nics.txt", &text::nics(&report()));
}

#[test]
fn targets_tell_a_good_run_from_a_bad_one() {
    let outcomes = |r: &NicsReport| checks::nics(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let r = report();
    assert_eq!(outcomes(&r), [Outcome::Reached; 8], "{:#?}", checks::nics(&r));
    let mut bad = r.clone();
    for row in &mut bad.rows {
        // The quiet have what the busy should have; who lies, too.
        let first = matches!(row.group.as_deref(), Some("20 k/s" | "liar"));
        row.vf_share = row.vf_share.map(|_| if first { 0.9 } else { 0.03 });
        row.saved = row.saved.map(|s| s * 0.2);
        row.least_s = row.least_s.map(|_| 1.0);
        row.p99_ns = row.p99_ns.map(|ns| ns * 10.0);
        row.cpu_share = row.cpu_share.map(|s| s * 2.0);
        row.vm_bytes = row.vm_bytes.map(|b| b * 10.0);
    }
    assert_eq!(outcomes(&bad), [Outcome::NotReached; 8], "{:#?}", checks::nics(&bad));
    bad.rows.clear();
    assert_eq!(outcomes(&bad), [Outcome::NotMeasured; 3]);
}

#[test]
fn each_table_says_whether_it_was_measured_or_simulated() {
    let r = report();
    let shown = text::nics(&r);
    let tables = ["figure 7", "figures 2, 3 and 5", "figure 8", "lie about"];
    for words in tables {
        let line = shown.lines().find(|l| l.contains(words) && !l.starts_with("Published"));
        assert!(line.is_some_and(|l| l.contains("simulated")), "{words}: {line:?}");
    }
    for words in ["deciding takes", "process takes"] {
        let line = shown.lines().find(|l| l.contains(words));
        assert!(line.is_some_and(|l| l.contains("measured")), "{words}: {line:?}");
    }
    let mut none = r;
    none.rows.clear();
    let shown = text::nics(&none);
    assert!(!shown.contains("simulated, a case") && !shown.contains("deciding takes"), "{shown}");
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let r = report();
    let (to_json, to_csv) = (out("nics.json"), out("nics.csv"));
    json::write(&to_json, &r).unwrap();
    assert_eq!(json::read::<NicsReport>(&to_json).unwrap(), r);
    csv::write(&to_csv, &r.rows).unwrap();
    assert_eq!(csv::read::<NicsRow>(&to_csv).unwrap(), r.rows);
}

#[test]
fn the_chart_shows_groups_and_rates() {
    let r = report();
    let svg = out("nics.svg");
    chart::nics(&r, &svg).unwrap();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    for words in ["simulated time", "100 k/s", "random", "time on a VF, activity", "parameter"] {
        assert!(drawn.contains(words), "no {words:?} in the chart");
    }
    let mut empty = r;
    empty.rows.retain(|row| row.source == Origin::Measured);
    match chart::nics(&empty, &svg) {
        Err(e @ ReportError::Chart { .. }) => assert!(e.to_string().contains("groups or rates")),
        other => panic!("{other:?}"),
    }
}
