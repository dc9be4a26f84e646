//! Reports with made-up figures that no machine has measured.

mod machine;

pub use machine::{machine, settings};
use vfun_bench::report::stats::Percentiles;
use vfun_bench::report::{
    Domain, DomainRow, DomainsReport, Function, GrainReport, GrainRow, How, Kind, LatencyReport,
    LatencyRow, instances,
};

/// Seconds of each domain: a part for the work, and one for each call.
pub fn domains(domains: &[(Domain, &str, f64)], scale: f64) -> DomainsReport {
    let mut report = DomainsReport::new(machine(), settings(scale));
    for (function, work) in [(Function::Factorial, 9.1), (Function::Fibonacci, 8.2)] {
        for instance in instances::PUBLISHED {
            for &(domain, transport, call_us) in domains {
                let seconds = work * scale + instance.iterations as f64 * call_us * 1e-6;
                let repeats = [0.998, 1.0, 1.001, 0.999, 1.002].map(|noise| seconds * noise);
                let row =
                    DomainRow::from_repeats(function, domain, transport, instance, scale, &repeats);
                report.rows.push(row.unwrap());
            }
        }
    }
    report.finish();
    report
}

pub const ALL: [(Domain, &str, f64); 4] = [
    (Domain::InProcess, "none", 0.0),
    (Domain::HostHost, "host", 0.3),
    (Domain::GuestHost, "ivshmem", 0.45),
    (Domain::GuestNet, "tcp", 320.0),
];

pub fn latency() -> LatencyReport {
    use Domain::{GuestHost, GuestNet, HostHost, InProcess};
    let mut report = LatencyReport::new(machine(), settings(1.0));
    for (domain, transport, kind, p50) in [
        (HostHost, "host", Kind::Floor, 250),
        (HostHost, "host", Kind::NullCall, 290),
        (HostHost, "unix", Kind::Unix, 4_000),
        (HostHost, "tcp", Kind::Tcp, 7_600),
        (GuestHost, "ivshmem", Kind::Floor, 370),
        (GuestHost, "ivshmem", Kind::NullCall, 520),
        (GuestNet, "tcp", Kind::NullCall, 320_000),
    ] {
        let repeat = |part: u64| {
            let p50 = p50 * part / 100;
            Percentiles { p50, p99: p50 * 3 / 2, p999: p50 * 8 }
        };
        let row = LatencyRow::new(domain, transport, kind);
        report.rows.push(row.with_percentiles(&[repeat(99), repeat(100), repeat(103)]));
    }
    for (kind, in_flight, calls) in [
        (Kind::FloorInFlight, 8, 18e6),
        (Kind::FloorInFlight, 64, 48e6),
        (Kind::Pipelined, 64, 16.4e6),
    ] {
        let row = LatencyRow::new(HostHost, "host", kind);
        report.rows.push(row.with_calls_per_s(in_flight, &[calls * 0.98, calls, calls * 1.01]));
    }
    let bandwidth = LatencyRow::new(HostHost, "host", Kind::Bandwidth);
    report.rows.push(bandwidth.clone().with_bytes_per_s(1 << 20, Some(How::Copied), &[7.9e9]));
    report.rows.push(bandwidth.with_bytes_per_s(1 << 20, Some(How::InPlace), &[23.5e9]));
    for (bytes, p50) in [(4 << 10, 300.0), (1 << 20, 303.0)] {
        let row = LatencyRow::new(HostHost, "host", Kind::Bandwidth).of_function("null");
        let mut row = row.with_bytes_per_s(bytes, Some(How::InPlace), &[]).with_p50_ns(&[p50]);
        row.bytes_per_s = None;
        report.rows.push(row);
    }
    report.rows.push(LatencyRow::new(InProcess, "none", Kind::Memcpy).with_bytes_per_s(
        1 << 20,
        None,
        &[24.2e9],
    ));
    report
}

pub fn grain() -> GrainReport {
    let mut report = GrainReport::new(machine(), settings(1.0));
    let lines = [
        (Domain::HostHost, "host", 280.0),
        (Domain::GuestHost, "ivshmem", 460.0),
        (Domain::GuestNet, "tcp", 320_000.0),
    ];
    for (domain, transport, call_ns) in lines {
        for work in [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 8e6] {
            let repeats = [0.97, 1.0, 1.04].map(|noise| 1.0 + call_ns * noise / work);
            report.rows.push(GrainRow::from_repeats(domain, transport, work, &repeats).unwrap());
        }
    }
    report.finish();
    report
}
