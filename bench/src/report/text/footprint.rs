//! Starting, memory and idling as text.

use super::{checks, head, number};
use crate::report::{FootprintReport, FootprintRow, checks as targets};
use vfun_cli::out::Table;

/// The table, and the targets.
pub fn footprint(report: &FootprintReport) -> String {
    let mut text =
        head("Footprint: what calling costs beside the calls", &report.machine, &report.settings);
    let mut table = Table::ruled(&[]);
    for name in ["domain", "transport", "what", "of", "doorbell"] {
        table.column(name);
    }
    for name in [">p50", ">most", ">memory", ">processor", ">times"] {
        table.column(name);
    }
    let mut rows: Vec<_> = report.rows.iter().collect();
    rows.sort_by_key(|r| (r.kind, r.domain, r.transport.as_str(), r.process.as_str()));
    for row in rows {
        table.row(cells(row));
    }
    text += &format!("\n{table}\n{}", checks(&targets::footprint(report)));
    text
}

fn cells(row: &FootprintRow) -> [String; 10] {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        row.domain.to_string(),
        row.transport.clone(),
        row.kind.words().to_owned(),
        row.process.clone(),
        if row.doorbell { "yes" } else { "no" }.to_owned(),
        or_dash(row.p50_ns.map(number::ns)),
        or_dash(row.max_ns.map(number::ns)),
        or_dash(row.bytes.map(number::megabytes)),
        or_dash(row.cpu_share.map(number::percent)),
        row.repeats.to_string(),
    ]
}
