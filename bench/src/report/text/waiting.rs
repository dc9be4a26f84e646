//! The ways to wait as text.

use super::{checks, head, number};
use crate::report::{Waiting, WaitingReport, WaitingRow, checks as targets};
use vfun_cli::out::Table;

/// The table, and the targets.
pub fn waiting(report: &WaitingReport) -> String {
    let mut text = head("Waiting: spin, hybrid and sleep", &report.machine, &report.settings);
    let mut table = Table::ruled(&[]);
    for name in ["domain", "transport", "what", "mode"] {
        table.column(name);
    }
    for name in [">of", ">p50", ">p99", ">calls", ">least/most", ">processor", ">ratio"] {
        table.column(name);
    }
    for name in ["to", "repeats from … to"] {
        table.column(name);
    }
    let mut rows: Vec<_> = report.rows.iter().collect();
    rows.sort_by_key(|r| (r.domain, r.kind, r.mode));
    for row in rows {
        table.row(cells(row));
    }
    text += &format!("\n{table}\n{}", checks(&targets::waiting(report)));
    text
}

fn cells(row: &WaitingRow) -> [String; 13] {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let words = match row.kind {
        Waiting::Idle | Waiting::IdleBefore => number::percent,
        Waiting::Alone | Waiting::Crowd => number::rate,
        Waiting::BareDoorbell | Waiting::NullCall => number::ns,
    };
    let spread = row.spread_min.zip(row.spread_max);
    [
        row.domain.to_string(),
        row.transport.clone(),
        row.kind.words().to_owned(),
        or_dash(row.mode.map(|m| m.to_string())),
        row.count.to_string(),
        or_dash(row.p50_ns.map(number::ns)),
        or_dash(row.p99_ns.map(number::ns)),
        or_dash(row.calls_per_s.map(number::rate)),
        or_dash(row.least_over_most.map(number::times)),
        or_dash(row.cpu_share.map(number::percent)),
        or_dash(row.compared().map(|c| format!("{} ×", c.cell()))),
        row.against.clone().unwrap_or_default(),
        or_dash(spread.map(|(a, b)| format!("{}: {} … {}", row.repeats, words(a), words(b)))),
    ]
}
