//! Counters that only rise, from those of grants, which come and go.

use crate::limits::{APPS_PER_CLIENT, OTHER, OWN_PER_CLIENT};
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::GrantRow;
use vfun_admin::counters::Counters;
use vfun_admin::rdma::RdmaRow;

/// What a series is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub client: String,
    /// App, or [`OTHER`].
    pub app: String,
    /// Function, or [`OTHER`] for some of those that the client submitted.
    pub function: String,
}

/// What is shown of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Grants there are now.
    pub grants: u64,
    /// Sums over all grants, those that are gone included.
    pub counters: Counters,
    /// Sums over the NICs of grants that exist now; none if no grant has a NIC for RDMA.
    pub rdma: Option<RdmaSums>,
}

/// What programs have of their NICs for RDMA, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RdmaSums {
    pub queue_pairs: u64,
    pub regions: u64,
    pub registered_bytes: u64,
    /// Accesses that no key allowed.
    pub wrong_keys: u64,
}

impl RdmaSums {
    fn add(&mut self, row: &RdmaRow) {
        self.queue_pairs += u64::from(row.queue_pairs);
        self.regions += u64::from(row.regions);
        // The words may hold anything.
        self.registered_bytes = self.registered_bytes.saturating_add(row.registered_bytes);
        self.wrong_keys = self.wrong_keys.saturating_add(row.wrong_keys);
    }
}

/// A grant as it was seen last.
#[derive(Debug)]
struct LastSeen {
    key: Key,
    counters: Counters,
    rdma: Option<RdmaRow>,
}

/// All that was seen so far.
#[derive(Debug, Default)]
pub struct Totals {
    apps: BTreeMap<String, BTreeSet<String>>,
    /// Submitted functions with series of their own, by client.
    own: BTreeMap<String, BTreeSet<String>>,
    gone: BTreeMap<Key, Counters>,
    last: BTreeMap<String, LastSeen>,
}

impl Totals {
    fn key(&mut self, g: &GrantRow) -> Key {
        let app = known(&mut self.apps, &g.client, &g.app, APPS_PER_CLIENT);
        let function = match g.origin == "submitted" {
            true => known(&mut self.own, &g.client, &g.function, OWN_PER_CLIENT),
            false => &g.function,
        };
        Key { client: g.client.clone(), app: app.to_owned(), function: function.to_owned() }
    }

    /// Takes a look's grants in.
    pub fn take(&mut self, grants: &[GrantRow]) {
        let mut before = std::mem::take(&mut self.last);
        for g in grants {
            let key = self.key(g);
            // A grant is one app's, so its key stays; what its channel counted
            // may begin anew (activated again).
            if let Some(old) = before.remove(&g.grant)
                && g.counters.calls < old.counters.calls
            {
                self.gone.entry(old.key).or_default().add(&old.counters);
            }
            let seen = LastSeen { key, counters: g.counters.clone(), rdma: g.rdma.clone() };
            self.last.insert(g.grant.clone(), seen);
        }
        for old in before.into_values() {
            self.gone.entry(old.key).or_default().add(&old.counters);
        }
    }

    /// What is to be shown.
    pub fn series(&self) -> BTreeMap<Key, Series> {
        let mut all: BTreeMap<Key, Series> = self
            .gone
            .iter()
            .map(|(k, c)| (k.clone(), Series { counters: c.clone(), ..Series::default() }))
            .collect();
        for seen in self.last.values() {
            let series = all.entry(seen.key.clone()).or_default();
            series.grants += 1;
            series.counters.add(&seen.counters);
            if let Some(row) = &seen.rdma {
                series.rdma.get_or_insert_default().add(row);
            }
        }
        all
    }
}

/// A name that a client chose, if it is one of the first so many; else [`OTHER`].
fn known<'a>(
    all: &mut BTreeMap<String, BTreeSet<String>>,
    client: &str,
    name: &'a str,
    most: usize,
) -> &'a str {
    let names = all.entry(client.to_owned()).or_default();
    let has_own = names.contains(name) || (names.len() < most && names.insert(name.to_owned()));
    if has_own { name } else { OTHER }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn grant(grant: &str, app: &str, calls: u64) -> GrantRow {
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
            transport: "ivshmem".into(),
            wait: "hybrid".into(),
            depth: 64,
            cell_bytes: 4096,
            pid: None,
            age_ms: 0,
            restarts: 0,
            in_flight: 0,
            buffers: 0,
            buffer_bytes: 0,
            session_buffers: 0,
            session_buffer_bytes: 0,
            counters: Counters { calls, ..Counters::default() },
            rdma: None,
        }
    }

    fn calls(t: &Totals) -> Vec<(String, u64, u64)> {
        t.series().into_iter().map(|(k, s)| (k.app, s.grants, s.counters.calls)).collect()
    }

    #[test]
    fn counters_never_fall() {
        let mut t = Totals::default();
        t.take(&[grant("0.1", "a", 10), grant("0.2", "a", 5)]);
        assert_eq!(calls(&t), [("a".into(), 2, 15)]);
        t.take(&[grant("0.2", "a", 7)]);
        assert_eq!(calls(&t), [("a".into(), 1, 17)]);
        t.take(&[grant("0.2", "a", 1)]);
        assert_eq!(calls(&t), [("a".into(), 1, 18)], "it began anew");
        t.take(&[]);
        assert_eq!(calls(&t), [("a".into(), 0, 18)]);
    }

    #[test]
    fn a_guest_cannot_make_series_without_end() {
        let mut t = Totals::default();
        for i in 0..10_000 {
            t.take(&[grant(&format!("0.{i}"), &format!("app{i}"), 1)]);
        }
        let all = calls(&t);
        assert_eq!(all.len(), APPS_PER_CLIENT + 1);
        assert_eq!(all.iter().map(|(_, _, n)| n).sum::<u64>(), 10_000);
        assert_eq!(all[0].0, OTHER);
    }

    #[test]
    fn nor_by_functions_that_it_names_itself() {
        let mut t = Totals::default();
        let own = |client: &str, i: u32| GrantRow {
            client: client.into(),
            function: format!("my.f{i}"),
            origin: "submitted".into(),
            ..grant(&format!("{client}.{i}"), "app", 1)
        };
        for i in 0..10_000 {
            t.take(&[own("vm1", i)]);
        }
        // The host's are as many as its operator offers.
        t.take(&[grant("0.1", "app", 1), own("vm2", 7)]);
        let all = t.series();
        let of = |client: &str| all.keys().filter(|k| k.client == client).count();
        assert_eq!((of("vm1"), of("vm2")), (OWN_PER_CLIENT + 2, 1));
        let sum = |function: &str| -> u64 {
            let some = all.iter().filter(|(k, _)| k.client == "vm1" && k.function == function);
            some.map(|(_, s)| s.counters.calls).sum()
        };
        assert_eq!(sum(OTHER), 10_000 - OWN_PER_CLIENT as u64);
        assert_eq!((sum("my.f0"), sum("echo")), (1, 1));
    }
}
