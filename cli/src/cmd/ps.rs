//! `vfun ps`.

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::Result;
use crate::out::{self, Output, Table};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use vfun_admin::counters::{Counters, Rates};
use vfun_admin::{GrantRow, OfVm};

/// Show who holds which function, with live counters.
///
/// A grant is an app's right to one function. CALLS/S is shown with --watch only: it needs
/// two samples. BUFFERS shows the grant's own buffers, then, after a +, the buffers of its
/// app's session, and the bytes of both. All grants of one session show the same number
/// after the +.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print a new table every SECONDS, until interrupted.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
    /// With --watch: end after this many tables.
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<u64>,
    /// Only grants of this client, or of one VM of it.
    #[arg(long, value_name = "CLIENT[/VM]")]
    client: Option<OfVm>,
}

/// Seconds, as people write pauses.
pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.05..=86_400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("write seconds, from 0.05 to 86400".into()),
    }
}

/// What each grant had done at a moment.
struct Look {
    at: Instant,
    counters: HashMap<String, Counters>,
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    if let Some(of) = &args.client {
        client::declared(admin, of)?;
    }
    let mut before: Option<Look> = None;
    let mut shown = 0;
    loop {
        let mut grants = admin.grants()?;
        grants.retain(|g| args.client.as_ref().is_none_or(|c| c.has(&g.client, g.vm.as_deref())));
        let now = Look {
            at: Instant::now(),
            counters: grants.iter().map(|g| (g.grant.clone(), g.counters.clone())).collect(),
        };
        let rates: Vec<Option<Rates>> =
            grants.iter().map(|g| rate(before.as_ref(), &now, &g.grant)).collect();
        // The first look of a watch has no rates to show.
        if args.watch.is_none() || before.is_some() {
            show(output, args, &grants, &rates, shown > 0)?;
            shown += 1;
        }
        let Some(pause) = args.watch.filter(|_| args.count.is_none_or(|n| shown < n)) else {
            return Ok(());
        };
        // The first table is wanted soon.
        std::thread::sleep(if before.is_none() {
            pause.min(Duration::from_secs(1))
        } else {
            pause
        });
        before = Some(now);
    }
}

fn rate(before: Option<&Look>, now: &Look, grant: &str) -> Option<Rates> {
    let before = before?;
    let (a, b) = (before.counters.get(grant)?, now.counters.get(grant)?);
    Some(Rates::of(&b.since(a), now.at - before.at, b.measured()))
}

fn show(
    output: Output,
    args: &Args,
    grants: &[GrantRow],
    rates: &[Option<Rates>],
    again: bool,
) -> Result<()> {
    if output.is_json() {
        let rows: Vec<_> = grants
            .iter()
            .zip(rates)
            .map(|(g, r)| {
                let mut row = serde_json::to_value(g).unwrap_or_default();
                if let (Some(r), Some(row)) = (r, row.as_object_mut()) {
                    row.insert("rates".into(), serde_json::json!(r));
                }
                row
            })
            .collect();
        return match args.watch {
            // A line each, for programs that read on.
            Some(_) => out::line(serde_json::Value::from(rows).to_string()),
            None => out::json(&rows),
        };
    }
    let table = render(grants, args.watch.is_some().then_some(rates));
    match (args.watch.is_some(), std::io::stdout().is_terminal(), again) {
        (true, true, _) => out::text(&format!("\x1b[H\x1b[2J{table}")),
        (true, false, true) => out::text(&format!("\n{table}")),
        _ => out::text(&table),
    }
}

/// Buffers that both sides write, in few words: the grant's own + its session's, bytes.
pub fn buffers(g: &GrantRow) -> String {
    let bytes = || out::bytes(g.buffer_bytes.saturating_add(g.session_buffer_bytes));
    match (g.buffers, g.session_buffers) {
        (0, 0) => String::new(),
        (own, 0) => format!("{own}, {}", bytes()),
        (0, of_session) => format!("+{of_session}, {}", bytes()),
        (own, of_session) => format!("{own}+{of_session}, {}", bytes()),
    }
}

fn render(grants: &[GrantRow], rates: Option<&[Option<Rates>]>) -> String {
    let mut columns = vec![
        "GRANT", "CLIENT", "APP", "FUNCTION", "WHERE", "STATE", "VIA", "WAIT", ">CELLS", ">CALLS",
    ];
    if rates.is_some() {
        columns.push(">CALLS/S");
    }
    columns.extend([">ERRORS", ">ARGUMENTS", ">RESULTS", ">BUFFERS", ">PID", ">AGE"]);
    let mut table = Table::new(&columns);
    for (i, g) in grants.iter().enumerate() {
        let mut row = vec![
            g.grant.clone(),
            g.owner(),
            g.app.clone(),
            match g.origin.as_str() {
                "submitted" => format!("{} (submitted)", g.function),
                _ => g.function.clone(),
            },
            g.location.clone(),
            g.state.clone(),
            g.transport.clone(),
            g.wait.clone(),
            g.depth.to_string(),
            out::count(g.counters.calls),
        ];
        if let Some(rates) = rates {
            row.push(
                rates
                    .get(i)
                    .copied()
                    .flatten()
                    .map(|r| out::rate(r.calls_per_s))
                    .unwrap_or_default(),
            );
        }
        row.extend([
            out::count(g.counters.errors),
            out::bytes(g.counters.bytes_in),
            out::bytes(g.counters.bytes_out),
            buffers(g),
            g.pid.map(|p| p.to_string()).unwrap_or_default(),
            out::age(g.age_ms / 1000),
        ]);
        table.row(row);
    }
    table.render()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn grant(calls: u64) -> GrantRow {
        GrantRow {
            grant: "0.1".into(),
            client_id: 1,
            client: "vm1".into(),
            vm: None,
            app_id: 2,
            app: "demo".into(),
            function: "echo".into(),
            origin: "host".into(),
            location: "software".into(),
            state: "active".into(),
            transport: "ivshmem".into(),
            wait: "hybrid".into(),
            depth: 64,
            cell_bytes: 4096,
            pid: Some(77),
            age_ms: 65_000,
            restarts: 0,
            in_flight: 0,
            buffers: 0,
            buffer_bytes: 0,
            session_buffers: 0,
            session_buffer_bytes: 0,
            counters: Counters { calls, bytes_in: 2048, ..Counters::default() },
            rdma: None,
        }
    }

    #[test]
    fn rates_are_shown_only_between_two_looks() {
        let one = render(&[grant(1234)], None);
        assert_eq!(
            one,
            "GRANT  CLIENT  APP   FUNCTION  WHERE     STATE   VIA      WAIT    CELLS  CALLS  ERRORS  ARGUMENTS  RESULTS  BUFFERS  PID        AGE\n\
             0.1    vm1     demo  echo      software  active  ivshmem  hybrid     64  1 234       0      2 KiB      0 B        -   77  1 min 5 s\n"
        );
        let two = render(
            &[grant(1234)],
            Some(&[Some(Rates { calls_per_s: 1500.0, ..Rates::default() })]),
        );
        assert!(two.contains("CALLS/S") && two.contains("1 500"), "{two}");
        let at = Instant::now();
        let look = |at, calls| Look {
            at,
            counters: HashMap::from([("0.1".to_owned(), grant(calls).counters)]),
        };
        let rate = |a: Option<&Look>, b: &Look, g: &str| rate(a, b, g).map(|r| r.calls_per_s);
        let (a, b) = (look(at, 100), look(at + Duration::from_secs(2), 300));
        assert_eq!(rate(Some(&a), &b, "0.1"), Some(100.0));
        assert_eq!(
            rate(Some(&b), &look(at + Duration::from_secs(3), 5), "0.1"),
            Some(0.0),
            "a service that started again"
        );
        assert_eq!(rate(None, &b, "0.1"), None);
        assert_eq!(rate(Some(&a), &b, "9.9"), None);
    }

    #[test]
    fn buffers_are_shown_with_whose_they_are() {
        let shown = |own: (u32, u64), of_session: (u32, u64)| {
            let (buffers, buffer_bytes) = own;
            let (session_buffers, session_buffer_bytes) = of_session;
            let g = GrantRow {
                buffers,
                buffer_bytes,
                session_buffers,
                session_buffer_bytes,
                ..grant(1)
            };
            let table = render(std::slice::from_ref(&g), None);
            assert!(table.contains(&super::buffers(&g)), "{table}");
            super::buffers(&g)
        };
        assert_eq!(shown((0, 0), (0, 0)), "");
        assert_eq!(shown((2, 8192), (0, 0)), "2, 8 KiB");
        assert_eq!(shown((0, 0), (1, 1 << 20)), "+1, 1 MiB");
        assert_eq!(shown((1, 1 << 20), (3, 1 << 20)), "1+3, 2 MiB");
    }

    #[test]
    fn pauses_have_limits() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("0").is_err() && seconds("x").is_err() && seconds("inf").is_err());
    }
}
