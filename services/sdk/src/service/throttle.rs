//! A bound on a channel's calls a second. Calls beyond it wait; none is
//! refused. Whoever has no bound pays one look at a word that is in the cache
//! anyway; whoever has one pays a reading of the clock for every batch of calls.

use super::pulse::Pulse;
use std::time::Duration;
use vfun_wait::clock;

/// What a channel that rested may catch up on, ns: an app's calls come in
/// bursts, and a bound that cut each of them would be a bound on latency.
const BURST: u64 = 100_000_000;
/// Batches a second at most: reading the clock so often costs nothing.
const BATCHES_PER_S: u32 = 1000;
/// Longest sleep without a look whether the channel is to end or the bound has
/// changed.
const SLICE: Duration = Duration::from_millis(10);

/// The bound on how many calls one channel begins in a second.
#[derive(Default)]
pub struct Throttle {
    /// The bound that the rest was worked out for.
    rate: u32,
    /// Calls of this batch that may still begin.
    left: u32,
    /// When all that has begun would have begun, had it come evenly.
    even: u64,
}

impl Throttle {
    /// One that goes on at `now` where another service's stopped, if there is a bound:
    /// `used` is what [`Throttle::used`] said there. Without it nothing is saved up
    /// and the first call waits for its time, so that nobody gains calls by having
    /// a channel go from one service to another.
    pub fn going_on(rate: u32, used: Option<u64>, now: impl FnOnce() -> u64) -> Self {
        if rate == 0 {
            return Throttle::default();
        }
        let most = BURST + batch(rate).1;
        let even = now().saturating_add(used.unwrap_or(most).min(most));
        Throttle { rate, left: 0, even }
    }

    /// What of a burst is used up, and what it is ahead beyond that, ns.
    pub fn used(&self, now: impl FnOnce() -> u64) -> u64 {
        if self.rate == 0 {
            return BURST;
        }
        let left = u64::from(self.left) * 1_000_000_000 / u64::from(self.rate);
        self.even.saturating_sub(left).saturating_sub(now())
    }

    /// The call that was taken last does not begin.
    pub fn put_back(&mut self) {
        self.left += 1;
    }

    /// One call is to begin at `rate` a second, which is not 0. `now` is asked
    /// for once a batch. How long the call has to wait, ns.
    #[inline]
    pub fn take(&mut self, rate: u32, now: impl FnOnce() -> u64) -> u64 {
        if self.left > 0 && self.rate == rate {
            self.left -= 1;
            return 0;
        }
        self.begin_batch(rate, now())
    }

    fn begin_batch(&mut self, rate: u32, now: u64) -> u64 {
        if self.rate != rate {
            // What was saved up was so for another bound.
            (self.rate, self.even) = (rate, now.saturating_add(BURST));
        }
        let (calls, took) = batch(rate);
        self.left = calls - 1;
        let wait = self.even.saturating_sub(BURST).saturating_sub(now);
        self.even = self.even.max(now).saturating_add(took);
        wait
    }
}

/// Calls that begin with one reading of the clock, and their time, ns.
fn batch(rate: u32) -> (u32, u64) {
    let calls = (rate / BATCHES_PER_S).max(1);
    (calls, u64::from(calls) * 1_000_000_000 / u64::from(rate))
}

/// Sleeps so long, or until the channel is told to stop or is bound otherwise;
/// `meanwhile` is done now and then.
pub fn sleep(pulse: &Pulse, ns: u64, mut meanwhile: impl FnMut()) {
    let (until, rate) = (clock::now().saturating_add(ns), pulse.rate());
    loop {
        let left = until.saturating_sub(clock::now());
        if left == 0 || pulse.stopping() || pulse.rate() != rate {
            return;
        }
        meanwhile();
        std::thread::sleep(Duration::from_nanos(left).min(SLICE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these calls have begun when, if each is made as soon as it may.
    fn run(t: &mut Throttle, rate: u32, from: u64, for_ns: u64) -> (u64, u32) {
        let (mut now, mut calls, mut readings) = (from, 0, 0);
        while now < from + for_ns {
            now += t.take(rate, || {
                readings += 1;
                now
            });
            calls += 1;
        }
        (calls, readings)
    }

    #[test]
    fn the_rate_is_kept_over_any_second_but_for_one_burst() {
        let second = 1_000_000_000;
        for rate in [1, 3, 10, 999, 1000, 1001, 12_345, 1_000_000, 7_654_321] {
            let mut t = Throttle::default();
            let calls = |n: u32| u64::from(n);
            // The first bound of a channel gives it no burst.
            let (first, readings) = run(&mut t, rate, 5 * second, 4 * second);
            let most = calls(rate) * 4 + calls(rate / BATCHES_PER_S) + 2;
            assert!((calls(rate) * 4..=most).contains(&first), "{rate}: {first}");
            assert!(calls(readings) <= 4 * 2000 + 2, "{rate}: {readings} readings of the clock");
            // After a rest there is one.
            let (then, _) = run(&mut t, rate, 50 * second, second);
            let burst = calls(rate) / 10;
            assert!(then >= calls(rate) + burst.saturating_sub(1), "{rate}: {then}");
            assert!(
                then <= calls(rate) + burst + 2 * calls(rate / BATCHES_PER_S) + 4,
                "{rate}: {then}"
            );
        }
    }

    /// Calls that begin in `for_ns` if the channel goes to another service every
    /// `each` ns, which is told what was used, or is not.
    fn moving(rate: u32, each: u64, for_ns: u64, told: bool) -> u64 {
        let (mut now, mut calls) = (1 << 40, 0);
        let (end, mut t) = (now + for_ns, Throttle::default());
        while now < end {
            let until = (now + each).min(end);
            while now < until {
                let wait = t.take(rate, || now);
                now += wait;
                match now < until {
                    true => calls += 1,
                    false => t.put_back(),
                }
            }
            now = until;
            let used = told.then(|| t.used(|| now));
            t = Throttle::going_on(rate, used, || now);
        }
        calls
    }

    #[test]
    fn the_rate_is_kept_when_a_channel_goes_from_service_to_service() {
        let second = 1_000_000_000;
        for rate in [1, 3, 10, 99, 1000, 12_345] {
            for each in [second / 100, second / 7, second / 2] {
                let calls = moving(rate, each, 20 * second, true);
                let even = u64::from(rate) * 20;
                assert!(calls <= even + u64::from(rate) / 10 + 2, "{rate} each {each}: {calls}");
                assert!(
                    calls + 2 >= even * 9 / 10,
                    "nor is it slowed down: {rate} {each}: {calls}"
                );
                assert!(moving(rate, each, 20 * second, false) <= even + 2, "{rate} each {each}");
            }
        }
        // What a channel that rested has saved up goes with it; no more than that.
        let mut t = Throttle::default();
        t.take(100, || second);
        let used = t.used(|| 5 * second);
        let mut t = Throttle::going_on(100, Some(used), || 5 * second);
        let at_once = (0..50).filter(|_| t.take(100, || 5 * second) == 0).count();
        assert!((9..=11).contains(&at_once), "{at_once}");
        let mut t = Throttle::going_on(1, Some(u64::MAX), || 0);
        assert!(t.take(1, || 0) <= second, "whatever it is told");
        assert_eq!(Throttle::going_on(0, Some(7), || 0).take(5, || 9), 0);
    }

    #[test]
    fn another_bound_holds_at_once() {
        let mut t = Throttle::default();
        assert_eq!(t.take(1_000_000, || 7), 0);
        // Neither what is left of the batch nor what was saved up counts.
        assert_eq!(t.take(1, || 8), 0, "the first of the new ones");
        assert!(t.take(1, || 9) > 800_000_000);
    }
}
