//! `vfun revoke`.

use super::switch::done;
use crate::admin::Admin;
use crate::args::Cli;
use crate::fail::Result;
use vfun_admin::Ask;

/// Take a grant away.
///
/// Calls under way end with an error that says so.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The grant, as `vfun ps` shows it.
    grant: String,
}

/// Takes it away.
pub fn run(cli: &Cli, args: &Args) -> Result<()> {
    done(cli, Admin::of(cli).tell(&Ask::Revoke { grant: args.grant.clone() })?)
}
