//! `vfun stats`.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use std::collections::BTreeMap;
use std::time::Duration;
use vfun_admin::GrantRow;
use vfun_admin::counters::Counters;

/// Show what a grant did, or all of them by function.
///
/// Counters of grants that exist now; `vfun history` has the grants that ended.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The grant, as `vfun ps` shows it; without one, all grants by client and function.
    grant: Option<String>,
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    let grants = admin.grants()?;
    let Some(wanted) = &args.grant else {
        let sums = sums(&grants);
        let rows: Vec<_> = sums.iter().map(|((client, function), (grants, c))| {
            serde_json::json!({ "client": client, "function": function, "grants": grants, "counters": c })
        }).collect();
        return output.show(&rows, || render(&sums));
    };
    let grant = grants.into_iter().find(|g| g.grant == *wanted).ok_or_else(|| {
        Failure::new(Exit::Refused, format!("there is no grant {wanted}"))
            .advise("`vfun ps` lists them")
    })?;
    output.show(&grant, || detail(&grant))
}

type Sums = BTreeMap<(String, String), (u64, Counters)>;

fn sums(grants: &[GrantRow]) -> Sums {
    let mut sums = Sums::new();
    for g in grants {
        let (n, sum) = sums.entry((g.client.clone(), g.function.clone())).or_default();
        *n += 1;
        sum.add(&g.counters);
    }
    sums
}

fn render(sums: &Sums) -> String {
    let mut table = Table::new(&[
        "CLIENT",
        "FUNCTION",
        ">GRANTS",
        ">CALLS",
        ">ERRORS",
        ">ARGUMENTS",
        ">RESULTS",
        ">P50",
        ">P99",
        ">SLEPT",
        ">RANG",
    ]);
    for ((client, function), (grants, c)) in sums {
        table.row([
            client.clone(),
            function.clone(),
            grants.to_string(),
            out::count(c.calls),
            out::count(c.errors),
            out::bytes(c.bytes_in),
            out::bytes(c.bytes_out),
            time(c, 0.5),
            time(c, 0.99),
            out::count(c.slept),
            out::count(c.rang),
        ]);
    }
    table.render()
}

/// A quantile of the sampled service times; empty without samples.
fn time(c: &Counters, q: f64) -> String {
    c.times.quantile(q).map(|ns| out::duration(Duration::from_nanos(ns))).unwrap_or_default()
}

fn detail(g: &GrantRow) -> String {
    let c = &g.counters;
    Facts::new()
        .fact("grant", format!("{}, {}, {} old", g.grant, g.state, out::age(g.age_ms / 1000)))
        .fact("client", format!("{} ({})", g.owner(), g.client_id))
        .fact("app", format!("{} ({})", g.app, g.app_id))
        .fact("function", format!("{}, on {}", g.function, g.location))
        .fact(
            "channel",
            format!(
                "{} cells of {}, over {}",
                g.depth,
                out::bytes(g.cell_bytes.into()),
                g.transport
            ),
        )
        .fact(
            "service",
            match g.pid {
                Some(pid) => format!("process {pid}, started again {} times", g.restarts),
                None => "none".into(),
            },
        )
        .fact(
            "calls",
            format!("{}, of these {} with an error", out::count(c.calls), out::count(c.errors)),
        )
        .fact("arguments", out::bytes(c.bytes_in))
        .fact("results", out::bytes(c.bytes_out))
        .fact("waits", g.wait.clone())
        .fact(
            "service time",
            match c.times.samples() {
                0 => "not sampled".into(),
                n => format!(
                    "p50 {}, p99 {}, of {} sampled calls",
                    time(c, 0.5),
                    time(c, 0.99),
                    out::count(n)
                ),
            },
        )
        .fact(
            "service",
            match c.measured() {
                false => "does not measure its time".into(),
                true => format!(
                    "busy {}, spun {}, asleep {}",
                    out::duration(Duration::from_nanos(c.busy_ns)),
                    out::duration(Duration::from_nanos(c.spun_ns)),
                    out::duration(Duration::from_nanos(c.asleep_ns))
                ),
            },
        )
        .fact(
            "service slept",
            format!("{} times, rang {} times", out::count(c.slept), out::count(c.rang)),
        )
        .render()
}
