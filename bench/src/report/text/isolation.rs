//! The figures of isolation as text.

use super::{checks, head, number};
use crate::report::{IsolationReport, checks as targets};
use vfun_cli::out::Table;

/// The table, and the targets.
pub fn isolation(report: &IsolationReport) -> String {
    let mut text =
        head("An innocent client's calls under attack", &report.machine, &report.settings);
    let mut table = Table::ruled(&[]);
    table.column("attack");
    for name in [">threads", ">p50", ">p99", ">idle p50", ">idle p99", ">p99 over idle"] {
        table.column(name);
    }
    table.column(">repeats");
    table.column(">calls over idle");
    let ns = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number::ns);
    let by = |value: f64| format!("{} ×", number::times(value));
    for row in &report.rows {
        table.row([
            row.attack.clone(),
            row.threads.to_string(),
            ns(row.p50_ns),
            ns(row.p99_ns),
            ns(row.idle_p50_ns),
            ns(row.idle_p99_ns),
            format!("{} ×", row.compared().cell()),
            row.repeats.to_string(),
            row.rate_over_idle.map_or_else(|| "-".to_owned(), by),
        ]);
    }
    text += &format!("\n{table}\n{}", checks(&targets::isolation(report)));
    text
}
