//! `vfun audit`.

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::Result;
use crate::out::{self, Output, Table, parse_duration};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfun_admin::OfVm;
use vfun_admin::audit::{Query, Row};
use vfun_admin::vm::owner;

/// Between two looks for new lines.
const LOOK: Duration = Duration::from_millis(500);
/// Lines asked for at once while following.
const AT_ONCE: u32 = 1000;

/// Show who did what to this host, and who was refused what.
///
/// Oldest first. For each client and each kind of refusal, ten refusals are recorded at
/// once, then one a minute. The rest are counted.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only lines from the last TIME, such as 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Only lines about this client, or about one VM of it.
    #[arg(long, value_name = "CLIENT[/VM]")]
    client: Option<OfVm>,
    /// Only refusals, not what was done.
    #[arg(long)]
    refused: bool,
    /// At most this many lines: the newest.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Keep running and show new lines as they come.
    #[arg(short, long)]
    follow: bool,
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    let since_ms = args.since.map(|d| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(d).as_millis() as i64
    });
    let first = Query {
        since_ms,
        client: args.client.as_ref().map(|c| c.client.clone()),
        vm: args.client.as_ref().and_then(|c| c.vm.clone()),
        refused: args.refused,
        limit: args.limit,
        after: None,
    };
    let mut rows = admin.audit(first.clone())?;
    rows.reverse();
    // There may be lines about a client that was removed: only where there are none,
    // its name may be a slip.
    if let (Some(of), true) = (&args.client, rows.is_empty()) {
        client::declared(admin, of)?;
    }
    if !args.follow {
        return output.show(&rows, || render(&rows));
    }
    let mut last = rows.last().map_or(0, |r| r.id);
    show(output, &rows)?;
    loop {
        std::thread::sleep(LOOK);
        let more = Query { limit: AT_ONCE, after: Some(last), ..first.clone() };
        rows = admin.audit(more)?;
        last = rows.last().map_or(last, |r| r.id);
        show(output, &rows)?;
    }
}

/// Line by line: what comes later cannot widen the columns of what was shown.
fn show(output: Output, rows: &[Row]) -> Result<()> {
    for r in rows {
        match output {
            Output::Json => out::line(serde_json::to_string(r).expect("plain data"))?,
            Output::Text => out::line(
                cells(r).map(|c| if c.is_empty() { "-".into() } else { clean(&c) }).join("  "),
            )?,
        }
    }
    Ok(())
}

/// Names come from guests, and sentences quote them.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn cells(r: &Row) -> [String; 6] {
    let who = match (r.uid, r.pid) {
        (Some(uid), Some(pid)) => {
            let program = r.command.rsplit('/').next().unwrap_or("");
            format!("user {uid}, process {pid} {program}")
        }
        (Some(uid), None) => format!("user {uid}"),
        (None, _) => r.app.clone(),
    };
    let what = match (r.what.as_str(), r.function.as_str()) {
        ("refused", "") => String::new(),
        ("refused", f) => f.to_owned(),
        (what, _) => what.to_owned(),
    };
    let mut why = match r.code.as_str() {
        "" => r.sentence.clone(),
        code => format!("{code}: {}", r.sentence),
    };
    if r.missing > 0 {
        let more = format!("{} more were not recorded", r.missing);
        why = if why.is_empty() { more } else { format!("{why} ({more} before)") };
    }
    [out::timestamp(r.at_ms), owner(&r.client, r.vm.as_deref()), who, what, r.outcome.clone(), why]
}

fn render(rows: &[Row]) -> String {
    let mut table = Table::new(&["TIME", "CLIENT", "WHO", "WHAT", "OUTCOME", "WHY"]);
    for r in rows {
        table.row(cells(r));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_and_refusals_are_told() {
        let deed = Row {
            at_ms: 0,
            uid: Some(0),
            pid: Some(7),
            command: "/usr/bin/vfun".into(),
            what: "client add vm1".into(),
            client: "vm1".into(),
            outcome: "done".into(),
            ..Row::default()
        };
        let refusal = Row {
            what: "refused".into(),
            client: "vm1".into(),
            app: "a\x1b[2J".into(),
            function: "sum".into(),
            outcome: "refused".into(),
            code: "denied".into(),
            sentence: "no".into(),
            missing: 3,
            ..Row::default()
        };
        let text = render(&[deed, refusal]);
        assert!(text.contains("vm1     user 0, process 7 vfun  client add vm1  done"), "{text}");
        assert!(text.contains("a?[2J"), "{text}");
        assert!(text.contains("denied: no (3 more were not recorded before)"), "{text}");
    }
}
