//! What channels did, as services count it, and what follows for people:
//! rates, times and shares. `vfun ps`, `stats` and `top` and the Prometheus
//! endpoint all work with these, so they cannot disagree.
//!
//! The words stand in pages that a service writes (and on plain ivshmem its
//! guest could): they may hold anything, so all arithmetic saturates.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use vfun_wire::channel::{TIMES, time_bucket, time_bucket_from};

/// What a channel did.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Counters {
    /// Calls that were answered, with errors too.
    pub calls: u64,
    /// Of these with an error.
    pub errors: u64,
    /// Bytes of arguments of all these calls.
    pub bytes_in: u64,
    /// Bytes of results of all these calls.
    pub bytes_out: u64,
    /// Times the service slept.
    pub slept: u64,
    /// Times the service rang.
    pub rang: u64,
    /// Nanoseconds the service computed, as far as measured.
    pub busy_ns: u64,
    /// Nanoseconds it spun.
    pub spun_ns: u64,
    /// Nanoseconds it slept.
    pub asleep_ns: u64,
    /// Sampled service times.
    pub times: Times,
}

/// Sampled service times: how many calls took how long. As JSON a list of
/// pairs, the least time of a bucket (ns) and its count; the next bucket
/// begins within 25 % of it. Empty buckets are left out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Times(Vec<(u64, u64)>);

impl Times {
    /// From the words of a `datain` page, bucket by bucket.
    pub fn of(mut word: impl FnMut(usize) -> u64) -> Self {
        let full = (0..TIMES).map(|b| (time_bucket_from(b), word(b)));
        Times(full.filter(|(_, n)| *n > 0).collect())
    }

    /// The buckets that are not empty: least time, ns, and count; in order.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many were sampled.
    pub fn samples(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// The middle of the bucket that holds this quantile (0 to 1), ns; so
    /// within 13 % of the truth. None without samples.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let wanted = (self.samples() as f64 * q).ceil().max(1.0);
        let mut seen = 0.0;
        for (from, n) in &self.0 {
            seen += *n as f64;
            if seen >= wanted {
                return Some(middle(*from));
            }
        }
        None
    }

    /// About how long all samples took together, ns.
    pub fn total_ns(&self) -> f64 {
        self.0.iter().map(|(from, n)| middle(*from) as f64 * *n as f64).sum()
    }

    fn merge(&mut self, other: &Times, with: impl Fn(u64, u64) -> u64) {
        let mut all = std::collections::BTreeMap::from_iter(self.0.iter().copied());
        for (from, n) in &other.0 {
            let own = all.entry(*from).or_default();
            *own = with(*own, *n);
        }
        self.0 = all.into_iter().filter(|(_, n)| *n > 0).collect();
    }
}

/// The least time beyond a bucket, ns; none for the last, which has no end.
pub fn bucket_end(from: u64) -> Option<u64> {
    let bucket = time_bucket(from);
    (bucket + 1 < TIMES).then(|| time_bucket_from(bucket + 1))
}

fn middle(from: u64) -> u64 {
    bucket_end(from).map_or(from, |end| from + (end - from) / 2)
}

impl Counters {
    fn words(&mut self) -> [&mut u64; 9] {
        [
            &mut self.calls,
            &mut self.errors,
            &mut self.bytes_in,
            &mut self.bytes_out,
            &mut self.slept,
            &mut self.rang,
            &mut self.busy_ns,
            &mut self.spun_ns,
            &mut self.asleep_ns,
        ]
    }

    fn zip(&mut self, other: &Counters, with: impl Fn(u64, u64) -> u64) {
        let mut other = other.clone();
        for (own, theirs) in self.words().into_iter().zip(other.words()) {
            *own = with(*own, *theirs);
        }
        self.times.merge(&other.times, with);
    }

    /// Adds another channel's.
    pub fn add(&mut self, other: &Counters) {
        self.zip(other, u64::saturating_add);
    }

    /// What happened since `before`; nothing where a counter began anew.
    pub fn since(&self, before: &Counters) -> Counters {
        let mut delta = self.clone();
        delta.zip(before, u64::saturating_sub);
        delta
    }

    /// Whether the service measures how it spends its time.
    pub fn measured(&self) -> bool {
        self.busy_ns > 0 || self.spun_ns > 0 || self.asleep_ns > 0
    }
}

/// What happened in a second, and how.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Rates {
    /// Calls answered a second.
    pub calls_per_s: f64,
    /// Of these with an error.
    pub errors_per_s: f64,
    /// Bytes of arguments a second.
    pub bytes_in_per_s: f64,
    /// Bytes of results a second.
    pub bytes_out_per_s: f64,
    /// Half of the sampled calls took at most this, ns.
    pub p50_ns: Option<u64>,
    /// 99 % of the calls took at most this, ns.
    pub p99_ns: Option<u64>,
    /// Share of the time that the service computed, 0 to 1.
    pub busy: Option<f64>,
    /// Share that it spun.
    pub spin: Option<f64>,
    /// Share that it slept.
    pub asleep: Option<f64>,
}

impl Rates {
    /// Of what happened (`delta`, see [`Counters::since`]) in so long;
    /// `measured` says whether the service measures its time at all.
    pub fn of(delta: &Counters, within: Duration, measured: bool) -> Self {
        let s = within.as_secs_f64().max(1e-9);
        let ns = s * 1e9;
        let (busy, spin, asleep) =
            (delta.busy_ns as f64, delta.spun_ns as f64, delta.asleep_ns as f64);
        // One that slept all the time has not come to count it yet.
        let asleep = if busy + spin + asleep == 0.0 { ns } else { asleep };
        let whole = ns.max(busy + spin + asleep);
        let share = |part: f64| measured.then_some(part / whole);
        Rates {
            calls_per_s: delta.calls as f64 / s,
            errors_per_s: delta.errors as f64 / s,
            bytes_in_per_s: delta.bytes_in as f64 / s,
            bytes_out_per_s: delta.bytes_out as f64 / s,
            p50_ns: delta.times.quantile(0.5),
            p99_ns: delta.times.quantile(0.99),
            busy: share(busy),
            spin: share(spin),
            asleep: share(asleep),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(list: &[(u64, u64)]) -> Times {
        Times::of(|b| list.iter().filter(|(ns, _)| time_bucket(*ns) == b).map(|(_, n)| *n).sum())
    }

    #[test]
    fn quantiles_are_near_the_truth() {
        let t = times(&[(100, 90), (1000, 9), (1_000_000, 1)]);
        let near = |q: f64, ns: u64| {
            let found = t.quantile(q).unwrap();
            assert!(found.abs_diff(ns) <= ns / 4, "{q}: {found}");
        };
        near(0.5, 100);
        near(0.9, 100);
        near(0.99, 1000);
        near(1.0, 1_000_000);
        assert_eq!(t.samples(), 100);
        assert_eq!(Times::default().quantile(0.5), None);
        assert!(times(&[(u64::MAX, 1)]).quantile(0.5).unwrap() > 1_000_000_000);
    }

    #[test]
    fn what_a_hostile_page_holds_panics_nobody() {
        let mut all = Counters { times: Times::of(|_| u64::MAX), ..Counters::default() };
        all.words().into_iter().for_each(|w| *w = u64::MAX);
        let mut sum = all.clone();
        sum.add(&all);
        assert_eq!(sum.calls, u64::MAX);
        assert_eq!(Counters::default().since(&all), Counters::default());
        let r = Rates::of(&sum, Duration::ZERO, true);
        assert!(r.calls_per_s.is_finite() && r.busy.unwrap() <= 1.0 && r.p50_ns.is_some());
    }

    #[test]
    fn rates_are_what_happened_in_between() {
        let a =
            Counters { calls: 100, busy_ns: 5, times: times(&[(50, 100)]), ..Counters::default() };
        let b = Counters {
            calls: 300,
            busy_ns: 5 + 500_000_000,
            spun_ns: 1_000_000_000,
            times: times(&[(50, 100), (4000, 200)]),
            ..Counters::default()
        };
        let r = Rates::of(&b.since(&a), Duration::from_secs(2), b.measured());
        assert_eq!((r.calls_per_s, r.busy, r.spin), (100.0, Some(0.25), Some(0.5)));
        assert!(r.p50_ns.unwrap() > 3500, "what was before does not count");
        let idle = Rates::of(&b.since(&b), Duration::from_secs(1), true);
        assert_eq!((idle.asleep, idle.p50_ns), (Some(1.0), None));
        assert_eq!(Rates::of(&a.since(&a), Duration::from_secs(1), false).busy, None);
    }

    #[test]
    fn json_reads_back_and_old_json_too() {
        let c = Counters { calls: 3, times: times(&[(100, 2)]), ..Counters::default() };
        let text = serde_json::to_string(&c).unwrap();
        assert_eq!(serde_json::from_str::<Counters>(&text).unwrap(), c);
        assert!(
            serde_json::from_str::<Counters>("{\"calls\":1}").unwrap().times.buckets().is_empty()
        );
    }
}
