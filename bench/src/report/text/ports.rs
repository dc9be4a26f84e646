//! Ports as text.

use super::{checks, head, number};
use crate::report::{PortsFigure, PortsReport, PortsRow, checks as targets};
use vfun_cli::out::Table;

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// What a row is of, and what it is held against.
pub(in crate::report) fn names(figure: PortsFigure) -> (&'static str, &'static str) {
    match figure {
        PortsFigure::OneWay => ("a frame, one way", "a bare line"),
        PortsFigure::EmptyLook => ("a look at an empty ring", "a bare line"),
        PortsFigure::Ring => ("the ring alone", "memcpy"),
        PortsFigure::RingMemif => ("the ring alone", "net_memif"),
        PortsFigure::RingVhost => ("the ring alone", "net_vhost"),
        PortsFigure::DriverMemif => ("net_vfun", "net_memif"),
        PortsFigure::DriverVhost => ("net_vfun", "net_vhost"),
        PortsFigure::LinkOneWay => ("direct", "the switch"),
        PortsFigure::LinkBothWays => ("direct, both ways", "the switch"),
    }
}

fn frame(row: &PortsRow) -> String {
    or_dash(row.frame_bytes.map(|bytes| format!("{bytes} B")))
}

/// Times without their whole digits where they are short.
fn short(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1} ns") } else { number::ns(ns) }
}

fn ratios(row: &PortsRow) -> [String; 2] {
    [row.compared().cell(), format!("{} of {}", row.dropped, row.pairs)]
}

fn rates(row: &PortsRow) -> Vec<String> {
    let (what, beside) = names(row.figure);
    let reach = |low: Option<f64>, high: Option<f64>| {
        let bare = |per_s| number::rate(per_s).replace("/s", "").trim_end().to_owned();
        let words = |(low, high)| format!("{} … {}", bare(low), number::rate(high));
        or_dash(low.zip(high).map(words))
    };
    let middle = |per_s: Option<f64>| or_dash(per_s.map(number::rate));
    let own = match row.left_out {
        Some(_) => "left out".to_owned(),
        None => middle(row.frames_per_s),
    };
    let cells = vec![
        what.to_owned(),
        frame(row),
        own,
        reach(row.frames_per_s_low, row.frames_per_s_high),
        beside.to_owned(),
        middle(row.base_per_s),
        reach(row.base_per_s_low, row.base_per_s_high),
    ];
    cells.into_iter().chain(ratios(row)).collect()
}

fn times(row: &PortsRow) -> Vec<String> {
    let (what, beside) = names(row.figure);
    let ns = |of: Option<f64>| or_dash(of.map(short));
    let cells = vec![
        what.to_owned(),
        frame(row),
        ns(row.p50_ns),
        ns(row.p99_ns),
        beside.to_owned(),
        ns(row.base_p50_ns),
        ns(row.base_p99_ns),
    ];
    cells.into_iter().chain(ratios(row)).collect()
}

/// What is to be known of some rows: that they were left out, or had too few processors.
fn notes(report: &PortsReport) -> String {
    let name = |row: &PortsRow| {
        let (what, beside) = names(row.figure);
        let bytes = row.frame_bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
        format!("{what} beside {beside}{bytes}")
    };
    let note = |row: &PortsRow| {
        match &row.left_out {
        Some(why) => Some(format!("{}: left out: {why}\n", name(row))),
        None => row.is_crowded().then(|| {
            format!(
                "{}: {} threads look without a pause, and there are {} processors: the figures mean little\n",
                name(row),
                row.spinning,
                row.processors
            )
        }),
    }
    };
    let notes: String = report.rows.iter().filter_map(note).collect();
    if notes.is_empty() { notes } else { format!("\n{notes}") }
}

/// How soon a frame is there, how many go through, beside what, and the targets.
pub fn ports(report: &PortsReport) -> String {
    let mut text =
        head("Ports: frames through rings of packets", &report.machine, &report.settings);
    let mut soon = Table::ruled(&["time"]);
    for column in [">frame", ">p50", ">p99", "beside", ">its p50", ">its p99", ">ratio"] {
        soon.column(column);
    }
    let mut many = Table::ruled(&["frames a second"]);
    for column in [">frame", ">median", ">spread", "beside", ">its median", ">its spread", ">ratio"]
    {
        many.column(column);
    }
    for table in [&mut soon, &mut many] {
        table.column(">dropped");
    }
    let is_time = |f: PortsFigure| matches!(f, PortsFigure::OneWay | PortsFigure::EmptyLook);
    for row in &report.rows {
        match is_time(row.figure) {
            true => soon.row(times(row)),
            false => many.row(rates(row)),
        }
    }
    if report.rows.iter().any(|row| is_time(row.figure)) {
        text += &format!("\n{soon}");
    }
    text += &format!("\n{many}{}\n{}", notes(report), checks(&targets::ports(report)));
    text
}
