//! Many clients and channels as text.

use super::{checks, head, number};
use crate::report::{ScaleReport, ScaleRow, checks as targets};
use vfun_cli::out::Table;

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn time(ns: Option<f64>) -> String {
    or_dash(ns.map(number::ns))
}

fn table(columns: &[&str]) -> Table {
    let mut table = Table::ruled(&[]);
    for name in ["clients", "channels"].iter().chain(columns) {
        table.column(&format!(">{name}"));
    }
    table
}

fn sized<const N: usize>(row: &ScaleRow, cells: [String; N]) -> Vec<String> {
    [row.clients.to_string(), row.channels.to_string()].into_iter().chain(cells).collect()
}

fn calls(row: &ScaleRow) -> Vec<String> {
    sized(
        row,
        [
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.control_p50_ns),
            time(row.control_p99_ns),
            row.p50_compared().cell(),
            row.p99_compared().cell(),
            format!("{} of {}", row.dropped, row.pairs),
            time(row.paced_p50_ns),
            row.paced_compared().cell(),
            row.busy.to_string(),
            or_dash(row.busy_per_s.map(number::rate)),
            time(row.busy_p50_ns),
            time(row.busy_p99_ns),
        ],
    )
}

fn system(row: &ScaleRow) -> Vec<String> {
    let bytes = |n: Option<u64>| or_dash(n.map(number::megabytes));
    let share = |s: Option<f64>| or_dash(s.map(number::percent));
    let span = row.take_over_min_ns.zip(row.take_over_max_ns);
    let span = span.map(|(a, b)| format!("{} … {}", number::ns(a), number::ns(b)));
    sized(
        row,
        [
            time(row.start_p50_ns),
            time(row.activation_p50_ns),
            time(row.activation_max_ns),
            time(Some(row.opened_seconds * 1e9)),
            bytes(row.manager_bytes),
            bytes(row.services_bytes),
            share(row.manager_share),
            share(row.services_share),
            time(row.take_over_ns),
            or_dash(span),
            format!("{} of {}", row.failed_meanwhile, row.calls_meanwhile),
        ],
    )
}

/// Calls, what the system takes, and the targets.
pub fn scale(report: &ScaleReport) -> String {
    let title = "Scale: many clients and channels, few of them busy";
    let mut text = head(title, &report.machine, &report.settings);
    let mut first = table(&[
        "p50",
        "p99",
        "one of 8: p50",
        "p99",
        "p50 over that",
        "p99 over that",
        "dropped",
        "after a pause",
        "over that",
        "busy",
        "their calls",
        "p50",
        "p99",
    ]);
    let mut second = table(&[
        "start",
        "activation",
        "slowest",
        "all active",
        "manager",
        "services",
        "manager idle",
        "services idle",
        "take-over",
        "from … to",
        "calls failed",
    ]);
    for row in &report.rows {
        first.row(calls(row));
        second.row(system(row));
    }
    text += &format!("\n{first}\n{second}\n");
    let each = |what: &str, bytes: Option<f64>| match bytes {
        Some(bytes) => format!("another {what} takes {:.1} KiB\n", bytes / 1024.0),
        None => String::new(),
    };
    text += &each("idle channel", report.channel_bytes);
    text += &each("client with one idle channel", report.client_bytes);
    text += &format!("\n{}", checks(&targets::scale(report)));
    text
}
