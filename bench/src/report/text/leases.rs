//! The figures of leases as text.

use super::{checks, head, number};
use crate::report::{Experiment, LeasesReport, LeasesRow, Source, checks as targets};
use vfun_cli::out::Table;

/// The tables of what was measured, how run and simulated agree, and the targets.
pub fn leases(report: &LeasesReport) -> String {
    let mut text = head(
        "Leases, on a device that is only modelled (simulated, no hardware)",
        &report.machine,
        &report.settings,
    );
    for part in [gain(report), switch(report), crowds(report, Experiment::Groups)] {
        text += &part;
    }
    text += &crowds(report, Experiment::Starvation);
    text += &crowds(report, Experiment::Worth);
    text += &agreement(report);
    text += &format!("\n{}", report.published.lines());
    text += &format!("\n{}", checks(&targets::leases(report)));
    text
}

fn ns(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number::ns)
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{:.1} %", 100.0 * v))
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "one after the other".to_owned(), |r| format!("{r:.0}"))
}

fn gain(report: &LeasesReport) -> String {
    let mut t = Table::ruled(&[">bytes", ">calls/s", ">software p50", ">VF p50", ">boost"]);
    let mut any = false;
    for r in report.of(Experiment::Gain) {
        let bytes = number::bytes(r.bytes.unwrap_or(0));
        t.row([bytes, rate(r.per_s), ns(r.soft_ns), ns(r.hard_ns), percent(r.boost)]);
        any = true;
    }
    let title = "\nWhat a VF gains: boost = (software − VF) / software\n";
    if any { format!("{title}{t}") } else { String::new() }
}

fn switch(report: &LeasesReport) -> String {
    let mut t = Table::ruled(&[
        "a call that crosses a switch",
        ">switches",
        ">adds p50",
        ">p99",
        ">most",
        ">an ordinary call's p99 − p50",
        ">calls",
        ">failed",
        ">wrong",
        ">lost",
        ">repeated",
    ]);
    let mut any = false;
    for r in report.of(Experiment::Switch) {
        t.row([
            r.group.clone().unwrap_or_default(),
            count(r.switches),
            ns(r.added_p50_ns),
            ns(r.added_p99_ns),
            ns(r.added_max_ns),
            ns(r.ordinary_p99_ns),
            r.calls.to_string(),
            count(r.failed),
            count(r.wrong),
            count(r.lost),
            count(r.repeated),
        ]);
        any = true;
    }
    if any {
        format!("\nA live switch, in the middle of a running load\n{t}")
    } else {
        String::new()
    }
}

fn crowds(report: &LeasesReport, experiment: Experiment) -> String {
    let mut text = String::new();
    for (source, clients) in report.crowds(experiment) {
        let of = |r: &&LeasesRow| r.source == source && r.clients == Some(clients);
        let rows: Vec<_> = report.of(experiment).filter(of).collect();
        let vfs = rows.iter().find_map(|r| r.vfs).unwrap_or(0);
        let what = match (experiment, source) {
            (Experiment::Starvation, Source::Real) => "A steady client beside heavy ones",
            (Experiment::Starvation, Source::Simulated) => {
                "A steady client beside heavy ones, in simulated time"
            }
            (Experiment::Worth, Source::Real) => "Frequent calls beside ones that gain more",
            (Experiment::Worth, Source::Simulated) => {
                "Frequent calls beside ones that gain more, in simulated time"
            }
            (_, Source::Real) => "Groups of clients, run",
            (_, Source::Simulated) => "Groups of clients, in simulated time",
        };
        text += &format!("\n{what}: {clients} clients, {vfs} VFs\n{}", crowd(&rows));
        let sums = report.in_calls(experiment, source, clients);
        let sums: Vec<_> = sums.iter().map(|(p, s)| format!("{p} {:.0} ms", 1e3 * s)).collect();
        text += &format!("all clients' time in calls, in a second: {}\n", sums.join(", "));
    }
    text
}

fn crowd(rows: &[&LeasesRow]) -> Table {
    let mut t = Table::ruled(&[
        "policy",
        "group",
        ">calls/s each",
        ">time on a VF",
        ">longest without",
        ">call p5",
        ">p25",
        ">p50",
        ">p75",
        ">p95",
        ">p99",
        ">switches",
        ">calls",
        ">gone wrong",
    ]);
    let mut before = None;
    for r in rows {
        let policy = r.policy.clone().unwrap_or_default();
        let shown = if before.as_ref() == Some(&policy) { String::new() } else { policy.clone() };
        before = Some(policy);
        let wrong = [r.failed, r.wrong, r.lost, r.repeated];
        t.row([
            shown,
            r.group.clone().unwrap_or_default(),
            rate(r.per_s),
            percent(r.vf_share),
            r.without_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.2} s")),
            ns(r.p5_ns),
            ns(r.p25_ns),
            ns(r.p50_ns),
            ns(r.p75_ns),
            ns(r.p95_ns),
            ns(r.p99_ns),
            count(r.switches),
            r.calls.to_string(),
            count(wrong.into_iter().collect::<Option<Vec<_>>>().map(|w| w.iter().sum())),
        ]);
    }
    t
}

fn agreement(report: &LeasesReport) -> String {
    let Some([calls, shares]) = report.differences() else { return String::new() };
    let mut t = Table::ruled(&[
        "experiment",
        "policy",
        "group",
        ">VF time run",
        ">simulated",
        ">call p50 run",
        ">simulated",
        ">off by",
    ]);
    for a in &report.agreement {
        t.row([
            a.experiment.to_string(),
            a.policy.clone(),
            a.group.clone(),
            percent(Some(a.real_share)),
            percent(Some(a.simulated_share)),
            number::ns(a.real_p50_ns),
            number::ns(a.simulated_p50_ns),
            format!("{:+.1} %", 100.0 * a.p50_off()),
        ]);
    }
    format!(
        "\nRun and simulated, the same crowd\n{t}the medians of calls differ by {:.1} % at the median of these rows, {:.1} % at most; the shares of VF time by {:.1} and {:.1} points\n",
        100.0 * calls.0,
        100.0 * calls.1,
        100.0 * shares.0,
        100.0 * shares.1,
    )
}
