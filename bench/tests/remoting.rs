//! The report of a remoted API in every form, from made-up figures.

use crate::sample;
use std::path::{Path, PathBuf};
use vfun_bench::report::checks::{self, Outcome};
use vfun_bench::report::{
    Mode, RemotingExperiment, RemotingRatio, RemotingReport, RemotingRow, ReportError, chart, csv,
    json, text,
};

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("remoting");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// A row with a ratio that is known within a hundredth.
fn row(
    experiment: RemotingExperiment,
    base: &str,
    of: RemotingRatio,
    (ns, ratio): (f64, f64),
) -> RemotingRow {
    let row = RemotingRow::new(experiment, "a case", Mode::Hybrid, base);
    RemotingRow {
        p50_ns: Some(ns),
        p99_ns: Some(2.0 * ns),
        least_ns: Some(0.9 * ns),
        most_ns: Some(1.5 * ns),
        base_p50_ns: Some(ns / ratio),
        base_least_ns: Some(ns / ratio),
        ratio_of: of,
        ratio: Some(ratio),
        ratio_low: Some(0.995 * ratio),
        ratio_high: Some(1.005 * ratio),
        pairs: 66,
        dropped: 4,
        ..row
    }
}

/// Rows that meet each target, or that miss each.
fn report(good: bool) -> RemotingReport {
    use RemotingExperiment::{
        Allocation, Answers, Bursts, Calls, Completion, Records, Transfers, Waiting,
    };
    use RemotingRatio::{Added, Rate, Time};
    let times = |ratio: f64| if good { ratio } else { 3.0 * ratio };
    let rates = |ratio: f64| if good { ratio } else { 0.5 * ratio };
    let mut r = RemotingReport::new(sample::machine(), sample::settings(0.03));
    r.rows.push(row(Calls, "null call", Time, (300.0, times(1.3))));
    let answer = row(Answers, "native", Time, (30.0, times(2.0)));
    r.rows.push(RemotingRow { crossings: Some(if good { 0.0 } else { 1.0 }), ..answer });
    r.rows.push(row(Records, "null call", Added, (40.0, times(0.2))));
    r.rows.push(row(Completion, "bare doorbell", Added, (12e3, times(1.1))));
    r.rows.push(row(Waiting, "null call", Time, (300.0, 1.4)));
    for bytes in [512 << 10, 8 << 20] {
        let sized = |row: RemotingRow| RemotingRow {
            bytes: Some(bytes),
            simulated: true,
            per_s: Some(150e6),
            base_per_s: Some(151e6),
            ..row
        };
        let allocation = sized(row(Allocation, "native", Time, (3e3, times(1.2))));
        r.rows.push(RemotingRow { per_s: None, base_per_s: None, ..allocation });
        r.rows.push(sized(row(Transfers, "native", Rate, (4e6, rates(0.995)))));
        r.rows.push(sized(row(Bursts, "native", Rate, (4e7, rates(0.995)))));
    }
    r
}

#[test]
fn targets_tell_a_good_run_from_a_bad_one() {
    let outcomes = |r| checks::remoting(&r).into_iter().map(|c| c.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes(report(true)), [Outcome::Reached; 11]);
    assert_eq!(outcomes(report(false)), [Outcome::NotReached; 11]);
    let mut disturbed = report(true);
    disturbed.rows.iter_mut().for_each(|r| (r.ratio_low, r.ratio_high) = (None, None));
    let told = outcomes(disturbed);
    // Crossings are counted and not timed.
    assert_eq!(told[..10], [Outcome::CannotTell; 10]);
    assert_eq!(told[10], Outcome::Reached);
}

#[test]
fn the_tables_say_what_is_simulated_and_what_was_published() {
    let shown = text::remoting(&report(true));
    assert!(shown.contains("The engine is simulated"), "{shown}");
    for (words, simulated) in
        [("A forwarded call,", false), ("One transfer", true), ("Bursts", true), ("A buffer", true)]
    {
        let line = shown.lines().find(|l| l.starts_with(words)).unwrap();
        assert_eq!(line.ends_with("with the simulated engine"), simulated, "{line}");
    }
    for words in ["0.93 of the native rate at 512 KiB", "130 µs to 140 µs later", "150 MB/s"] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let r = report(true);
    let (to_json, to_csv) = (out("remoting.json"), out("remoting.csv"));
    json::write(&to_json, &r).unwrap();
    assert_eq!(json::read::<RemotingReport>(&to_json).unwrap(), r);
    csv::write(&to_csv, &r.rows).unwrap();
    assert_eq!(csv::read::<RemotingRow>(&to_csv).unwrap(), r.rows);
}

#[test]
fn the_chart_shows_what_goes_by_size() {
    let mut r = report(true);
    let svg = out("remoting.svg");
    chart::remoting(&r, &svg).unwrap();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    for words in ["remoted", "native", "figure 6", "figure 7", "figure 8", "simulated", "8 MiB"] {
        assert!(drawn.contains(words), "no {words:?} in the chart");
    }
    r.rows.retain(|row| row.bytes.is_none());
    match chart::remoting(&r, &svg) {
        Err(e @ ReportError::Chart { .. }) => {
            assert!(e.to_string().contains("transfers or bursts"))
        }
        other => panic!("{other:?}"),
    }
}
