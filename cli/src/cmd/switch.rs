//! `vfun drain` and `vfun stop`.

use crate::admin::Admin;
use crate::args::Cli;
use crate::fail::Result;
use crate::out;
use vfun_manager::admin::Ask;

fn tell(cli: &Cli, order: &Ask) -> Result<()> {
    done(cli, Admin::of(cli).tell(order)?)
}

/// Says what the manager did.
pub fn done(cli: &Cli, sentence: String) -> Result<()> {
    match cli.json {
        true => out::json(&serde_json::json!({ "done": sentence })),
        false => out::line(sentence),
    }
}

/// Grants nothing new from now on.
pub fn drain(cli: &Cli) -> Result<()> {
    tell(cli, &Ask::Drain)
}

/// Ends the manager.
pub fn stop(cli: &Cli) -> Result<()> {
    tell(cli, &Ask::Stop)
}
