//! The published experiment as text: a table for each function, and a sentence on what
//! it shows.

use super::{checks, head, number};
use crate::report::{
    Domain, DomainRow, DomainsReport, Function, Instance, checks as targets, published,
};
use std::collections::BTreeSet;
use vfun_cli::out::Table;

/// For each function a table of seconds and one of ratios, and what they show.
pub fn domains(report: &DomainsReport) -> String {
    let mut text = head("Domains: the published experiment", &report.machine, &report.settings);
    for &function in Function::ALL {
        let rows: Vec<_> = report.rows.iter().filter(|r| r.function == function).collect();
        if rows.is_empty() {
            text += &format!("\n{function}: not measured.\n");
            continue;
        }
        text += &format!("\n{function}: seconds for all calls, mean ± standard deviation\n");
        text += &seconds(&rows).to_string();
        let compared = rows.iter().any(|r| r.to_host_host().is_some());
        if compared {
            text += &format!(
                "\n{function}: times as long, with the interval that holds it in 95 of 100 runs\n"
            );
            text += &ratios(&rows).to_string();
        }
        text += &format!("{}\n", sentence(function, &rows));
    }
    text += &notes(report);
    let targets = targets::domains(report);
    if !targets.is_empty() {
        text += &format!("\n{}", checks(&targets));
    }
    text
}

/// What the tables mean, and where the published figures come from.
fn notes(report: &DomainsReport) -> String {
    let mut text = "\nSeconds are of all slices. Ratios are of slices beside each other, without those that the kernel \
        says were disturbed; ? is a ratio that cannot be told to 1 %.\n"
        .to_owned();
    let scale = report.settings.scale;
    if scale != 1.0 {
        text += &format!(
            "At scale {scale} a call does {scale} of the published work, so the cost of calling weighs {} times as much.\n",
            number::times(1.0 / scale)
        );
    }
    let (function, instance, ratio) = published::worst_in_tables();
    text += &format!("Published: {}.\n", report.published.line());
    text += &format!(
        "Its abstract gives {} × as the worst of guest-host against native; its tables give {} × for {function}, {instance}.\n",
        published::WORST_SLOWDOWN,
        number::times_column(ratio)
    );
    text
}

/// The instances of these rows, coarsest first: as published, and as run.
fn instances(rows: &[&DomainRow]) -> Vec<(Instance, Instance)> {
    let found: BTreeSet<_> =
        rows.iter().map(|r| (r.iterations, r.published_instance(), r.instance())).collect();
    found.into_iter().map(|(_, published, run)| (published, run)).collect()
}

fn is_scaled(rows: &[&DomainRow]) -> bool {
    rows.iter().any(|r| r.instance() != r.published_instance())
}

/// A table with a line for each instance; `columns` adds the heads, and `cells` what a line has.
fn table(
    rows: &[&DomainRow],
    columns: impl Fn(&mut Table),
    cells: impl Fn(&dyn Fn(Domain, &str) -> Option<DomainRow>) -> Vec<String>,
) -> Table {
    let mut table = Table::ruled(&[]);
    table.column("instance");
    let scaled = is_scaled(rows);
    if scaled {
        table.column("run as");
    }
    columns(&mut table);
    for (published, run) in instances(rows) {
        let mut line = vec![published.to_string()];
        if scaled {
            line.push(run.to_string());
        }
        line.extend(cells(&|domain, transport| {
            let row = rows.iter().find(|r| {
                (r.domain, r.transport.as_str()) == (domain, transport)
                    && (r.published_instance(), r.instance()) == (published, run)
            });
            row.map(|&r| r.clone())
        }));
        table.row(line);
    }
    table
}

fn lines<'a>(rows: &[&'a DomainRow]) -> Vec<(Domain, &'a str)> {
    let lines: BTreeSet<_> = rows.iter().map(|r| (r.domain, r.transport.as_str())).collect();
    lines.into_iter().collect()
}

fn name(domain: Domain, transport: &str) -> String {
    match domain {
        Domain::InProcess => domain.to_string(),
        _ => format!("{domain} ({transport})"),
    }
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Seconds, and the published ones of the whole instance.
fn seconds(rows: &[&DomainRow]) -> Table {
    let lines = lines(rows);
    let published =
        |domain| rows.iter().any(|r| r.domain == domain && r.published_seconds.is_some());
    let columns = |table: &mut Table| {
        for &(domain, transport) in &lines {
            let columns: &[&str] =
                if published(domain) { &[">seconds", ">published"] } else { &[">seconds"] };
            table.group(name(domain, transport), columns);
        }
    };
    table(rows, columns, |row| {
        let mut cells = Vec::new();
        for &(domain, transport) in &lines {
            let row = row(domain, transport);
            let row = row.as_ref();
            cells.push(or_none(row.map(|r| number::seconds(r.seconds_mean, r.seconds_sd))));
            if published(domain) {
                let seconds = row.and_then(|r| r.published_seconds);
                cells.push(or_none(seconds.map(|s| format!("{s:.2}"))));
            }
        }
        cells
    })
}

/// Host-host over the plain call, the others over host-host, each with the published ratio.
fn ratios(rows: &[&DomainRow]) -> Table {
    let lines: Vec<_> = lines(rows).into_iter().filter(|(d, _)| *d != Domain::InProcess).collect();
    let columns = |table: &mut Table| {
        for &(domain, transport) in &lines {
            let columns: &[&str] = match domain {
                Domain::HostHost => &[">× in-process", ">dropped"],
                _ => &[">× host-host", ">dropped", ">published"],
            };
            table.group(name(domain, transport), columns);
        }
    };
    table(rows, columns, |row| {
        let mut cells = Vec::new();
        for &(domain, transport) in &lines {
            let row = row(domain, transport);
            let row = row.as_ref();
            let compared = match domain {
                Domain::HostHost => row.and_then(DomainRow::to_in_process),
                _ => row.and_then(DomainRow::to_host_host),
            };
            cells.push(or_none(compared.map(|c| c.cell())));
            cells.push(or_none(compared.map(|c| format!("{} of {}", c.dropped, c.pairs))));
            if domain != Domain::HostHost {
                let ratio = row.and_then(|r| r.published_ratio_to_host_host);
                cells.push(or_none(ratio.map(number::times_column)));
            }
        }
        cells
    })
}

/// What one function's rows show, whichever way they fall.
fn sentence(function: Function, rows: &[&DomainRow]) -> String {
    let of = |domain| rows.iter().filter(move |r| r.domain == domain).copied();
    if of(Domain::HostHost).next().is_none() {
        return format!(
            "{function}: host-host was not measured, so there is nothing to compare the other domains with."
        );
    }
    let Some((finest, run)) = instances(rows).last().copied() else {
        return String::new();
    };
    let mut clauses = Vec::new();
    for domain in [Domain::GuestHost, Domain::GuestNet] {
        let at_finest = of(domain).find(|r| r.instance() == run);
        clauses.push(match at_finest.and_then(|r| Some((r, r.to_host_host()?))) {
            Some((row, ratio)) => {
                format!("{} over host-host: {}", name(domain, &row.transport), ratio.words())
            }
            None if of(domain).next().is_none() => format!("{domain} was not measured"),
            None => format!("{domain} cannot be compared there"),
        });
    }
    let mut text = format!("{function}: at {finest}, {}", clauses.join("; "));
    text += &worst(rows).unwrap_or_default();
    text += &against_network(function, rows).unwrap_or_default();
    text + "."
}

/// The guest-host instance whose interval reaches highest, against the published worst; and how
/// many have none.
fn worst(rows: &[&DomainRow]) -> Option<String> {
    let compared = rows.iter().filter(|r| r.domain == Domain::GuestHost);
    let compared: Vec<_> = compared.filter_map(|r| Some((r, r.to_host_host()?))).collect();
    let known = compared.iter().filter_map(|(r, c)| Some((r, c.interval()?)));
    let known: Vec<_> = known.collect();
    let not = compared.len() - known.len();
    let Some((row, (low, high))) = known.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1)) else {
        return (not > 0).then(|| "; no guest-host instance can be told".to_owned());
    };
    let which = match not {
        0 => "the worst guest-host instance".to_owned(),
        _ => {
            let s = if known.len() == 1 { "" } else { "s" };
            let n = known.len();
            format!("the worst of {n} guest-host instance{s} that can be told ({not} cannot)")
        }
    };
    let verdict = match (*low <= published::WORST_SLOWDOWN, *high <= published::WORST_SLOWDOWN) {
        (_, true) => "not above",
        (true, false) => "perhaps above",
        (false, false) => "above",
    };
    Some(format!(
        "; {which} was {} with at most {} ×, {verdict} the published worst of {} × against native",
        row.published_instance(),
        number::times_column(*high),
        published::WORST_SLOWDOWN
    ))
}

/// The largest advantage of guest-host over guest-net on the same work.
fn against_network(function: Function, rows: &[&DomainRow]) -> Option<String> {
    let of = |domain| rows.iter().filter(move |r| r.domain == domain && r.seconds_mean > 0.0);
    let pairs = of(Domain::GuestNet).flat_map(|net| {
        let same = of(Domain::GuestHost).filter(move |host| host.instance() == net.instance());
        same.map(move |host| (net.seconds_mean / host.seconds_mean, net.published_instance()))
    });
    let (ratio, instance) = pairs.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let published = published::net_over_guest_host(function, instance);
    let published = published.map(|p| format!(" (published: {})", number::times_column(p)));
    Some(format!(
        "; guest-host was at best {} times as fast as guest-net, at {instance}{}",
        number::times_column(ratio),
        published.unwrap_or_default()
    ))
}
