//! `vfun revoke`.

use crate::admin::Admin;
use crate::fail::Result;
use crate::out::Output;
use vfun_admin::Ask;

/// Take a grant away.
///
/// Calls under way end with an error that says so.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The grant, as `vfun ps` shows it.
    grant: String,
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    output.done(admin.tell(&Ask::Revoke { grant: args.grant.clone() })?)
}
