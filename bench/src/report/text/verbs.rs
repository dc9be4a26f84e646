//! Verbs as text.

use super::{checks, head, number};
use crate::report::{VerbsFigure, VerbsReport, VerbsRow, checks as targets};
use vfun_cli::out::Table;

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn name(row: &VerbsRow) -> String {
    match row.figure {
        VerbsFigure::Write => "write, to its completion".into(),
        VerbsFigure::InFlight => "each of 64 under way".into(),
        VerbsFigure::Bandwidth => format!("writes of {} KiB", row.bytes >> 10),
        VerbsFigure::Event => "asleep until it completes".into(),
        VerbsFigure::Many => "16 of 1000 queue pairs".into(),
        VerbsFigure::Register => format!("register {} KiB", row.bytes >> 10),
        VerbsFigure::RegisterAgain => format!("register {} KiB again", row.bytes >> 10),
    }
}

fn floor(row: &VerbsRow) -> &'static str {
    match row.figure {
        VerbsFigure::Write | VerbsFigure::InFlight => "a line there and back",
        VerbsFigure::Bandwidth | VerbsFigure::Register => "memcpy",
        VerbsFigure::RegisterAgain => "a control call",
        VerbsFigure::Event => "bare doorbells",
        VerbsFigure::Many => "16 alone",
    }
}

/// Each figure, its floor, and the targets.
pub fn verbs(report: &VerbsReport) -> String {
    let mut text =
        head("Verbs: a program and the NIC of its host", &report.machine, &report.settings);
    let mut table = Table::ruled(&["figure"]);
    for column in [">p50", ">p99", ">floor p50", ">floor p99", "floor", ">ratio", ">dropped"] {
        table.column(column);
    }
    for row in &report.rows {
        let ns = |of: Option<f64>| or_dash(of.map(number::ns));
        let rate = |of: Option<f64>| of.map(|per_s| format!("{:.1} GB/s", per_s / 1e9));
        let own = rate(row.bytes_per_s).unwrap_or_else(|| ns(row.p50_ns));
        let beside = rate(row.floor_bytes_per_s).unwrap_or_else(|| ns(row.floor_p50_ns));
        table.row([
            name(row),
            own,
            ns(row.p99_ns),
            beside,
            ns(row.floor_p99_ns),
            floor(row).into(),
            row.compared().cell(),
            format!("{} of {}", row.dropped, row.pairs),
        ]);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let spinning = report.rows.iter().map(|row| row.spinning).max().unwrap_or_default();
    if spinning as usize > cpus {
        text += &format!(
            "\n{spinning} threads look without a pause on {cpus} processors: times mean little.\n"
        );
    }
    text += &format!("\n{table}\n{}", checks(&targets::verbs(report)));
    text
}
