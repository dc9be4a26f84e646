//! `vfun drain` and `vfun stop`.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Output};
use std::time::{Duration, Instant};
use vfun_admin::DrainOf;
use vfun_admin::{Ask, Progress};

/// Between two questions how far a drain is.
const LOOK: Duration = Duration::from_millis(200);

/// Grant nothing new; what is active goes on until it is released.
///
/// Calls in flight go on, and a service that dies is started again. The drain lasts
/// until `--undo`, also after SIGHUP, when another manager takes over.
#[derive(clap::Args, Debug)]
pub struct DrainArgs {
    /// Only what this client asks for.
    #[arg(long, value_name = "NAME", conflicts_with = "function")]
    client: Option<String>,
    /// Drain only this function.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Grant again. Without --client or --function: everything, to all clients.
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until no drained grant is left.
    #[arg(long)]
    wait: bool,
    /// Give up waiting after S seconds, with exit code 1.
    #[arg(long, value_name = "S", requires = "wait")]
    timeout: Option<u64>,
}

/// End the manager and its services.
///
/// Calls under way have three seconds to finish. Programs get an error that says why.
#[derive(clap::Args, Debug)]
pub struct StopArgs {
    /// First grant nothing new, and wait until no grant is left.
    #[arg(long)]
    drain: bool,
    /// With --drain: end after S seconds in any case.
    #[arg(long, value_name = "S", requires = "drain")]
    timeout: Option<u64>,
}

fn left(p: &Progress) -> String {
    format!("{} grants are left, {} calls in flight", p.grants, p.calls)
}

/// Waits until nothing is left of it; what is left when the time is over.
fn wait(
    admin: &Admin,
    output: Output,
    of: &DrainOf,
    timeout: Option<u64>,
) -> Result<Option<Progress>> {
    let until = timeout.map(|s| Instant::now() + Duration::from_secs(s));
    let mut said = String::new();
    loop {
        let p = admin.draining(of)?;
        if p.grants == 0 {
            return Ok(None);
        }
        if !output.is_json() && left(&p) != said {
            said = left(&p);
            out::line(&said)?;
        }
        if until.is_some_and(|t| Instant::now() >= t) {
            return Ok(Some(p));
        }
        std::thread::sleep(LOOK);
    }
}

/// Grants nothing new from now on, or grants again.
pub fn drain(admin: &Admin, output: Output, args: &DrainArgs) -> Result<()> {
    let of = match (&args.client, &args.function) {
        (Some(name), _) => DrainOf::Client(name.clone()),
        (_, Some(name)) => DrainOf::Function(name.clone()),
        _ => DrainOf::All,
    };
    let sentence = admin.tell(&Ask::DrainOf { of: of.clone(), on: !args.undo })?;
    if !args.wait {
        return output.done(sentence);
    }
    if !output.is_json() {
        out::line(sentence)?;
    }
    match wait(admin, output, &of, args.timeout)? {
        None => output.done("no grant is left".into()),
        Some(p) => Err(Failure::new(Exit::Failed, format!("it is not drained yet: {}", left(&p)))
            .advise(
                "wait longer, end their programs, or take them away (`vfun ps`, `vfun revoke`)",
            )),
    }
}

pub fn stop(admin: &Admin, output: Output, args: &StopArgs) -> Result<()> {
    if args.drain {
        admin.tell(&Ask::DrainOf { of: DrainOf::All, on: true })?;
        wait(admin, output, &DrainOf::All, args.timeout)?;
    }
    output.done(admin.tell(&Ask::Stop)?)
}
