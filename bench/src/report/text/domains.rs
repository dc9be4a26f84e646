//! The published experiment as text: a table for each function, and a sentence on what
//! it shows.

use super::{checks, head, number};
use crate::report::{
    Domain, DomainRow, DomainsReport, Function, Instance, checks as targets, published, stats,
};
use std::collections::BTreeSet;
use vfun_cli::out::Table;

/// Both tables and what they show.
pub fn domains(report: &DomainsReport) -> String {
    let mut text = head("Domains: the published experiment", &report.machine, &report.settings);
    for &function in Function::ALL {
        let rows: Vec<_> = report.rows.iter().filter(|r| r.function == function).collect();
        if rows.is_empty() {
            text += &format!("\n{function}: not measured.\n");
            continue;
        }
        text += &format!("\n{function}: seconds for all calls, mean ± standard deviation\n");
        text += &table(&rows).to_string();
        text += &format!("{}\n", sentence(report, function, &rows));
    }
    text += "\n× hh: times host-host. × ip: times in-process, the plain function call.\n";
    if report.settings.scale != 1.0 {
        let scale = report.settings.scale;
        text += &format!(
            "At scale {scale} a call does {scale} of the published work, so the cost of calling weighs {} times as much.\n",
            number::times(1.0 / report.settings.scale)
        );
    }
    if report.rows.iter().all(|r| r.published_seconds.is_none()) {
        text += &format!("{}\n", published::note());
    }
    let targets = targets::domains(report);
    if !targets.is_empty() {
        text += &format!("\n{}", checks(&targets));
    }
    text
}

/// The instances of these rows, coarsest first: as published, and as run.
fn instances(rows: &[&DomainRow]) -> Vec<(Instance, Instance)> {
    let found: BTreeSet<_> =
        rows.iter().map(|r| (r.iterations, r.published_instance(), r.instance())).collect();
    found.into_iter().map(|(_, published, run)| (published, run)).collect()
}

fn table(rows: &[&DomainRow]) -> Table {
    let mut table = Table::ruled(&[]);
    table.column("instance");
    let scaled = rows.iter().any(|r| r.instance() != r.published_instance());
    if scaled {
        table.column("run as");
    }
    let lines: BTreeSet<_> = rows.iter().map(|r| (r.domain, r.transport.as_str())).collect();
    let published =
        |domain| rows.iter().any(|r| r.domain == domain && r.published_seconds.is_some());
    for &(domain, transport) in &lines {
        let mut columns = vec![">seconds"];
        if domain != Domain::HostHost {
            columns.push(">× hh");
        }
        if domain != Domain::InProcess {
            columns.push(">× ip");
        }
        if published(domain) {
            columns.push(">published");
        }
        let name = if domain == Domain::InProcess {
            domain.to_string()
        } else {
            format!("{domain} ({transport})")
        };
        table.group(name, &columns);
    }
    for (instance, run) in instances(rows) {
        let mut cells = vec![instance.to_string()];
        if scaled {
            cells.push(run.to_string());
        }
        for &(domain, transport) in &lines {
            let row = rows.iter().find(|r| {
                (r.domain, r.transport.as_str()) == (domain, transport)
                    && (r.published_instance(), r.instance()) == (instance, run)
            });
            let cell = |f: &dyn Fn(&DomainRow) -> Option<String>| {
                row.and_then(|r| f(r)).unwrap_or_else(|| "-".into())
            };
            cells.push(cell(&|r| Some(number::seconds(r.seconds_mean, r.seconds_sd))));
            if domain != Domain::HostHost {
                cells.push(cell(&|r| r.ratio_to_host_host.map(number::times_column)));
            }
            if domain != Domain::InProcess {
                cells.push(cell(&|r| r.ratio_to_in_process.map(number::times_column)));
            }
            if published(domain) {
                cells.push(cell(&|r| r.published_seconds.map(|s| number::seconds(s, None))));
            }
        }
        table.row(cells);
    }
    table
}

/// What one function's rows show, whichever way they fall.
fn sentence(report: &DomainsReport, function: Function, rows: &[&DomainRow]) -> String {
    let of = |domain| rows.iter().filter(move |r| r.domain == domain).copied();
    if of(Domain::HostHost).next().is_none() {
        return format!(
            "{function}: host-host was not measured, so there is nothing to compare the other domains with."
        );
    }
    let Some((finest, run)) = instances(rows).last().copied() else {
        return String::new();
    };
    let at_finest = |domain| {
        of(domain).filter(|r| r.instance() == run).find(|r| r.ratio_to_host_host.is_some())
    };
    let mut clauses = Vec::new();
    for domain in [Domain::GuestHost, Domain::GuestNet] {
        clauses.push(match at_finest(domain) {
            Some(row) => against_host_host(report, row),
            None if of(domain).next().is_none() => format!("{domain} was not measured"),
            None => format!("{domain} cannot be compared there"),
        });
    }
    let mut text = format!("{function}: at {finest}, {}", clauses.join(", and "));
    let worst = of(Domain::GuestHost).filter(|r| r.ratio_to_host_host.is_some());
    let worst = worst.max_by(|a, b| {
        a.ratio_to_host_host.unwrap_or(0.0).total_cmp(&b.ratio_to_host_host.unwrap_or(0.0))
    });
    if let Some((row, ratio)) = worst.and_then(|r| Some((r, r.ratio_to_host_host?))) {
        let verdict = if ratio <= published::WORST_SLOWDOWN { "not above" } else { "above" };
        text += &format!(
            "; the worst guest-host instance was {} with {} ×, {verdict} the published worst of {} × against native",
            row.published_instance(),
            number::times_column(ratio),
            published::WORST_SLOWDOWN
        );
    }
    text += &against_network(rows).unwrap_or_default();
    text + "."
}

/// "guest-host (ivshmem) took 1.004 × host-host", and whether that is a difference at all.
fn against_host_host(report: &DomainsReport, row: &DomainRow) -> String {
    let ratio = row.ratio_to_host_host.unwrap_or(1.0);
    let base = report.reference(row, Domain::HostHost);
    let sd = base.and_then(|b| {
        stats::ratio_sd(row.seconds_mean, row.seconds_sd, b.seconds_mean, b.seconds_sd)
    });
    let note = match sd {
        None => " (one repeat: its spread is unknown)",
        Some(sd) if (ratio - 1.0).abs() <= 2.0 * sd => " (within the spread of the repeats)",
        Some(_) if ratio < 1.0 => " (faster)",
        Some(_) => "",
    };
    format!(
        "{} ({}) took {} × host-host{note}",
        row.domain,
        row.transport,
        number::times_column(ratio)
    )
}

/// The largest advantage of guest-host over guest-net on the same work.
fn against_network(rows: &[&DomainRow]) -> Option<String> {
    let of = |domain| rows.iter().filter(move |r| r.domain == domain && r.seconds_mean > 0.0);
    let pairs = of(Domain::GuestNet).flat_map(|net| {
        let same = of(Domain::GuestHost).filter(move |host| host.instance() == net.instance());
        same.map(move |host| (net.seconds_mean / host.seconds_mean, net.published_instance()))
    });
    let (ratio, instance) = pairs.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "; guest-host was at best {} times as fast as guest-net, at {instance} (published: 340 %)",
        number::times_column(ratio)
    ))
}
