//! How small a call may be, as text.

use super::{checks, head, number};
use crate::report::published::Published;
use crate::report::rows::Finest;
use crate::report::{Domain, GrainReport, GrainRow, checks as targets, published};
use vfun_cli::out::Table;

/// The table, the finest grain of each line, and the target.
pub fn grain(report: &GrainReport) -> String {
    let mut text = head("Grain: slowdown by the work in a call", &report.machine, &report.settings);
    let lines = report.lines();
    if lines.is_empty() {
        return text + "\nNothing was measured.\n";
    }
    let mut table = Table::ruled(&[]);
    table.column(">work in a call");
    for (domain, transport, _) in &lines {
        table.column(&format!(">{domain} ({transport})"));
    }
    let mut works: Vec<f64> = report.rows.iter().map(|r| r.work_ns).collect();
    works.sort_by(f64::total_cmp);
    works.dedup();
    for work in works {
        let mut cells = vec![number::ns(work)];
        for (_, _, rows) in &lines {
            let row = rows.iter().find(|r| r.work_ns == work);
            cells.push(row.map_or_else(|| "-".to_owned(), |r| r.compared().cell()));
        }
        table.row(cells);
    }
    text += &format!("\n{table}");
    text += "Slowdown: the time of a call over that of its work by a plain function call; 1.000 is none. In brackets the \
        interval that holds it in 95 of 100 runs; ? is one that cannot be told.\n\n";
    text += &dropped(&report.rows);
    for (domain, transport, rows) in &lines {
        text += &format!("{}\n", sentence(*domain, transport, rows));
    }
    let (low, high) = published::CALL_NS;
    text += &format!(
        "Published: a maximum slowdown of 2.8 % against native at {} to {} ms a call ({}).\n",
        number::times(low / 1e6),
        number::times(high / 1e6),
        Published::virtfun().line()
    );
    let targets = targets::grain(report);
    if !targets.is_empty() {
        text += &format!("\n{}", checks(&targets));
    }
    text
}

fn dropped(rows: &[GrainRow]) -> String {
    let of = |f: fn(&GrainRow) -> u32| rows.iter().map(f).sum::<u32>();
    format!(
        "{} of {} pairs of slices were dropped, as the kernel says they were disturbed.\n",
        of(|r| r.dropped),
        of(|r| r.pairs)
    )
}

fn sentence(domain: Domain, transport: &str, rows: &[&GrainRow]) -> String {
    let line = format!("{domain} ({transport})");
    let (low, high) = published::CALL_NS;
    let finest = Finest::of(rows);
    let Some(told) = finest.told() else {
        return match rows.last() {
            Some(coarsest) if finest.low.is_none() => format!(
                "{line} does not stay within 2.8 %: at {} of work, the coarsest measured, it takes {}.",
                number::ns(coarsest.work_ns),
                coarsest.compared().words()
            ),
            Some(_) => format!("{line} stays within 2.8 %: {}.", finest.words()),
            None => format!("{line} was not measured."),
        };
    };
    let finest_measured = rows.first().is_some_and(|r| r.work_ns == told);
    let bound = if finest_measured { ", the finest measured" } else { "" };
    let than = match (low / told, high / told) {
        (a, b) if a >= 1.0 => {
            format!("{} to {} times as fine as published", number::times(a), number::times(b))
        }
        (_, b) if b >= 1.0 => "within the published range".to_owned(),
        (_, b) => format!("{} times as coarse as published", number::times(1.0 / b)),
    };
    format!("{line} stays within 2.8 % {} of work a call{bound}: {than}.", finest.words())
}
