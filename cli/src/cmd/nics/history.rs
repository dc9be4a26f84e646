//! `vfun nics history` and `vfun nics chart`.

use super::ask::Allocator;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Output, Table};
use crate::programs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use vfun_admin::VmName;
use vfun_nics::history::{HistoryView, Hold, VmRates};

/// Show who used which VF from when to when, and what each VM sent.
///
/// Newest first, since vfun-nics started: the last 4096 times of VMs with VFs, and what each VM
/// sent in the last 360 intervals. With --json every interval is there.
#[derive(clap::Args, Debug)]
pub struct HistoryArgs {
    /// Only this pool.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

/// Draw the history of a pool: a lane for each VF, and a line for each VM's rate.
#[derive(clap::Args, Debug)]
pub struct ChartArgs {
    /// The pool.
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// The chart's file; its name ends in .svg or .png.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Shows it.
pub fn history(allocator: &Allocator, output: Output, args: &HistoryArgs) -> Result<()> {
    let history = allocator.history(args.pool.clone())?;
    output.show(&history, || render(&history))
}

fn render(history: &HistoryView) -> String {
    if history.holds.is_empty() && history.vms.is_empty() {
        return "nothing has happened since vfun-nics began\n".into();
    }
    let mut table = Table::new(&["FROM", "TO", ">FOR", "POOL", "VF", "VM"]);
    for hold in history.holds.iter().rev() {
        let to = hold.to_ms.map_or_else(|| "now".into(), |to| out::timestamp(to.cast_signed()));
        table.row([
            out::timestamp(hold.from_ms.cast_signed()),
            to,
            out::age(held_ms(history, hold) / 1000),
            hold.pool.clone(),
            hold.vf.to_string(),
            hold.vm.to_string(),
        ]);
    }
    let holds = if history.holds.is_empty() { String::new() } else { table.render() };
    format!("{holds}\n{}", rates(history))
}

fn held_ms(history: &HistoryView, hold: &Hold) -> u64 {
    hold.to_ms.unwrap_or(history.now_ms).saturating_sub(hold.from_ms)
}

fn rates(history: &HistoryView) -> String {
    let mut table = Table::new(&["VM", "POOL", ">HELD", ">PACKETS/S", ">MEAN", ">MOST"]);
    for rates in &history.vms {
        let (last, mean, most) = summary(rates);
        table.row([
            rates.vm.to_string(),
            rates.pool.clone(),
            out::age(held(history, &rates.vm) / 1000),
            out::rate(last),
            out::rate(mean),
            out::rate(most),
        ]);
    }
    let text = table.render();
    match history.rates_left_out {
        0 => text,
        n => format!(
            "{text}\nOf so many VMs only the last rates are shown: {n} older ones are left out.\n"
        ),
    }
}

/// How long a VM used VFs, ms.
fn held(history: &HistoryView, vm: &VmName) -> u64 {
    let of = history.holds.iter().filter(|h| h.vm == *vm);
    of.map(|hold| held_ms(history, hold)).sum()
}

/// Of all intervals: the last rate, the mean and the most.
fn summary(rates: &VmRates) -> (f64, f64, f64) {
    let all = || rates.points.iter().map(|p| p.packets_per_s);
    let mean = all().sum::<f64>() / rates.points.len().max(1) as f64;
    (all().next_back().unwrap_or(0.0), mean, all().fold(0.0, f64::max))
}

/// Draws it, by the program that draws charts.
pub fn chart(allocator: &Allocator, output: Output, args: &ChartArgs) -> Result<()> {
    let history = allocator.history(Some(args.pool.clone()))?;
    let Some(program) = programs::find("vfun-bench") else {
        return Err(Failure::new(
            Exit::Failed,
            "charts are drawn by the program vfun-bench, which is not installed here",
        )
        .advise("`make install` puts it into lib/virtfun; `vfun nics history --json` needs no other program"));
    };
    let failed = |e: std::io::Error| {
        Failure::new(Exit::Failed, format!("{} cannot be used: {e}", program.display()))
    };
    let mut child = Command::new(&program)
        .args(["nics-chart", "--pool", &args.pool, "--output"])
        .arg(&args.output)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let json = serde_json::to_vec(&history).expect("plain data");
    // One that ends without reading says why.
    let _ = child.stdin.take().expect("asked for").write_all(&json);
    let ended = child.wait_with_output().map_err(failed)?;
    match ended.status.success() {
        true => output.done(format!("the chart is in {}", args.output.display())),
        false => Err(Failure::new(Exit::Failed, said(&ended.stderr))),
    }
}

/// What it said, without its own head.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.trim().trim_start_matches("vfun: ").trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_nics::VfId;
    use vfun_nics::history::RatePoint;

    #[test]
    fn times_and_rates_are_summed_up() {
        let vm = VmName::new("web", "web");
        let hold = |from_ms, to_ms| Hold {
            pool: "cards".into(),
            vf: VfId("a".into()),
            vm: vm.clone(),
            from_ms,
            to_ms,
        };
        let point = |packets_per_s| RatePoint { at_ms: 0, packets_per_s, latency_us: None };
        let points = [100.0, 400.0, 250.0].map(point).to_vec();
        let history = HistoryView {
            now_ms: 100_000,
            holds: vec![hold(10_000, Some(20_000)), hold(40_000, None)],
            vms: vec![VmRates { vm: vm.clone(), pool: "cards".into(), points }],
            rates_left_out: 7,
        };
        assert_eq!(held(&history, &vm), 70_000);
        assert_eq!(summary(&history.vms[0]), (250.0, 250.0, 400.0));
        let text = render(&history);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("now") && lines[2].contains("00:00:20.000Z"), "{text}");
        assert!(lines[5].contains("web") && lines[5].contains("400"), "{text}");
        assert!(text.contains("7 older ones are left out"), "{text}");
        assert!(render(&HistoryView::default()).contains("nothing"));
    }
}
