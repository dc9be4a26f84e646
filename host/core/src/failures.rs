//! VFs that failed a client: for how long they are not lent to it.
//!
//! What a client's service says of a VF, and how it dies there, counts for that
//! client alone, and for that VF alone. The service is not trusted: its driver may
//! have been taken over, or its app may send what crashes it. If its word took a
//! VF from others, one client could take them all, for as long as it likes to fail.
//! So a VF that is broken is found out by each client for itself, which costs each of
//! them little: a try after one second, two, four, and so on.

use crate::limits::{LEASE_LOST_MOST_MS, LEASE_LOST_MS, LEASE_WORKED_MS};
use std::collections::{BTreeMap, BTreeSet};
use vfun_leases::Vf;

/// One VF and one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// How often it failed since it last worked for a while.
    pub times: u32,
    /// Until when it is not lent to this client, ms.
    pub until: u64,
    /// How long it has worked since, ms.
    worked_ms: u64,
}

/// Those of one device, by client and VF.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<(u32, Vf), Failure>);

impl Failures {
    /// A VF failed a client: each time in a row it is left alone twice as long.
    pub fn failed(&mut self, now: u64, client: u32, vf: Vf) {
        let f = self.0.entry((client, vf)).or_default();
        let pause = LEASE_LOST_MS << f.times.min(16);
        (f.times, f.worked_ms) = (f.times.saturating_add(1), 0);
        f.until = now.saturating_add(pause.min(LEASE_LOST_MOST_MS));
    }

    /// A client's calls have run there for so long; its leases there add up.
    pub fn worked(&mut self, client: u32, vf: Vf, ms: u64) {
        if let Some(f) = self.0.get_mut(&(client, vf)) {
            f.worked_ms = f.worked_ms.saturating_add(ms);
            if f.worked_ms >= LEASE_WORKED_MS {
                self.0.remove(&(client, vf));
            }
        }
    }

    /// Forgets what is long past: who was not given it since cannot have failed.
    pub fn settle(&mut self, now: u64) {
        self.0.retain(|_, f| f.until.saturating_add(LEASE_LOST_MOST_MS) > now);
    }

    /// Whether nothing is known of any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which clients are given which VFs not.
    pub fn off(&self, now: u64) -> BTreeSet<(u32, Vf)> {
        self.rows(now).map(|(of, _)| of).collect()
    }

    /// Whether a client is not given this VF.
    pub fn keeps_off(&self, now: u64, client: u32, vf: Vf) -> bool {
        self.0.get(&(client, vf)).is_some_and(|f| f.until > now)
    }

    /// The same, with how long and why.
    pub fn rows(&self, now: u64) -> impl Iterator<Item = ((u32, Vf), Failure)> {
        self.0.iter().filter(move |(_, f)| f.until > now).map(|(of, f)| (*of, *f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_bound_and_is_forgotten_after_work_or_long_quiet() {
        let mut f = Failures::default();
        let mut now = 0;
        for n in 0..100u32 {
            f.failed(now, 1, 3);
            let pause = (LEASE_LOST_MS << n.min(20)).min(LEASE_LOST_MOST_MS);
            assert!(f.keeps_off(now + pause - 1, 1, 3) && !f.keeps_off(now + pause, 1, 3), "{n}");
            assert!(!f.keeps_off(now, 2, 3) && !f.keeps_off(now, 1, 2), "nobody and nothing else");
            now += pause;
            f.settle(now);
        }
        f.worked(1, 3, LEASE_WORKED_MS - 1);
        f.failed(now, 1, 3);
        f.worked(1, 3, LEASE_WORKED_MS - 1);
        assert!(f.keeps_off(now + LEASE_LOST_MOST_MS - 1, 1, 3));
        f.worked(1, 3, 1);
        f.failed(now, 1, 3);
        assert!(!f.keeps_off(now + LEASE_LOST_MS, 1, 3), "as if for the first time");
        f.failed(now, 1, 3);
        f.settle(now + 2 * LEASE_LOST_MS + LEASE_LOST_MOST_MS);
        assert!(f.0.is_empty());
    }
}
