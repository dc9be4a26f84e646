//! The report of leases in every form, from made-up figures and from simulated time.

use crate::sample;
use std::path::{Path, PathBuf};
use vfun_bench::leases::{Crowd, Experience, Latencies, Trouble, simulate};
use vfun_bench::report::checks::{self, Outcome};
use vfun_bench::report::leases::{LeasesReport, LeasesRow, Point};
use vfun_bench::report::{Experiment, ReportError, Source, chart, csv, json, text};
use vfun_leases::Policy;

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("leases");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn crowd() -> Crowd {
    Crowd {
        groups: Crowd::published(2, 1.0),
        vfs: 2,
        cores: 1,
        latencies: Latencies {
            software_ns: 800e3,
            hardware_ns: 200e3,
            unit_ns: (1e3, 100.0),
            calling_ns: (50e3, 60e3),
            switch_ns: 100e3,
        },
        interval_ms: 250,
        hold_ms: 250,
        warm_s: 2.0,
        seconds: 16.0,
        seed: 3,
    }
}

/// Simulated rows, the same once more as if they had been run 10 % slower, a gain and a switch.
fn report() -> LeasesReport {
    let mut r = LeasesReport::new(sample::machine(), sample::settings(1.0));
    for (per_s, boosts) in [(Some(100.0), [-0.5, 0.3]), (None, [-2.0, 0.8])] {
        for (bytes, boost) in [64, 1 << 20].into_iter().zip(boosts) {
            r.rows.push(LeasesRow {
                per_s,
                bytes: Some(bytes),
                calls: 500,
                soft_ns: Some(100e3),
                hard_ns: Some(100e3 * (1.0 - boost)),
                boost: Some(boost),
                ..LeasesRow::new(Experiment::Gain, Source::Real)
            });
        }
    }
    for (way, p99) in [("to a VF", 30e3), ("to software", 48e3)] {
        r.rows.push(LeasesRow {
            group: Some(way.into()),
            clients: Some(1),
            switches: Some(5000),
            added_p50_ns: Some(20e3),
            added_p99_ns: Some(p99),
            added_max_ns: Some(90e3),
            ordinary_p99_ns: Some(2e3),
            ..LeasesRow::new(Experiment::Switch, Source::Real)
                .with_times(&mut [10, 30, 20])
                .with_trouble(Trouble::default())
        });
    }
    let c = crowd();
    for policy in [Policy::None, Policy::Fair, Policy::Activity] {
        let seen = simulate(&c, policy).unwrap();
        let slower = |e: &Experience| Experience {
            times_ns: e.times_ns.iter().map(|t| t * 11 / 10).collect(),
            ..e.clone()
        };
        let real = vec![seen.iter().map(slower).collect()];
        for (source, runs) in [(Source::Real, real), (Source::Simulated, vec![seen])] {
            r.rows.extend(LeasesRow::of_crowd(Experiment::Groups, source, policy, &c, &runs));
        }
    }
    r.timeline.points = (0..100)
        .map(|i| Point {
            at_s: f64::from(i) * 0.01,
            p50_ns: if i < 50 { 60e3 } else { 15e3 },
            max_ns: 90e3,
            on_vf: i >= 50,
        })
        .collect();
    r.timeline.switches_s = vec![0.5];
    r.finish();
    r
}

#[test]
fn run_and_simulated_stand_side_by_side() {
    let r = report();
    assert_eq!(r.agreement.len(), 3 * 4);
    let [calls, shares] = r.differences().unwrap();
    assert!((calls.0 - (1.0 - 1.0 / 1.1)).abs() < 1e-3 && shares.1 < 1e-12, "{calls:?} {shares:?}");
    let mut alone = r.clone();
    alone.rows.retain(|row| row.source == Source::Real);
    alone.finish();
    assert_eq!((alone.agreement.len(), alone.differences()), (0, None));
}

#[test]
fn targets_tell_a_good_run_from_a_bad_one() {
    let outcomes =
        |r: &LeasesReport| checks::leases(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let r = report();
    assert_eq!(outcomes(&r), [Outcome::Reached; 6], "{:#?}", checks::leases(&r));
    let mut bad = r.clone();
    for row in &mut bad.rows {
        row.lost = row.lost.map(|_| 1);
        row.added_p99_ns = row.added_p99_ns.map(|ns| 2.0 * ns);
        // Everybody has what the busiest should have, and the other way round.
        row.vf_share = row.group.as_deref().map(|g| if g == "rate 20" { 0.9 } else { 0.03 });
    }
    assert_eq!(outcomes(&bad), [Outcome::NotReached; 6]);
    bad.rows.clear();
    assert_eq!(outcomes(&bad), [Outcome::NotMeasured; 2]);
}

#[test]
fn text_has_every_experiment_that_was_run_and_no_other() {
    let r = report();
    let shown = text::leases(&r);
    for words in [
        "simulated, no hardware",
        "What a VF gains",
        "A live switch",
        "Groups of clients, run: 8 clients, 2 VFs",
        "Groups of clients, in simulated time: 8 clients, 2 VFs",
        "the medians of calls differ by 9.1 %",
        "published: 640 ms and 56.0 ms",
        "640 ms to plug a VF in and 56.0 ms to unplug it; a server's answers 75 % sooner",
        "Intel Xeon E5-2630 v3",
    ] {
        assert!(shown.contains(words), "no {words:?} in\n{shown}");
    }
    assert!(!shown.contains("steady"), "{shown}");
    let mut none = r;
    none.rows.clear();
    none.finish();
    assert!(!text::leases(&none).contains("boost ="));
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let r = report();
    let (to_json, to_csv) = (out("leases.json"), out("leases.csv"));
    json::write(&to_json, &r).unwrap();
    assert_eq!(json::read::<LeasesReport>(&to_json).unwrap(), r);
    csv::write(&to_csv, &r.rows).unwrap();
    assert_eq!(csv::read::<LeasesRow>(&to_csv).unwrap(), r.rows);
}

#[test]
fn charts_show_lines_a_timeline_and_boxes() {
    let r = report();
    let svg = out("leases.svg");
    chart::leases(&r, &svg).unwrap();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    for words in [
        "simulated, no hardware",
        "boost by size",
        "A lease that comes and goes",
        "rate 100",
        "activity",
    ] {
        assert!(drawn.contains(words), "no {words:?} in the chart");
    }
    // A box for each group under each policy, run and simulated, and a name.
    assert!(drawn.matches("#D55E00").count() > 2 * 3, "{}", drawn.matches("#D55E00").count());
    let png = out("leases.png");
    match chart::leases(&r, &png) {
        Ok(()) => assert_eq!(std::fs::read(&png).unwrap()[..4], *b"\x89PNG"),
        Err(ReportError::NoFont { .. }) => {}
        Err(e) => panic!("{e}"),
    }
    let mut empty = r;
    empty.rows.clear();
    empty.timeline.points.clear();
    let e = chart::leases(&empty, &svg).unwrap_err().to_string();
    assert!(e.contains("no rows"), "{e}");
}
