//! `vfun leases`.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use vfun_admin::vm::owner;
use vfun_admin::{Ask, DeviceRow, LeaseRow, LeasesView};
use vfun_leases::{Move, Policy};

/// What to do with leases.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// List the grants that compete for VFs, who holds one, and what the next
    /// decision would be.
    #[command(visible_alias = "ls")]
    List,
    /// Say why a grant holds a VF, or has none.
    Explain {
        /// The grant, as `vfun ps` shows it.
        grant: String,
    },
    /// Change how VFs are leased, until the next start of the manager. (Then its options
    /// `--leases`, `--lease-interval-ms` and `--lease-hold-ms` count again.)
    Set {
        /// Who gets VFs: none, first, random, fair, activity or gain.
        policy: Option<Policy>,
        /// Time between two decisions, ms.
        #[arg(long, value_name = "MS")]
        interval_ms: Option<u64>,
        /// Least time that a grant keeps a VF, ms.
        #[arg(long, value_name = "MS")]
        hold_ms: Option<u64>,
    },
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::List => {
            let view = admin.leases()?;
            output.show(&view, || list(&view))
        }
        Sub::Explain { grant } => {
            let view = admin.leases()?;
            let rows = view.devices.iter().flat_map(|d| d.grants.iter().map(move |g| (d, g)));
            let Some((device, row)) = rows.into_iter().find(|(_, g)| g.grant == *grant) else {
                return Err(Failure::new(
                    Exit::Failed,
                    format!(
                        "grant {grant} competes for no VF: it is not active, or its function's manifest does not say `leased`, or its client may not use hardware. `vfun leases list` shows those that do"
                    ),
                ));
            };
            output.show(row, || explain(&view, device, row))
        }
        Sub::Set { policy, interval_ms, hold_ms } => output.done(admin.tell(&Ask::SetLeases {
            policy: *policy,
            interval_ms: *interval_ms,
            min_hold_ms: *hold_ms,
        })?),
    }
}

fn list(view: &LeasesView) -> String {
    let s = &view.settings;
    let mut text = format!(
        "policy {}, each {} ms, for at least {} ms\n",
        s.policy, s.interval_ms, s.min_hold_ms
    );
    if view.devices.is_empty() {
        text += "no grant competes for a VF\n";
    }
    for d in &view.devices {
        text += &format!("\n{}: {} VFs of {}", d.function, d.vfs, d.location);
        text += "\n";
        for k in &d.kept_off {
            text += &format!(
                "VF {} is set aside for client {} for {} more: it failed {}\n",
                k.vf,
                k.client,
                out::duration(std::time::Duration::from_millis(k.ms)),
                if k.times == 1 { "once".into() } else { format!("{} times in a row", k.times) },
            );
        }
        if let Some(trouble) = &d.trouble {
            text += &format!("last trouble: {trouble}\n");
        }
        let mut table = Table::new(&[
            "GRANT",
            "CLIENT",
            "APP",
            ">VF",
            "RUNS IN",
            ">CALLS/S",
            ">BOOST",
            ">SWITCHES",
            "WHY",
        ]);
        for g in &d.grants {
            table.row([
                g.grant.clone(),
                owner(&g.client, g.vm.as_deref()),
                g.app.clone(),
                g.vf.map_or_else(|| "-".into(), |v| v.to_string()),
                g.location.clone(),
                format!("{:.0}", g.per_s),
                out::percent(g.boost),
                g.switches.to_string(),
                g.why.clone(),
            ]);
        }
        text += &table.render();
        for m in &d.next {
            text += &format!("next: {}\n", step(d, m));
        }
    }
    text
}

fn step(d: &DeviceRow, m: &Move) -> String {
    let name = |id: u64| {
        d.grants.iter().find(|g| g.number == id).map_or_else(|| id.to_string(), |g| g.grant.clone())
    };
    match (m.from, m.to) {
        (Some(from), Some(to)) => format!("VF {} from {} to {}", m.vf, name(from), name(to)),
        (Some(from), None) => format!("VF {} is taken from {}", m.vf, name(from)),
        (None, Some(to)) => format!("VF {} is given to {}", m.vf, name(to)),
        (None, None) => format!("VF {} stays free", m.vf),
    }
}

fn explain(view: &LeasesView, d: &DeviceRow, g: &LeaseRow) -> String {
    Facts::new()
        .fact(
            "grant",
            format!(
                "{} ({} of {}, '{}')",
                g.grant,
                g.app,
                owner(&g.client, g.vm.as_deref()),
                d.function
            ),
        )
        .fact("VF", g.vf.map_or_else(|| "none".into(), |v| format!("{v} of {}", d.vfs)))
        .fact("why", g.why.clone())
        .fact("since", format!("{} ms", g.since_ms))
        .fact("runs in", g.location.clone())
        .fact("policy", view.settings.policy.to_string())
        .fact("calls/s", format!("{:.0}", g.per_s))
        .fact("score", format!("{:.6}", g.score))
        .fact("boost", out::percent(g.boost))
        .fact("switches", g.switches.to_string())
        .render()
}
