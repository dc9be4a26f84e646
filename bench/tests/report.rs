//! Every form of every report, from made-up figures.

use crate::sample::{self, ALL};
use serde_json::Value;
use std::path::{Path, PathBuf};
use vfun_bench::report::checks::{self, Outcome};
use vfun_bench::report::{
    Domain, DomainRow, DomainsReport, GrainReport, Kind, LatencyReport, LatencyRow, ReportError,
    chart, csv, json, text,
};

/// Compares with tests/golden/NAME; with BLESS=1 in the environment writes it instead.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs; BLESS=1 accepts it:\n{text}");
}

/// A folder that stays, so that charts can be looked at after a test.
fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn without(domain: Domain) -> Vec<(Domain, &'static str, f64)> {
    ALL.into_iter().filter(|d| d.0 != domain).collect()
}

#[test]
fn golden_texts() {
    golden("domains.txt", &text::domains(&sample::domains(&ALL, 1.0)));
    golden("domains-scaled.txt", &text::domains(&sample::domains(&ALL, 0.01)));
    golden("latency.txt", &text::latency(&sample::latency()));
    golden("grain.txt", &text::grain(&sample::grain()));
}

#[test]
fn text_is_honest_about_what_is_missing() {
    let report = sample::domains(&without(Domain::HostHost), 1.0);
    assert!(
        text::domains(&report)
            .contains("host-host was not measured, so there is nothing to compare")
    );
    let report = sample::domains(&without(Domain::GuestNet), 1.0);
    assert!(text::domains(&report).contains("guest-net was not measured"));
    let mut report = sample::domains(&ALL, 1.0);
    report.rows.clear();
    assert!(text::domains(&report).contains("factorial: not measured."));
}

#[test]
fn text_is_honest_in_both_directions() {
    let slow = [(Domain::HostHost, "host", 0.3), (Domain::GuestHost, "ivshmem", 900.0)];
    let text = text::domains(&sample::domains(&slow, 1.0));
    // How slow cannot be told to 1 %, because runs differ by a part of it; that it is slow can.
    assert!(text.contains("over host-host: cannot tell: 1.096 … 1.299 ×"), "{text}");
    assert!(text.contains(" above the published worst") && !text.contains("not above"), "{text}");
    assert!(text.contains("× host-host  not reached  cannot tell: 1.096"), "{text}");
    let fast = [(Domain::HostHost, "host", 900.0), (Domain::GuestHost, "ivshmem", 0.3)];
    let text = text::domains(&sample::domains(&fast, 1.0));
    assert!(text.contains("cannot tell: 0.751 … 0.919 ×") && text.contains("not above"), "{text}");
}

#[test]
fn text_says_what_cannot_be_told() {
    let mut report = sample::domains(&ALL, 1.0);
    let guest = |r: &&mut DomainRow| r.domain == Domain::GuestHost;
    for row in report.rows.iter_mut().filter(guest) {
        row.ratio_to_host_host = None;
        (row.ratio_to_host_host_low, row.ratio_to_host_host_high) = (Some(0.98), Some(1.06));
    }
    let text = text::domains(&report);
    assert!(
        text.contains("guest-host (ivshmem) over host-host: cannot tell: 0.980 … 1.060 ×"),
        "{text}"
    );
    assert!(text.contains("? (0.980 … 1.060)") && text.contains("perhaps above"), "{text}");
    assert!(checks::domains(&report).iter().all(|c| c.outcome == Outcome::CannotTell));
    for row in report.rows.iter_mut().filter(guest) {
        (row.ratio_to_host_host_low, row.ratio_to_host_host_high) = (None, None);
        row.ratio_to_host_host_dropped = Some(7);
    }
    let text = text::domains(&report);
    assert!(text.contains("cannot tell: 7 of 12 pairs of slices were disturbed"), "{text}");
    assert!(text.contains("no guest-host instance can be told"), "{text}");
    let summary = text::summary(Some(&report), None, None);
    assert!(summary.contains("cannot be told"), "{summary}");
    let row = report.rows.iter_mut().find(|r| r.domain == Domain::GuestHost).unwrap();
    (row.ratio_to_host_host_low, row.ratio_to_host_host_high) = (Some(0.99), Some(1.01));
    let text = text::domains(&report);
    assert!(
        text.contains("the worst of 1 guest-host instance that can be told (4 cannot) was 500M×1"),
        "{text}"
    );
    let chart = out("domains").join("unknown.svg");
    chart::domains(&report, &chart).unwrap();
}

#[test]
fn latency_targets() {
    let outcomes =
        |r: &LatencyReport| checks::latency(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let mut report = sample::latency();
    use Outcome::{NotMeasured, NotReached, Reached};
    assert_eq!(outcomes(&report), [Reached, NotReached, Reached, Reached, Reached]);
    report.rows.retain(|r| r.kind != Kind::Floor && r.domain != Domain::GuestNet);
    assert_eq!(outcomes(&report), [NotMeasured, NotMeasured, NotMeasured, Reached, Reached]);
    report.rows = vec![
        LatencyRow::new(Domain::HostHost, "host", Kind::Pipelined).with_calls_per_s(8, &[1e6]),
    ];
    assert_eq!(outcomes(&report), [NotMeasured, NotMeasured, NotMeasured, NotReached, NotMeasured]);
    assert!(text::latency(&report).contains("no floor in flight to compare"));
}

#[test]
fn finest_grain_needs_all_coarser_work_to_be_within() {
    let mut report = sample::grain();
    let about = |ns: Option<f64>, right: f64| ns.is_some_and(|ns| (ns / right - 1.0).abs() < 0.02);
    // What calling adds is 2.8 % of 36 times as much.
    assert!(about(report.finest_grain_ns[&Domain::HostHost], 1e4), "{report:?}");
    assert!(about(report.finest_grain_ns[&Domain::GuestHost], 460.0 / 0.028), "{report:?}");
    assert_eq!(report.finest_grain_ns[&Domain::GuestNet], None);
    assert!(checks::grain(&report).iter().all(checks::Check::reached));
    for row in report.rows.iter_mut().filter(|r| r.domain == Domain::GuestHost && r.work_ns == 1e6)
    {
        (row.slowdown, row.slowdown_low, row.slowdown_high) = (Some(1.05), Some(1.04), Some(1.06));
    }
    report.finish();
    assert!(report.finest_grain_low_ns[&Domain::GuestHost].unwrap() > 1e6);
    assert_eq!(checks::grain(&report)[1].outcome, Outcome::NotReached);
}

/// The names that are a public format.
#[test]
fn json_has_the_schema() {
    let has = |value: &Value, names: &str| {
        for name in names.split_whitespace() {
            assert!(value.get(name).is_some(), "{name} is missing in {value}");
        }
    };
    let domains = serde_json::to_value(sample::domains(&ALL, 0.01)).unwrap();
    has(&domains, "machine settings rows");
    has(
        &domains["rows"][0],
        "function domain transport repetitions iterations seconds_mean seconds_sd ratio_to_host_host published_seconds",
    );
    assert_eq!(domains["rows"][2]["function"], "factorial");
    assert_eq!(domains["rows"][2]["domain"], "guest-host");
    assert_eq!(domains["rows"][2]["repetitions"], 5_000_000);
    assert_eq!(domains["rows"][2]["published_repetitions"], 500_000_000);
    assert_eq!(domains["rows"][2]["iterations"], 1);
    assert_eq!(domains["rows"][0]["published_seconds"], Value::Null);
    assert_eq!(domains["rows"][2]["published_seconds"], 16.41);
    assert_eq!(domains["rows"][1]["ratio_to_host_host"], 1.0);
    assert_eq!(domains["rows"][2]["ratio_to_host_host_pairs"], 12);
    assert_eq!(domains["rows"][2]["ratio_to_host_host_dropped"], 3);
    has(&domains["published"], "paper machine");
    assert_eq!(domains["settings"]["scale"], 0.01);
    assert_eq!(domains["settings"]["warm_up_calls"], 1000);

    let latency = serde_json::to_value(sample::latency()).unwrap();
    has(&latency, "machine settings rows");
    has(
        &latency["rows"][0],
        "domain transport kind p50_ns p99_ns p999_ns calls_per_s bytes bytes_per_s in_flight how repeats",
    );
    assert_eq!(latency["rows"][0]["bytes"], Value::Null);
    assert_eq!(latency["rows"][11]["how"], "in_place");
    let kinds: Vec<_> = Kind::ALL.iter().map(|k| serde_json::to_value(k).unwrap()).collect();
    let expected = "floor null_call unix tcp floor_in_flight pipelined bandwidth memcpy";
    assert_eq!(kinds, expected.split(' ').collect::<Vec<_>>());
    let names: Vec<_> = Domain::ALL.iter().map(|d| serde_json::to_value(d).unwrap()).collect();
    assert_eq!(names, ["in-process", "host-host", "kvm-bare", "guest-host", "guest-net"]);

    let grain = serde_json::to_value(sample::grain()).unwrap();
    has(&grain, "machine settings rows finest_grain_ns");
    has(&grain["rows"][0], "domain work_ns slowdown slowdown_low slowdown_high pairs dropped");
    has(&grain, "finest_grain_low_ns finest_grain_high_ns");
    assert_eq!(grain["finest_grain_ns"]["guest-net"], Value::Null);
}

#[test]
fn json_round_trip_and_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("domains.json");
    let report = sample::domains(&ALL, 0.01);
    json::write(&path, &report).unwrap();
    json::write(&path, &report).unwrap();
    assert_eq!(json::read::<DomainsReport>(&path).unwrap(), report);
    let path = folder.path().join("latency.json");
    json::write(&path, &sample::latency()).unwrap();
    assert_eq!(json::read::<LatencyReport>(&path).unwrap(), sample::latency());
    let error = json::read::<GrainReport>(&path).unwrap_err();
    assert!(error.to_string().contains("latency.json"), "{error}");
    json::write(&path, &sample::grain()).unwrap();
    assert_eq!(json::read::<GrainReport>(&path).unwrap(), sample::grain());
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        2,
        "a temporary file was left behind"
    );

    let missing = folder.path().join("no/such/folder.json");
    for error in [json::write(&missing, &report), csv::write(&missing, &report.rows)] {
        let error = error.unwrap_err();
        assert!(
            matches!(error, ReportError::Io { .. })
                && error.to_string().contains("no/such/folder.json")
        );
    }
}

#[test]
fn csv_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let domains = sample::domains(&ALL, 0.01).rows;
    csv::write(&path, &domains).unwrap();
    assert_eq!(csv::read::<vfun_bench::report::DomainRow>(&path).unwrap(), domains);
    let head = std::fs::read_to_string(&path).unwrap();
    assert!(
        head.starts_with(
            "function,domain,transport,repetitions,iterations,seconds_mean,seconds_sd,"
        )
    );
    let latency = sample::latency().rows;
    csv::write(&path, &latency).unwrap();
    assert_eq!(csv::read::<LatencyRow>(&path).unwrap(), latency);
    let grain = sample::grain().rows;
    csv::write(&path, &grain).unwrap();
    assert_eq!(csv::read::<vfun_bench::report::GrainRow>(&path).unwrap(), grain);
    let error = csv::read::<LatencyRow>(&path).unwrap_err();
    assert!(error.to_string().contains("rows.csv"), "{error}");
}

/// A whole SVG: opened, closed, and with these words in it.
fn is_svg(path: &Path, words: &[&str]) {
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{}", path.display());
    for word in words {
        assert!(svg.contains(word), "{} lacks {word}", path.display());
    }
}

/// A whole PNG (its signature, its last chunk), or the error that says which font to
/// install where there is none.
fn is_png(path: &Path, drawn: Result<(), ReportError>) {
    if let Err(error) = drawn {
        assert!(matches!(error, ReportError::NoFont { .. }), "{error}");
        return;
    }
    let png = std::fs::read(path).unwrap();
    assert!(
        png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"),
        "{}",
        path.display()
    );
    assert!(png.len() > 10_000, "{} is nearly empty", path.display());
}

#[test]
fn charts_of_domains() {
    let folder = out("domains");
    let wide = [
        (Domain::HostHost, "host", 0.3),
        (Domain::HostHost, "pmem", 5.0),
        (Domain::GuestNet, "tcp", 320.0),
    ];
    let reports = [
        ("all", sample::domains(&ALL, 1.0)),
        ("scaled", sample::domains(&ALL, 0.01)),
        ("transports", sample::domains(&wide, 0.1)),
        ("seconds", sample::domains(&without(Domain::HostHost), 1.0)),
    ];
    for (name, report) in reports {
        let path = folder.join(format!("{name}.svg"));
        chart::domains(&report, &path).unwrap();
        is_svg(
            &path,
            &["factorial", "fibonacci", "250K×2k", "guest-net (tcp)", "Sample CPU", "2026-11-21"],
        );
        let path = folder.join(format!("{name}.png"));
        is_png(&path, chart::domains(&report, &path));
    }
}

#[test]
fn charts_of_latency_and_grain() {
    let folder = out("others");
    let path = folder.join("latency.svg");
    chart::latency(&sample::latency(), &path).unwrap();
    is_svg(&path, &["null call", "host-host", "320 µs", "× floor", "Sample CPU"]);
    let path = folder.join("latency.png");
    is_png(&path, chart::latency(&sample::latency(), &path));
    let path = folder.join("grain.svg");
    chart::grain(&sample::grain(), &path).unwrap();
    is_svg(&path, &["2.8 %", "20 µs", "guest-host (ivshmem)", "Sample CPU"]);
    let path = folder.join("grain.png");
    is_png(&path, chart::grain(&sample::grain(), &path));
}

#[test]
fn charts_that_cannot_be_drawn_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = sample::latency();
    let error = chart::latency(&report, &folder.path().join("chart.gif")).unwrap_err().to_string();
    assert!(error.contains("chart.gif") && error.contains(".png or .svg"), "{error}");
    report.rows.clear();
    let error = chart::latency(&report, &folder.path().join("chart.svg")).unwrap_err().to_string();
    assert!(error.contains("chart.svg") && error.contains("no round trips"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn footprint_targets_and_text() {
    use vfun_bench::report::{Footprint, FootprintReport, FootprintRow};
    let mut report = FootprintReport::new(sample::machine(), sample::settings(1.0));
    let row = |kind, process| FootprintRow::new(Domain::HostHost, "host", true, kind, process);
    report.rows = vec![
        row(Footprint::Activation, "app").with_times(&[4e6, 5e6, 90e6]).unwrap(),
        row(Footprint::Resident, "manager").with_bytes(16_000_000),
        row(Footprint::Idle, "service").with_cpu_share(0.0005),
        row(Footprint::Idle, "manager"),
    ];
    let outcomes: Vec<_> = checks::footprint(&report).iter().map(|c| c.outcome).collect();
    use Outcome::{NotMeasured, NotReached, Reached};
    assert_eq!(outcomes, [Reached, NotReached, NotMeasured, Reached]);
    let text = text::footprint(&report);
    for words in ["5.00 ms", "16.0 MB", "0.05 %", "not measurable (under 0.10 %)"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(row(Footprint::Activation, "app").with_times(&[]).is_none());
}

#[test]
fn domains_targets_use_the_interval() {
    let mut report = sample::domains(&ALL, 1.0);
    let outcomes = |report: &DomainsReport| -> Vec<_> {
        checks::domains(report).iter().map(|c| c.outcome).collect()
    };
    let set = |report: &mut DomainsReport, low, high| {
        for row in report.rows.iter_mut().filter(|r| r.domain == Domain::GuestHost) {
            (row.ratio_to_host_host_low, row.ratio_to_host_host_high) = (Some(low), Some(high));
        }
    };
    for (low, high, outcome) in [
        (1.011, 1.02, Outcome::NotReached),
        (0.99, 1.01, Outcome::Reached),
        (0.99, 1.02, Outcome::CannotTell),
    ] {
        set(&mut report, low, high);
        assert_eq!(outcomes(&report), [outcome; 2]);
    }
    report.rows.retain(|r| r.domain != Domain::GuestHost);
    assert_eq!(outcomes(&report), [Outcome::NotMeasured; 2]);
}

#[test]
fn the_short_sentence_says_what_was_measured() {
    let (domains, latency, grain) =
        (sample::domains(&ALL, 1.0), sample::latency(), sample::grain());
    let text = text::summary(Some(&domains), Some(&latency), Some(&grain));
    for words in ["In short: ", "520 ns", "times as fast as over its network", "2.8 % from 16.4 µs"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(text::summary(None, None, None).contains("Nothing was measured"));
}

#[test]
fn waiting_targets_and_text() {
    use vfun_bench::report::{Mode, Waiting, WaitingReport, WaitingRow};
    let mut report = WaitingReport::new(sample::machine(), sample::settings(1.0));
    let row = |kind, mode| WaitingRow::new(Domain::HostHost, "host", kind, mode);
    let call = |mode, ns: f64| {
        row(Waiting::NullCall, Some(mode)).with_times(&[ns, ns, ns], &[2.0 * ns; 3])
    };
    let crowd = |mode, p99: f64, rate: f64, least: f64| {
        let times = row(Waiting::Crowd, Some(mode)).with_times(&[p99 / 2.0], &[p99]);
        times.with_rates(3, &[rate], &[least])
    };
    report.rows = vec![
        row(Waiting::BareDoorbell, None).with_times(&[30e3], &[40e3]),
        call(Mode::Spin, 100.0),
        call(Mode::Hybrid, 104.0).over("spin", sample::compared(1.04)),
        call(Mode::Sleep, 45e3).over("bare doorbell", sample::compared(1.5)),
        crowd(Mode::Hybrid, 90e3, 400e3, 0.4).over("sleep", sample::compared(2.5)),
        crowd(Mode::Sleep, 50e3, 160e3, 0.9),
        row(Waiting::IdleBefore, None).with_shares(0, &[0.001]),
        row(Waiting::Idle, None).with_shares(100, &[0.0035]),
    ];
    let outcomes: Vec<_> = checks::waiting(&report).iter().map(|c| c.outcome).collect();
    let (yes, no, none) = (Outcome::Reached, Outcome::NotReached, Outcome::NotMeasured);
    assert_eq!(outcomes, [yes, no, yes, yes, yes, none, no]);
    let text = text::waiting(&report);
    assert!(text.contains("1.040 × (1.038 … 1.042) (104 ns over 100 ns)"), "{text}");
    assert!(text.contains("(45.0 µs over 30.0 µs)"), "{text}");
    assert!(text.contains("0.35 % (0.10 % without them)"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["rows"][4]["mode"], "hybrid");
    assert_eq!(json["rows"][4]["kind"], "crowd");
}

#[test]
fn scale_targets_and_text() {
    use vfun_bench::method::{Watch, turns};
    use vfun_bench::report::stats::Percentiles;
    use vfun_bench::report::{ScaleReport, ScaleRow};
    let calls = |p50, p99, control: (u64, u64)| {
        let of = [(p50, p99), control].map(|(p50, p99)| Percentiles { p50, p99, p999: p99 });
        turns(9, 2, &Watch::new(&[], []), |v, _| Ok(Some(of[v]))).unwrap()
    };
    let told = |ratio| {
        let c = sample::compared(ratio);
        (c.ratio, c.low, c.high)
    };
    let row = |clients, channels, bytes| {
        let mut row = ScaleRow { clients, channels, busy: 8, ..ScaleRow::default() };
        row.manager_bytes = Some(bytes);
        row.services_bytes = Some(1_000);
        row.calls(&calls(120, 260, (100, 200)));
        (row.ratio, row.ratio_low, row.ratio_high) = told(1.19);
        (row.ratio_p99, row.ratio_p99_low, row.ratio_p99_high) = told(1.3);
        row.paced(&calls(30_000, 0, (10_000, 1)));
        (row.paced_ratio, row.paced_ratio_low, row.paced_ratio_high) = told(3.0);
        row.take_overs(&[2e8, 9e8, 3e8]);
        row
    };
    let rows = vec![row(1, 1, 10_000), row(1, 1001, 40_000), row(100, 100, 15_544)];
    let mut report = ScaleReport::new(sample::machine(), sample::settings(1.0), rows);
    assert_eq!((report.channel_bytes, report.client_bytes), (Some(30.0), Some(56.0)));
    let outcomes = |r: &ScaleReport| checks::scale(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let (yes, no) = (Outcome::Reached, Outcome::NotReached);
    assert_eq!(outcomes(&report), [yes, no, no, yes], "of the row with most channels alone");
    let text = text::scale(&report);
    for words in ["(120 ns over 100 ns)", "(30.0 µs over 10.0 µs)", "at most 900 ms", "of 9"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    report.rows[1].failed_meanwhile = 1;
    assert_eq!(outcomes(&report)[3], no, "no call may fail");
    report.rows[1].take_over_max_ns = None;
    assert_eq!(outcomes(&report)[3], Outcome::NotMeasured);
}

#[test]
fn queues_targets_and_text() {
    use vfun_bench::method::{Compared, Turns, Watch, turns};
    use vfun_bench::report::stats::Percentiles;
    use vfun_bench::report::{QueuesReport, QueuesRow};
    fn of<T: Copy>(figures: &[T]) -> Turns<T> {
        let watch = Watch::new(&[], []);
        turns(9, figures.len(), &watch, |v, _| Ok(Some(figures[v]))).unwrap()
    }
    let trips = |p50: u64| Percentiles { p50, p99: 9 * p50, p999: 9 * p50 };
    let one_way = |bytes, queue, told: Compared| {
        let row = QueuesRow::latency(bytes, &of(&[trips(queue), trips(200), trips(400)]));
        QueuesRow { ratio: told.ratio, ratio_low: told.low, ratio_high: told.high, ..row }
    };
    let rate = |batch, queue, told: Compared| {
        let row = QueuesRow::rate(64, batch, &of(&[queue, 10e6]));
        QueuesRow { ratio: told.ratio, ratio_low: told.low, ratio_high: told.high, ..row }
    };
    let rows = vec![
        one_way(16, 232, sample::compared(1.16)),
        one_way(64, 220, sample::compared(1.1)),
        rate(1, 5e6, sample::compared(0.6)),
        rate(8, 4.5e6, sample::compared(0.45)),
    ];
    let machine = sample::machine();
    let mut report = QueuesReport { machine, settings: sample::settings(1.0), rows };
    let outcomes =
        |r: &QueuesReport| checks::queues(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let (yes, no) = (Outcome::Reached, Outcome::NotReached);
    assert_eq!(outcomes(&report), [yes, yes, no]);
    let text = text::queues(&report);
    for words in ["(110 ns over 100 ns)", "0.450 × (", "(4.50 M/s over 10.0 M/s)", " of 9"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    report.rows[1] = one_way(64, 232, sample::compared(1.16));
    assert_eq!(outcomes(&report)[0], no);
    report.rows[1] = one_way(64, 220, Compared::default());
    assert_eq!(outcomes(&report)[0], Outcome::CannotTell);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["rows"][2]["batch"], 1);
    assert!(json["rows"][0]["batch"].is_null() && json["rows"][0]["p99_ns"] == 1044.0);
}

#[test]
fn ports_targets_and_text() {
    use vfun_bench::method::{Compared, Pair, Turns, Watch, turns};
    use vfun_bench::report::stats::Percentiles;
    use vfun_bench::report::{PortsFigure, PortsReport, PortsRow};
    fn of<T: Copy>(figures: &[T]) -> Turns<T> {
        let watch = Watch::new(&[], []);
        turns(9, figures.len(), &watch, |v, _| Ok(Some(figures[v]))).unwrap()
    }
    let rounds = |figure, bytes, own: f64, base: f64, count: usize| {
        let (i, of) = (|i: usize| i as f64, |figure, base| Pair { figure, base, disturbed: false });
        let pair = |n| of(own + 1e5 * i(n), base + 1e4 * i(n));
        PortsRow::rounds(figure, bytes, &(0..count).map(pair).collect::<Vec<_>>()).on(2)
    };
    let trips = |p50: u64| Percentiles { p50, p99: 3 * p50, p999: 9 * p50 };
    let rows = vec![
        PortsRow::one_way(64, &of(&[trips(400), trips(200)])).on(2),
        PortsRow::empty_look(&of(&[6.5, 2.5])).on(1),
        PortsRow::ring(64, &of(&[40e6, 100e6])).on(2),
        rounds(PortsFigure::DriverMemif, 64, 40e6, 20e6, 7),
        rounds(PortsFigure::DriverVhost, 64, 20e6, 16e6, 7),
        rounds(PortsFigure::RingMemif, 64, 40e6, 20e6, 5),
        PortsRow::left_out(PortsFigure::RingVhost, 64, "there is no vhost").on(2),
        rounds(PortsFigure::DriverMemif, 1500, 8.9e6, 8e6, 7),
        rounds(PortsFigure::DriverVhost, 1500, 1e6, 8e6, 7).on(1),
    ];
    let machine = sample::machine();
    let mut report = PortsReport { machine, settings: sample::settings(1.0), rows };
    let outcomes = |r: &PortsReport| checks::ports(r).iter().map(|c| c.outcome).collect::<Vec<_>>();
    let (yes, no) = (Outcome::Reached, Outcome::NotReached);
    // Of 1500 bytes beside vhost nothing is asked.
    assert_eq!(outcomes(&report), [yes, no, Outcome::CannotTell, Outcome::NotMeasured, yes]);
    let text = text::ports(&report);
    for words in [
        "6.5 ns",
        "40.0 M … 40.6 M/s",
        "net_memif    20.0 M/s",
        "the ring alone beside net_vhost, 64 bytes: left out: there is no vhost\n",
        "net_vfun beside net_vhost, 1500 bytes: 2 threads look without a pause, and there are 1 processors",
        "(20.3 M/s over 16.0 M/s)",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(text.matches("look without a pause").count(), 1, "one look needs one: {text}");
    report.rows[7] = rounds(PortsFigure::DriverMemif, 1500, 7.1e6, 8e6, 7);
    assert_eq!(outcomes(&report)[4], no);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["rows"][3]["figure"], "driver-memif");
    assert_eq!(json["rows"][0]["p99_ns"], 600.0);
    assert_eq!(json["rows"][6]["left_out"], "there is no vhost");
    assert!(json["rows"][1]["frame_bytes"].is_null() && json["rows"][1]["spinning"] == 1);
    let told = report.rows[3].compared();
    assert!((told.pairs, told.dropped) == (7, 0) && told.ratio.is_some(), "{told:?}");
    let pair = Pair { figure: 40e6, base: 20e6, disturbed: true };
    let loud = PortsRow::rounds(PortsFigure::DriverMemif, 64, &[pair; 9]);
    assert_eq!((loud.ratio, loud.pairs, loud.dropped), (None, 9, 9));
    assert_eq!(PortsRow::rounds(PortsFigure::Ring, 64, &[]).compared(), Compared::default());
}

#[test]
fn isolation_targets_need_six_repeats() {
    use vfun_bench::report::isolation::Turn;
    use vfun_bench::report::{IsolationReport, IsolationRow};
    let turn = |p99| Turn { p50: 100.0, p99, calls: 1_000, errors: 0 };
    let row = |repeats: usize, p99: f64| {
        IsolationRow::new("spin", 2, &vec![turn(p99); repeats], &vec![turn(200.0); repeats])
    };
    let (machine, settings) = (sample::machine(), sample::settings(1.0));
    let rows = vec![row(6, 210.0), row(6, 400.0), row(5, 210.0)];
    let report = IsolationReport { machine, settings, rows };
    let outcomes: Vec<_> = checks::isolation(&report).iter().map(|c| c.outcome).collect();
    use Outcome::{CannotTell, NotReached, Reached};
    assert_eq!(outcomes, [Reached, NotReached, CannotTell, Reached]);
    let text = text::isolation(&report);
    assert!(text.contains("1.050 (1.050 … 1.050) ×"), "{text}");
    assert!(text.contains("at least 6 are needed"), "{text}");
}
