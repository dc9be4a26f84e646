//! Latency, rate and bandwidth as text, each beside its floor.

use super::{checks, head, number};
use crate::report::{How, Kind, LatencyReport, LatencyRow, checks as targets};
use vfun_cli::out::Table;

/// The table, and the targets.
pub fn latency(report: &LatencyReport) -> String {
    let mut text = head("Latency: one call, and many", &report.machine, &report.settings);
    let mut table = Table::ruled(&[]);
    for name in ["domain", "transport", "what"] {
        table.column(name);
    }
    for name in [">p50", ">p99", ">p99.9", ">against floor", ">calls", ">bandwidth"] {
        table.column(name);
    }
    let mut rows: Vec<_> = report.rows.iter().collect();
    rows.sort_by_key(|r| {
        let what = (r.kind, r.function.as_deref(), r.bytes, r.in_flight);
        (r.domain, r.transport.as_str(), what)
    });
    for row in rows {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row([
            row.domain.to_string(),
            row.transport.clone(),
            what(row),
            or_dash(row.p50_ns.map(number::ns)),
            or_dash(row.p99_ns.map(number::ns)),
            or_dash(row.p999_ns.map(number::ns)),
            or_dash(against_floor(report, row)),
            or_dash(row.calls_per_s.map(number::rate)),
            or_dash(row.bytes_per_s.map(number::bandwidth)),
        ]);
    }
    text += &format!("\n{table}");
    text += "Against floor: a round trip as times the floor of its domain; pipelined calls as a share of the floor in \
             flight; data as a share of memcpy of the same size. In brackets the interval that holds it in 95 of 100 \
             runs; ? is what cannot be told.\n";
    text += &format!("\n{}", checks(&targets::latency(report)));
    text
}

/// "pipelined, 64 in flight", "bandwidth, 4 KiB, copied".
pub(in crate::report) fn what(row: &LatencyRow) -> String {
    let mut text = row.kind.as_str().replace('_', " ");
    if let Some(function) = &row.function {
        text += &format!(" of {function}");
    }
    if let Some(bytes) = row.bytes {
        text += &format!(", {}", number::bytes(bytes));
    }
    if let Some(n) =
        row.in_flight.filter(|&n| n > 1 || !matches!(row.kind, Kind::NullCall | Kind::Floor))
    {
        text += &format!(", {n} in flight");
    }
    text + match row.how {
        Some(How::Copied) => ", copied",
        Some(How::InPlace) => ", in place",
        None => "",
    }
}

fn against_floor(report: &LatencyReport, row: &LatencyRow) -> Option<String> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    match row.kind {
        Kind::NullCall if row.to_floor().is_some() => Some(format!("{} ×", row.to_floor()?.cell())),
        Kind::Pipelined if row.to_floor().is_some() => {
            let floor = row.to_floor()?;
            let share = floor.ratio.map_or_else(|| "?".to_owned(), percent);
            let ends = floor.interval();
            Some(match ends {
                Some((low, high)) => format!("{share} ({:.0} … {})", 100.0 * low, percent(high)),
                None => "?".to_owned(),
            })
        }
        Kind::Floor | Kind::FloorInFlight | Kind::Memcpy => None,
        Kind::NullCall | Kind::Unix | Kind::Tcp => Some(format!(
            "{} ×",
            number::times_column(row.p50_ns? / targets::floor_of(report, row)?)
        )),
        Kind::Pipelined => {
            Some(percent(row.calls_per_s? / targets::floor_in_flight_of(report, row)?))
        }
        Kind::Bandwidth => {
            let copies =
                || report.rows.iter().filter(|r| r.kind == Kind::Memcpy && r.bytes == row.bytes);
            let copy = copies().find(|r| r.domain == row.domain).or_else(|| copies().next())?;
            Some(percent(row.bytes_per_s? / copy.bytes_per_s.filter(|&b| b > 0.0)?))
        }
    }
}
