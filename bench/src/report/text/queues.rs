//! Queues as text.

use super::{checks, head, number};
use crate::report::{QueuesReport, QueuesRow, checks as targets};
use vfun_cli::out::Table;

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn ratios(row: &QueuesRow) -> [String; 2] {
    [row.compared().cell(), format!("{} of {}", row.dropped, row.pairs)]
}

fn table(columns: &[&str]) -> Table {
    let mut table = Table::ruled(&[]);
    columns.iter().for_each(|name| table.column(&format!(">{name}")));
    table.column(">dropped");
    table
}

/// How soon an entry is there, how many go through, and the targets.
pub fn queues(report: &QueuesReport) -> String {
    let mut text = head("Queues: entries that go one way", &report.machine, &report.settings);
    let mut one_way =
        table(&["one way", "p50", "p99", "floor p50", "floor p99", "ring p50", "over floor"]);
    let mut rates = table(&["entry", "batch", "entries", "bare ring", "of the ring"]);
    for row in &report.rows {
        let entry = format!("{} B", row.entry_bytes);
        let [ratio, spread] = ratios(row);
        match row.batch {
            None => {
                let times = [row.p50_ns, row.p99_ns, row.floor_p50_ns, row.floor_p99_ns];
                let times = times.into_iter().chain([row.ring_p50_ns]);
                let times = times.map(|ns| or_dash(ns.map(number::ns)));
                let cells = [entry].into_iter().chain(times).chain([ratio, spread]);
                one_way.row(cells);
            }
            Some(batch) => rates.row([
                entry,
                batch.to_string(),
                or_dash(row.entries_per_s.map(number::rate)),
                or_dash(row.ring_per_s.map(number::rate)),
                ratio,
                spread,
            ]),
        }
    }
    text += &format!("\n{one_way}\n{rates}\n{}", checks(&targets::queues(report)));
    text
}
