//! `vfun-top`: what `vfun top` runs. A screen is drawn by a library that `vfun`
//! itself can do without.

#![forbid(unsafe_code)]

mod lent;
mod sample;
mod screen;
mod view;

use sample::{Sample, Sampler};
use std::process::ExitCode;
use vfun_cli::args::Command;
use vfun_cli::cmd::nics::ask::Allocator;
use vfun_cli::cmd::top::Args;
use vfun_cli::fail::Result;
use vfun_cli::out::{self, Output};
use view::View;

fn main() -> ExitCode {
    vfun_cli::run_alone("top", |cli| match &cli.command {
        Command::Top(args) => {
            let sampler = Sampler::new(cli.admin(), Allocator::at(cli.host().root()));
            Some(run(sampler, cli.output(), args).map(|()| ExitCode::SUCCESS))
        }
        _ => None,
    })
}

/// Shows samples until it is told to end.
fn run(mut sampler: Sampler, output: Output, args: &Args) -> Result<()> {
    let mut view = View::new(args.sort, &args.filter, args.interval);
    if !args.once && args.count.is_none() && !output.is_json() {
        return screen::run(&mut sampler, &mut view);
    }
    sampler.look()?; // rates need two looks
    for n in 0..args.count.unwrap_or(1) {
        std::thread::sleep(args.interval);
        let sample = sampler.look()?;
        match (output, args.count) {
            (Output::Json, None) => out::json(&sample)?,
            // A line each, for programs that read on.
            (Output::Json, Some(_)) => {
                out::line(serde_json::to_string(&sample).unwrap_or_default())?
            }
            (Output::Text, _) => {
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
    let lent = sample.network_vfs.as_ref().map(|vfs| vfs.table(&view.filter)).unwrap_or_default();
    let gap = if lent.is_empty() { "" } else { "\n" };
    format!("{}\n{}{gap}{lent}", view::headline(sample), table.render())
}
