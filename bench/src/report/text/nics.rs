//! The figures of network VFs as text.

use super::{checks, head, number};
use crate::report::{NicsExperiment, NicsReport, NicsRow, Origin, checks as targets, published};
use vfun_cli::out::Table;

/// The tables, what was published beside them, and the targets.
pub fn nics(report: &NicsReport) -> String {
    let mut text = head("Network VFs: the published evaluation", &report.machine, &report.settings);
    for case in report.cases(NicsExperiment::Groups) {
        text += &scene(report, NicsExperiment::Groups, case, "Groups (published: figure 7)");
    }
    for case in report.cases(NicsExperiment::Rates) {
        text += &scene(
            report,
            NicsExperiment::Rates,
            case,
            "VMs of every rate (published: figures 2, 3 and 5)",
        );
    }
    for case in report.cases(NicsExperiment::Starvation) {
        text += &starvation(report, case);
    }
    for case in report.cases(NicsExperiment::Liar) {
        text += &scene(report, NicsExperiment::Liar, case, "VMs that lie about their packets");
    }
    text += &decision(report);
    text += &daemon(report);
    text += &moves(report);
    text += &format!("\n{}{}", report.published.lines(), report.published.nics_lines());
    text += &format!("\n{}", checks(&targets::nics(report)));
    text
}

fn ns(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number::ns)
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{:.1} %", 100.0 * v))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1} s"))
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

/// What all rows of a case have in common.
fn common(rows: &[&NicsRow]) -> String {
    let Some(r) = rows.first() else { return String::new() };
    let every =
        |what: &str, s: Option<f64>| s.map_or_else(String::new, |s| format!(", {what} {s:.0} s"));
    format!(
        "{} VMs, {} VFs{}{}",
        r.vms,
        r.vfs,
        every("interval", r.interval_s),
        every("tenure", r.tenure_s)
    )
}

fn scene(report: &NicsReport, experiment: NicsExperiment, case: &str, what: &str) -> String {
    let rows: Vec<_> = report.of(experiment).filter(|r| r.case == case).collect();
    let mut t = Table::ruled(&[
        "policy",
        "group",
        ">VMs",
        ">packets/s each",
        ">boost",
        ">time on a VF",
        ">least",
        ">longest without",
        ">a packet, mean of a VM: p5",
        ">p50",
        ">p95",
        ">faster",
        ">saves",
        ">got a VF",
        ">kept least",
    ]);
    let mut before = None;
    for r in &rows {
        let shown =
            if before == r.policy.as_deref() { "" } else { r.policy.as_deref().unwrap_or("-") };
        before = r.policy.as_deref();
        t.row([
            shown.to_owned(),
            r.group.clone().unwrap_or_default(),
            r.members.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            r.per_s.map_or_else(|| "-".to_owned(), |n| format!("{n:.0}")),
            percent(r.boost),
            percent(r.vf_share),
            percent(r.vf_share_least),
            seconds(r.without_s),
            ns(r.p5_ns),
            ns(r.p50_ns),
            ns(r.p95_ns),
            r.faster.map_or_else(|| "-".to_owned(), |f| format!("{} x", number::times(f))),
            percent(r.saved),
            count(r.moves),
            seconds(r.least_s),
        ]);
    }
    let sums = report.saved(experiment, case);
    let sums: Vec<_> = sums.iter().map(|(p, s)| format!("{p} {:.1} %", 100.0 * s)).collect();
    format!(
        "\n{what}, {}, {case}: {}\n{t}of the time that so many VFs can save at most: {}\n",
        Origin::Simulated,
        common(&rows),
        sums.join(", ")
    )
}

fn starvation(report: &NicsReport, case: &str) -> String {
    let rows: Vec<_> = report.of(NicsExperiment::Starvation).filter(|r| r.case == case).collect();
    let mut t = Table::ruled(&[
        "policy",
        "group",
        ">packets/s each",
        ">time on a VF",
        ">longest without",
        ">throughput",
    ]);
    for r in &rows {
        t.row([
            r.policy.clone().unwrap_or_default(),
            r.group.clone().unwrap_or_default(),
            r.per_s.map_or_else(|| "-".to_owned(), |n| format!("{n:.0}")),
            percent(r.vf_share),
            seconds(r.without_s),
            percent(r.throughput),
        ]);
    }
    format!(
        "\nA file server beside VMs that send packets (published: figure 8), {}, {case}: {}\n{t}throughput: of that with a VF at all times; without one 7 %, as published\n",
        Origin::Simulated,
        common(&rows)
    )
}

fn decision(report: &NicsReport) -> String {
    let mut t = Table::ruled(&[
        "of the core of vfun-nics",
        ">VMs",
        ">VFs",
        ">times",
        ">p50",
        ">p99",
        ">most",
    ]);
    let mut any = false;
    for r in report.of(NicsExperiment::Decision) {
        any = true;
        t.row([
            r.case.clone(),
            r.vms.to_string(),
            r.vfs.to_string(),
            count(r.times),
            ns(r.p50_ns),
            ns(r.p99_ns),
            ns(r.max_ns),
        ]);
    }
    if any { format!("\nWhat deciding takes, {}\n{t}", Origin::Measured) } else { String::new() }
}

fn daemon(report: &NicsReport) -> String {
    let mut t =
        Table::ruled(&["the process vfun-nics", ">VMs", ">VFs", ">processor", ">memory a VM"]);
    let mut any = false;
    for r in report.of(NicsExperiment::Daemon) {
        any = true;
        t.row([
            r.case.clone(),
            r.vms.to_string(),
            r.vfs.to_string(),
            r.cpu_share.map_or_else(|| "-".to_owned(), number::percent),
            r.vm_bytes.map_or_else(|| "-".to_owned(), |b| format!("{:.0} KB", b / 1e3)),
        ]);
    }
    let title =
        format!("\nWhat the process takes, {} (each VM reports once a second)\n", Origin::Measured);
    if any { format!("{title}{t}") } else { String::new() }
}

/// The steps of moves, and what was published of two of them.
fn moves(report: &NicsReport) -> String {
    let mut t = Table::ruled(&["step of a move", ">times", ">p50", ">p99", ">most", ">published"]);
    let mut any = false;
    let (plug, unplug) = published::NICS_PLUG_NS;
    for r in report.of(NicsExperiment::Moves) {
        any = true;
        let published = match r.case.split(':').next() {
            Some("hot-plug") => Some(plug),
            Some("hot-unplug") => Some(unplug),
            _ => None,
        };
        t.row([
            r.case.clone(),
            count(r.times),
            ns(r.p50_ns),
            ns(r.p99_ns),
            ns(r.max_ns),
            ns(published),
        ]);
    }
    let title = format!(
        "\nWhat a move takes, {} (published: table 2): two guests, one VF that QEMU emulates\n",
        Origin::Measured
    );
    if any { format!("{title}{t}") } else { String::new() }
}
