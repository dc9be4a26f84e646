//! `vfun top`.

mod sample;
mod screen;
mod view;

use crate::admin::Admin;
use crate::args::Cli;
use crate::fail::Result;
use crate::out;
use sample::{Sample, Sampler};
use std::time::Duration;
use view::{Key, View};

const AFTER: &str = "\
Keys: c, e, p, i, b, n: sort by calls, errors, p99, bytes, busy, name; r: turn the order round; arrows: \
scroll; f or /: filter by client, app, function or transport; space or P: pause; + and -: look less or more \
often; h or ?: help; q: end.

P50 and P99 are of the calls sampled between two looks, in the service. BUSY, SPIN and SLEEP are the \
service's shares of the time. A service that does not measure shows -.

For scripts: vfun top --once (text) or --json (one object; with --count, one a line).";

/// Show live who calls what, how often, how fast, and how services wait.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = super::ps::seconds)]
    interval: Duration,
    /// Print one sample as text and end.
    #[arg(long)]
    once: bool,
    /// Print so many samples and end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Sort by this.
    #[arg(short, long, value_name = "KEY", value_enum, default_value_t = Key::Calls)]
    sort: Key,
    /// Only what has this in its client, app, function or transport.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    filter: String,
}

/// Shows it.
pub fn run(cli: &Cli, args: &Args) -> Result<()> {
    let mut sampler = Sampler::new(Admin::of(cli));
    let mut view = View::new(args.sort, &args.filter, args.interval);
    if !args.once && args.count.is_none() && !cli.json {
        return screen::run(&mut sampler, &mut view);
    }
    sampler.look()?; // rates need two looks
    for n in 0..args.count.unwrap_or(1) {
        std::thread::sleep(args.interval);
        let sample = sampler.look()?;
        match (cli.json, args.count) {
            (true, None) => out::json(&sample)?,
            // A line each, for programs that read on.
            (true, Some(_)) => out::line(serde_json::to_string(&sample).unwrap_or_default())?,
            (false, _) => {
                let gap = if n > 0 { "\n" } else { "" };
                out::text(&format!("{gap}{}", text(&view, &sample)))?;
            }
        }
    }
    Ok(())
}

fn text(view: &View, sample: &Sample) -> String {
    let mut table = out::Table::new(&view::COLUMNS.map(|c| c.name));
    for grant in view.rows(sample) {
        table.row(view::cells(grant));
    }
    format!("{}\n{}", view::headline(sample), table.render())
}
