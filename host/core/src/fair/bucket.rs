//! A token bucket: so many a second, and a burst before that counts.

/// How fast something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// A second, in the long run; 0 for no bound.
    pub per_s: u32,
    /// At once, after a quiet time.
    pub burst: u32,
}

/// Tokens that come back with time.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    /// Thousandths of a token.
    level: u64,
    /// The same, owed beyond those that were there.
    owed: u64,
    /// When `level` was right, ms.
    at: u64,
}

impl Bucket {
    /// A bucket that is full at first.
    pub fn new(rate: Rate, now: u64) -> Self {
        Bucket { rate, level: u64::from(rate.burst) * 1000, owed: 0, at: now }
    }

    /// Another rate from now on; tokens beyond the new burst are lost.
    pub fn set(&mut self, rate: Rate, now: u64) {
        self.fill(now);
        if rate.per_s == 0 {
            self.owed = 0;
        }
        self.rate = rate;
        self.level = self.level.min(self.most());
    }

    fn most(&self) -> u64 {
        u64::from(self.rate.burst.max(1)) * 1000
    }

    fn fill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        // A token a second is one thousandth a millisecond.
        let more = passed.saturating_mul(u64::from(self.rate.per_s));
        let paid = self.owed.min(more);
        self.owed -= paid;
        self.level = self.level.saturating_add(more - paid).min(self.most());
    }

    /// What `cost` takes: at most all there can be, so that whatever costs
    /// more than the burst still happens, with a full bucket.
    fn price(&self, cost: u32) -> u64 {
        (u64::from(cost) * 1000).min(self.most())
    }

    /// Takes `cost` tokens if they are there.
    pub fn take(&mut self, now: u64, cost: u32) -> bool {
        if self.rate.per_s == 0 {
            return true;
        }
        self.fill(now);
        let price = self.price(cost);
        if self.level < price {
            return false;
        }
        self.level -= price;
        true
    }

    /// Takes `cost` tokens that were used already: those that are not there are owed, and
    /// none is there before they have come back. No more than a full bucket, as for
    /// [`Bucket::take`]: at a low rate nobody would wait for so long.
    pub fn owe(&mut self, now: u64, cost: u32) {
        if self.rate.per_s == 0 {
            return;
        }
        self.fill(now);
        let (price, level) = (self.price(cost), self.level);
        self.level = level.saturating_sub(price);
        self.owed = self.owed.saturating_add(price.saturating_sub(level));
    }

    /// Milliseconds until `cost` tokens will be there; 0 if they are.
    pub fn wait(&mut self, now: u64, cost: u32) -> u64 {
        if self.rate.per_s == 0 {
            return 0;
        }
        self.fill(now);
        let short = self.price(cost).saturating_sub(self.level).saturating_add(self.owed);
        short.div_ceil(u64::from(self.rate.per_s))
    }

    /// Whether it is as if it had never been used.
    pub fn is_full(&mut self, now: u64) -> bool {
        self.fill(now);
        self.level >= self.most() && self.owed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_then_the_rate() {
        let mut b = Bucket::new(Rate { per_s: 100, burst: 5 }, 1_000);
        assert_eq!((0..9).filter(|_| b.take(1_000, 1)).count(), 5);
        assert_eq!(b.wait(1_000, 1), 10);
        assert!(!b.take(1_009, 1));
        assert!(b.take(1_010, 1));
        assert!(!b.is_full(1_059) && b.is_full(1_060));
        // A clock that stands still or goes back gives nothing.
        assert!(b.take(5_000, 5) && !b.take(5_000, 1) && !b.take(0, 1));
    }

    #[test]
    fn what_costs_more_than_the_burst_takes_all_of_it() {
        let mut b = Bucket::new(Rate { per_s: 10, burst: 2 }, 0);
        assert!(b.take(0, 1));
        assert_eq!(b.wait(0, 4), 100);
        assert!(!b.take(99, 4) && b.take(100, 4));
    }

    #[test]
    fn no_rate_is_no_bound_and_a_new_one_counts_at_once() {
        let mut b = Bucket::new(Rate { per_s: 0, burst: 0 }, 0);
        assert!((0..1000).all(|_| b.take(0, 9)));
        b.set(Rate { per_s: 1, burst: 1 }, 0);
        assert!(!b.take(0, 1) && b.take(1_000, 1));
    }

    proptest! {
        /// However it is used, no more comes out than rate and burst allow.
        #[test]
        fn never_more_than_it_may(
            per_s in 1u32..5_000, burst in 1u32..500,
            steps in proptest::collection::vec((0u64..50, 1u32..8), 1..300),
        ) {
            let mut b = Bucket::new(Rate { per_s, burst }, 0);
            let (mut now, mut taken) = (0, 0u64);
            for (passed, cost) in steps {
                now += passed;
                let due = b.wait(now, cost);
                let took = b.take(now, cost);
                prop_assert_eq!(took, due == 0);
                taken += if took { u64::from(cost.min(burst)) } else { 0 };
                prop_assert!(taken * 1000 <= u64::from(burst) * 1000 + now * u64::from(per_s));
            }
        }
    }
}
