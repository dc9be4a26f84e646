//! The figures of a remoted API as text.

use super::{checks, head, number};
use crate::report::{
    RemotingExperiment, RemotingRatio, RemotingReport, RemotingRow, checks as targets,
};
use vfun_cli::out::Table;

/// The tables, what was published beside them, and the targets.
pub fn remoting(report: &RemotingReport) -> String {
    let title = "Remoted APIs (gdma, PKCS#11): the published evaluation";
    let mut text = head(title, &report.machine, &report.settings);
    text += "  The engine is simulated: it takes a processor of this machine, and its own time is \
             no hardware's.\n";
    for &experiment in RemotingExperiment::ALL {
        text += &table(report, experiment);
    }
    text += "\nleast: the p50s of the turn with the least times, which other programs disturbed least. \
             Targets are held against the ratio with its interval.\n";
    text += &report.published.lines();
    text += &format!("\n{}", checks(&targets::remoting(report)));
    text
}

fn title(experiment: RemotingExperiment) -> &'static str {
    match experiment {
        RemotingExperiment::Calls => "A forwarded call",
        RemotingExperiment::Answers => {
            "Answers of the guest's library by itself, 256 timed together"
        }
        RemotingExperiment::Records => {
            "A call that nobody waits for: what each adds to a call behind 64 of them"
        }
        RemotingExperiment::Pkcs11 => "PKCS#11, with SoftHSM's tokens",
        RemotingExperiment::Allocation => {
            "A buffer, allocated and mapped (published: figure 6: native flat, remoted in proportion to the size)"
        }
        RemotingExperiment::Transfers => {
            "One transfer (published: figure 7: 0.93 of the native rate at 512 KiB)"
        }
        RemotingExperiment::Bursts => {
            "Bursts (published: figure 8: 0.96 of the native rate at 2 MiB)"
        }
        RemotingExperiment::Completion => {
            "A callback, with the service awake (published: 130 to 140 µs later)"
        }
        RemotingExperiment::Waiting => {
            "A forwarded call in each way to wait (published: figure 9: spinning is orders of magnitude faster)"
        }
        RemotingExperiment::Latency => {
            "From start to end (published: figure 10: about 3 µs more if polled, more by events)"
        }
        RemotingExperiment::Throughput => "Small transfers, 64 under way (published: figure 11)",
    }
}

fn ns(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number::ns)
}

/// What is added may be less than nothing.
fn more(value: Option<f64>) -> String {
    let words = |v: f64| if v < 0.0 { format!("-{}", number::ns(-v)) } else { number::ns(v) };
    value.map_or_else(|| "-".to_owned(), words)
}

fn rate(row: &RemotingRow, per_s: Option<f64>) -> String {
    match (per_s, row.bytes) {
        (None, _) => "-".to_owned(),
        (Some(n), Some(1)) => number::rate(n),
        (Some(n), _) => number::bandwidth(n),
    }
}

fn of(ratio: RemotingRatio) -> &'static str {
    match ratio {
        RemotingRatio::Time => "time",
        RemotingRatio::Rate => "rate",
        RemotingRatio::Added => "what is added",
    }
}

fn table(report: &RemotingReport, experiment: RemotingExperiment) -> String {
    let mut t = Table::ruled(&[
        "what",
        ">bytes",
        "waits",
        ">p50",
        ">p99",
        ">least",
        "beside",
        ">p50",
        ">p99",
        ">least",
        ">more",
        ">rate",
        ">its rate",
        "ratio",
        ">of",
        ">of the least",
        ">dropped",
        ">crossings",
    ]);
    let mut simulated = false;
    let mut any = false;
    for r in report.of(experiment) {
        any = true;
        simulated |= r.simulated;
        t.row([
            r.case.clone(),
            r.bytes.map_or_else(|| "-".to_owned(), number::bytes),
            r.wait.to_string(),
            more(r.p50_ns),
            ns(r.p99_ns),
            more(r.least_ns),
            r.base.clone(),
            ns(r.base_p50_ns),
            ns(r.base_p99_ns),
            ns(r.base_least_ns),
            more(r.added_ns),
            rate(r, r.per_s),
            rate(r, r.base_per_s),
            of(r.ratio_of).to_owned(),
            r.compared().cell(),
            r.least_ratio.map_or_else(|| "-".to_owned(), number::times),
            format!("{}/{}", r.dropped, r.pairs),
            r.crossings.map_or_else(|| "-".to_owned(), number::times),
        ]);
    }
    let source = if simulated { "measured, with the simulated engine" } else { "measured" };
    if any { format!("\n{}, {source}\n{t}", title(experiment)) } else { String::new() }
}
