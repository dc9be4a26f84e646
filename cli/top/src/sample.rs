//! A look at everything, and what happened since the one before.

use crate::lent::NetworkVfs;
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use vfun_admin::counters::{Counters, Rates};
use vfun_admin::{GrantRow, Status};
use vfun_cli::admin::Admin;
use vfun_cli::cmd::nics::ask::Allocator;
use vfun_cli::fail::Result;

/// A grant and what it did since the look before.
#[derive(Clone, Debug, Serialize)]
pub struct Grant {
    /// As the manager shows it.
    #[serde(flatten)]
    pub row: GrantRow,
    /// Zero at its first look.
    pub rates: Rates,
}

/// What the manager said at one moment, with rates since the moment before.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The manager at a glance.
    pub manager: Status,
    /// Since the look before, seconds; 0 at the first.
    pub interval_s: f64,
    pub total: Rates,
    /// Ordered by handle.
    pub grants: Vec<Grant>,
    /// None: the manager lends none.
    pub network_vfs: Option<NetworkVfs>,
}

/// Takes samples, and remembers the last one for rates.
pub struct Sampler {
    admin: Admin,
    allocator: Allocator,
    before: Option<(Instant, HashMap<String, Counters>)>,
}

impl Sampler {
    pub fn new(admin: Admin, allocator: Allocator) -> Self {
        Sampler { admin, allocator, before: None }
    }

    /// Asks the manager, and takes a sample.
    pub fn look(&mut self) -> Result<Sample> {
        let manager = self.admin.status()?;
        let rows = self.admin.grants()?;
        let now = Instant::now();
        let lent = manager.nics.then(|| NetworkVfs::look(&self.allocator));
        let (mut sample, counters) = compare(manager, rows, self.before.as_ref(), now);
        sample.network_vfs = lent;
        self.before = Some((now, counters));
        Ok(sample)
    }
}

fn compare(
    manager: Status,
    rows: Vec<GrantRow>,
    before: Option<&(Instant, HashMap<String, Counters>)>,
    now: Instant,
) -> (Sample, HashMap<String, Counters>) {
    let within = before.map_or(Duration::ZERO, |(at, _)| now - *at);
    let mut sum = Counters::default();
    let mut measured = 0u32;
    let mut counters = HashMap::new();
    let grants = rows
        .into_iter()
        .map(|row| {
            let known = before.and_then(|(_, all)| all.get(&row.grant));
            // All that a grant did that was not there before is since then.
            let old = match (known, before) {
                (None, None) => row.counters.clone(),
                (known, _) => known.cloned().unwrap_or_default(),
            };
            let delta = row.counters.since(&old);
            let rates = Rates::of(&delta, within, row.counters.measured());
            measured += u32::from(row.counters.measured());
            sum.add(&delta);
            counters.insert(row.grant.clone(), row.counters.clone());
            Grant { row, rates }
        })
        .collect();
    // Shares of all services together: of as much time as they all had.
    let mut total = Rates::of(&sum, within, false);
    if measured > 0 {
        let shares = Rates::of(&sum, within * measured, true);
        (total.busy, total.spin, total.asleep) = (shares.busy, shares.spin, shares.asleep);
    }
    let interval_s = within.as_secs_f64();
    (Sample { manager, interval_s, total, grants, network_vfs: None }, counters)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn status() -> Status {
        Status {
            version: "0.1.0".into(),
            pid: 7,
            root: "/r".into(),
            generation: 1,
            uptime_s: 65,
            draining: false,
            windows: 2,
            sessions: 2,
            grants: 2,
            services: 2,
            window_bytes_used: 1 << 20,
            buffers: 0,
            buffer_bytes: 0,
            resident_bytes: 8 << 20,
            tcp: None,
            metrics: None,
            nics: false,
            links: false,
            link_settings: Default::default(),
            policy_unreadable: None,
            service_program: "/s".into(),
            troubles: vec![],
            held_up: Default::default(),
        }
    }

    pub fn row(grant: &str, app: &str, counters: Counters) -> GrantRow {
        GrantRow {
            grant: grant.into(),
            client_id: 1,
            client: "vm1".into(),
            vm: None,
            app_id: 2,
            app: app.into(),
            function: "echo".into(),
            origin: "host".into(),
            location: "software".into(),
            state: "active".into(),
            transport: "ivshmem-doorbell".into(),
            wait: "hybrid".into(),
            depth: 64,
            cell_bytes: 4096,
            pid: Some(77),
            age_ms: 65_000,
            restarts: 1,
            in_flight: 0,
            buffers: 0,
            buffer_bytes: 0,
            session_buffers: 0,
            session_buffer_bytes: 0,
            counters,
            rdma: None,
        }
    }

    pub fn calls(calls: u64) -> Counters {
        Counters { calls, bytes_in: calls * 10, busy_ns: calls * 1000, ..Counters::default() }
    }

    /// What happened in two seconds: one app went on, one is new, one is gone.
    pub fn sample() -> Sample {
        let at = Instant::now();
        let first = vec![row("0.1", "demo", calls(1000)), row("0.2", "gone", calls(5))];
        let (none, before) = compare(status(), first, None, at);
        assert_eq!((none.total.calls_per_s, none.interval_s), (0.0, 0.0));
        let mut quiet = row("0.3", "new", Counters { calls: 20, ..Counters::default() });
        quiet.wait = "sleep".into();
        let now = vec![row("0.1", "demo", calls(401_000)), quiet];
        compare(status(), now, Some(&(at, before)), at + Duration::from_secs(2)).0
    }

    #[test]
    fn rates_are_of_what_happened_in_between() {
        let s = sample();
        assert_eq!(s.interval_s, 2.0);
        let rates: Vec<f64> = s.grants.iter().map(|g| g.rates.calls_per_s).collect();
        assert_eq!(rates, [200_000.0, 10.0]);
        assert_eq!(s.total.calls_per_s, 200_010.0);
        assert_eq!((s.grants[0].rates.busy, s.grants[1].rates.busy), (Some(0.2), None));
        assert_eq!(s.total.busy, Some(0.2));
        let json = serde_json::to_value(&s).unwrap();
        assert_eq!(json["grants"][0]["function"], "echo");
        assert_eq!(json["grants"][0]["rates"]["calls_per_s"], 200_000.0);
    }
}
