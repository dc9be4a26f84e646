//! The kernel module's figures as text.

use super::{checks, head, number};
use crate::report::{ModuleReport, checks as targets};
use vfun_cli::out::Table;

/// The table, and the targets.
pub fn module(report: &ModuleReport) -> String {
    let mut text = head("The kernel module", &report.machine, &report.settings);
    let mut table = Table::ruled(&[]);
    for name in ["what", "path"] {
        table.column(name);
    }
    for name in [">p50", ">p99", ">over raw"] {
        table.column(name);
    }
    table.column("repeats from … to");
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows: Vec<_> = report.rows.iter().collect();
    rows.sort_by_key(|r| (r.kind, r.path.as_str()));
    for row in rows {
        let spread = row.spread_min.zip(row.spread_max);
        let spread =
            spread.map(|(a, b)| format!("{}: {} … {}", row.repeats, number::ns(a), number::ns(b)));
        table.row([
            row.kind.words().to_owned(),
            row.path.clone(),
            or_dash(row.p50_ns.map(number::ns)),
            or_dash(row.p99_ns.map(number::ns)),
            or_dash(row.over_raw.map(|_| format!("{} ×", row.compared().cell()))),
            or_dash(spread),
        ]);
    }
    text += &format!("\n{table}\n{}", checks(&targets::module(report)));
    text
}
