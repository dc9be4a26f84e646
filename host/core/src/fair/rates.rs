//! One bucket a name, for things that few do often: connecting, starting.

use super::{Bucket, Rate};
use std::collections::BTreeMap;

/// Buckets by name; those that are full again are forgotten.
#[derive(Clone, Debug)]
pub struct Rates<K> {
    rate: Rate,
    used: BTreeMap<K, Bucket>,
    /// Times that something was refused.
    refused: u64,
}

/// Names after which full buckets are looked for.
const MANY: usize = 256;

impl<K: Ord> Rates<K> {
    /// So many of each.
    pub fn new(rate: Rate) -> Self {
        Rates { rate, used: BTreeMap::new(), refused: 0 }
    }

    /// Whether `name` may do it once more now.
    pub fn take(&mut self, now: u64, name: K) -> bool {
        if self.used.len() >= MANY {
            self.used.retain(|_, b| !b.is_full(now));
        }
        let rate = self.rate;
        let took = self.used.entry(name).or_insert_with(|| Bucket::new(rate, now)).take(now, 1);
        self.refused += u64::from(!took);
        took
    }

    /// Milliseconds until `name` may do it again.
    pub fn wait(&mut self, now: u64, name: &K) -> u64 {
        self.used.get_mut(name).map_or(0, |b| b.wait(now, 1))
    }

    /// Times that something was refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_own_and_full_ones_are_forgotten() {
        let mut r = Rates::new(Rate { per_s: 1, burst: 2 });
        assert!(r.take(0, 1) && r.take(0, 1) && !r.take(0, 1) && r.take(0, 2));
        assert_eq!((r.wait(0, &1), r.wait(0, &2), r.refused()), (1_000, 0, 1));
        for name in 0..10_000u32 {
            r.take(u64::from(name) * 10, name);
        }
        assert!(r.used.len() <= MANY + 1);
    }
}
