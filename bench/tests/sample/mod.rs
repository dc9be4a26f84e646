//! Reports with made-up figures that no machine has measured.

mod machine;

pub use machine::{machine, settings};
use vfun_bench::method::{Compared, Pair};
use vfun_bench::report::stats::Percentiles;
use vfun_bench::report::{
    Domain, DomainRow, DomainsReport, Function, GrainReport, GrainRow, How, Kind, LatencyReport,
    LatencyRow, instances,
};

/// Noise of slices, or repeats, one after the other.
const NOISE: [f64; 9] = [0.998, 1.0, 1.001, 0.999, 1.002, 1.0, 0.997, 1.003, 1.0];

/// A ratio as slices would show it: three of twelve pairs were disturbed.
pub fn compared(ratio: f64) -> Compared {
    let pair = |figure, disturbed| Pair { figure, base: 1.0, disturbed };
    let kept = NOISE.iter().map(|noise| pair(ratio * noise, false));
    Compared::of(&kept.chain([pair(9.0 * ratio, true); 3]).collect::<Vec<_>>())
}

/// Seconds of each domain: a part for the work, and one for each call.
pub fn domains(domains: &[(Domain, &str, f64)], scale: f64) -> DomainsReport {
    let mut report = DomainsReport::new(machine(), settings(scale));
    for (function, work) in [(Function::Factorial, 9.1), (Function::Fibonacci, 8.2)] {
        for instance in instances::PUBLISHED {
            let of = |call_us: f64| work * scale + instance.iterations as f64 * call_us * 1e-6;
            let base = |domain| domains.iter().find(|d| d.0 == domain).map(|d| of(d.2));
            for &(domain, transport, call_us) in domains {
                let seconds = of(call_us);
                let repeats: Vec<_> = NOISE[..5].iter().map(|noise| seconds * noise).collect();
                let row =
                    DomainRow::from_repeats(function, domain, transport, instance, scale, &repeats);
                let over = |domain| base(domain).map(|base| compared(seconds / base));
                report
                    .rows
                    .push(row.unwrap().compared(over(Domain::HostHost), over(Domain::InProcess)));
            }
        }
    }
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
        let row = row.with_percentiles(&[repeat(99), repeat(100), repeat(103)]);
        report.rows.push(match (kind, domain) {
            (Kind::NullCall, HostHost) => row.against(compared(1.16)),
            (Kind::NullCall, GuestHost) => row.against(compared(1.405)),
            _ => row,
        });
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
            let mut slowdown = compared(1.0 + call_ns / work);
            // So that what calling adds is not lost in it.
            let spread = |end: f64| 1.0 + call_ns / work + (end - 1.0 - call_ns / work) / 8.0;
            (slowdown.low, slowdown.high) = (slowdown.low.map(spread), slowdown.high.map(spread));
            report.rows.push(GrainRow::new(domain, transport, work, slowdown));
        }
    }
    report.finish();
    report
}
