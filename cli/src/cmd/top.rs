//! `vfun top`: the program vfun-top. Its options are here, so that help,
//! completions and manual have them where it is not installed.

use std::time::Duration;

const AFTER: &str = "\
Keys: c, e, p, i, b, n: sort by calls, errors, p99, bytes, busy, name; r: turn the order round; arrows: \
scroll; f or /: filter by client, app, function or transport; space or P: pause; + and -: look less or more \
often; h or ?: help; q: end.

IN-FLIGHT counts the calls that are posted and not answered, just now. \
P50 and P99 are of the calls sampled between two looks, in the service. BUSY, SPIN and SLEEP are the \
service's shares of the time. A service that does not measure shows -.

While the manager lends network VFs (vfund --nics), the rows below show each VF, its state, the VM that has it, \
and that VM's packets a second.

For scripts: vfun top --once (text) or --json (one object; with --count, one a line).";

/// Show live who calls what, how often, how fast, and how services wait.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = super::ps::seconds)]
    pub interval: Duration,
    /// Print one sample as text and end.
    #[arg(long)]
    pub once: bool,
    /// Print N samples and end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Sort rows by this column.
    #[arg(short, long, value_name = "KEY", value_enum, default_value_t = Key::Calls)]
    pub sort: Key,
    /// Only what has this in its client, app, function or transport; of network VFs, in pool, VF or VM.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
}

/// What rows can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Key {
    /// Calls a second.
    Calls,
    /// Errors a second.
    Errors,
    /// 99th percentile of the service time.
    P99,
    /// Bytes a second, both ways.
    Bytes,
    /// Share of the time that the service computes.
    Busy,
    /// Client, app and function.
    Name,
}
