//! What the waits of a channel have taught. Only waits that were long anyway
//! write here, and several threads may: what is lost between them is not missed.

use crate::Policy;
use crate::limits::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// What waits of one channel found out.
#[derive(Debug)]
pub struct WaitHistory {
    /// How long waits were, newer ones counting for more.
    lengths: [AtomicU32; BUCKETS],
    /// How long to wait awake, as of the last wait; `u64::MAX`: nothing known.
    budget: AtomicU64,
    waits: AtomicU32,
    /// Waits yet to go without spinning, because the peer needs this processor.
    crowded: AtomicU32,
    /// How many that were the last time.
    stretch: AtomicU32,
    /// When a wait last looked as if the peer needed this processor; 0: never, or
    /// spinning has brought something since.
    suspected: AtomicU64,
}

impl Default for WaitHistory {
    fn default() -> Self {
        WaitHistory {
            lengths: [const { AtomicU32::new(0) }; BUCKETS],
            budget: AtomicU64::new(u64::MAX),
            waits: AtomicU32::new(0),
            crowded: AtomicU32::new(0),
            stretch: AtomicU32::new(0),
            suspected: AtomicU64::new(0),
        }
    }
}

/// The bucket of a wait's length.
fn bucket(ns: u64) -> usize {
    let octaves = (ns / BUCKET_FIRST).checked_ilog2().map_or(0, |o| o as usize + 1);
    octaves.min(BUCKETS - 1)
}

/// Where a bucket ends. The last has no end, and nothing spins for that long.
fn end(bucket: usize) -> u64 {
    BUCKET_FIRST << bucket
}

impl WaitHistory {
    /// How long to wait awake: at most what the policy allows, at least
    /// [`SPIN_MIN`] where it allows that.
    pub fn budget(&self, policy: &Policy, now: u64) -> u64 {
        let most = policy.awake();
        let first = policy.first_spin().saturating_add(most - policy.spin());
        let waits = self.waits.load(Relaxed).wrapping_add(1);
        self.waits.store(waits, Relaxed);
        let known = self.budget.load(Relaxed);
        if !policy.learns() || self.pressed(now) || known == u64::MAX {
            return first;
        }
        let least = if waits.is_multiple_of(PROBE_EVERY) { first } else { SPIN_MIN };
        known.max(least).min(most)
    }

    /// A wait ended with what it waited for, `ns` after its first looks.
    pub fn lasted(&self, policy: &Policy, ns: u64) {
        let at = &self.lengths[bucket(ns)];
        at.store(at.load(Relaxed).saturating_add(WEIGHT), Relaxed);
        if !policy.learns() {
            return;
        }
        let mut lengths = [0; BUCKETS];
        let mut sum = 0;
        for (kept, length) in lengths.iter_mut().zip(&self.lengths) {
            *kept = length.load(Relaxed);
            sum += *kept;
        }
        if sum >= WEIGHTS_MAX {
            self.lengths.iter().zip(lengths).for_each(|(l, w)| l.store(w / 2, Relaxed));
        }
        self.budget.store(best(&lengths, policy), Relaxed);
    }

    /// Whether processors were too few when that was last looked at, at `now`. How long
    /// waits are then says who else was let run, and nothing of the peer.
    pub fn pressed(&self, now: u64) -> bool {
        if self.stretch.load(Relaxed) == 0 {
            return false;
        }
        // Waits that neither show it again nor show the contrary: long ones. A clock
        // may be set back while a machine sleeps.
        let old = now.abs_diff(self.suspected.load(Relaxed)) > PRESSED;
        if old {
            self.note_roomy();
        }
        !old
    }

    /// Whether to leave the processor at once. Counts the stretch down.
    pub fn crowded(&self, now: u64) -> bool {
        let left = self.crowded.load(Relaxed);
        if left == 0 {
            return false;
        }
        if !self.pressed(now) {
            self.crowded.store(0, Relaxed);
            return false;
        }
        self.crowded.store(left - 1, Relaxed);
        true
    }

    /// In a wait that began at `start` spinning was in vain, and letting others run
    /// brought what was waited for, at `now`. Once is chance: a peer that was kept from
    /// its own processor for as long as this one spun. So the first stretch takes two
    /// waits, one soon after the other and none between that spinning ended; several
    /// threads that waited at the same time saw one thing.
    pub fn note_crowded(&self, start: u64, now: u64) {
        let last = self.suspected.load(Relaxed);
        if last != 0 && start < last && last.abs_diff(now) <= PRESSED {
            return;
        }
        let known = self.pressed(now);
        self.suspected.store(now, Relaxed);
        if !known && (last == 0 || now.abs_diff(last) > SUSPECTED) {
            return;
        }
        let stretch = self.stretch.load(Relaxed).saturating_mul(2).clamp(CROWDED.0, CROWDED.1);
        self.stretch.store(stretch, Relaxed);
        self.crowded.store(stretch, Relaxed);
    }

    /// Notes that spinning brought the answer.
    pub fn note_roomy(&self) {
        if self.stretch.load(Relaxed) != 0 {
            self.stretch.store(0, Relaxed);
        }
        if self.suspected.load(Relaxed) != 0 {
            self.suspected.store(0, Relaxed);
        }
    }
}

/// The budget that would have paid best: of the waits that end within it each
/// saves a wake, and every wait costs the time that it was awake.
fn best(lengths: &[u32; BUCKETS], policy: &Policy) -> u64 {
    let total: u64 = lengths.iter().map(|&w| u64::from(w)).sum();
    let (mut gain, mut budget) = (0i128, 0);
    let (mut within, mut spent) = (0u64, 0u128);
    for (b, &weight) in lengths.iter().enumerate().take(BUCKETS - 1) {
        let until = end(b);
        if until / 2 >= policy.awake() {
            break;
        }
        within += u64::from(weight);
        // A wait lasts three quarters of its bucket's end, or it is in the first.
        spent += u128::from(weight) * u128::from(until - until / 4);
        let awake = until.min(policy.awake());
        let cost = spent + u128::from(total - within) * u128::from(awake);
        let saved = u128::from(within) * u128::from(policy.wake_worth());
        let g = saved as i128 - cost as i128;
        if g > gain {
            (gain, budget) = (g, awake);
        }
    }
    budget
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitMode;

    fn taught(policy: &Policy, lengths: &[u64]) -> u64 {
        let l = WaitHistory::default();
        lengths.iter().cycle().take(100).for_each(|&ns| l.lasted(policy, ns));
        l.budget.load(Relaxed)
    }

    #[test]
    fn buckets_are_octaves() {
        assert_eq!([0, 1_999, 2_000, 3_999, 4_000].map(bucket), [0, 0, 1, 1, 2]);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for b in 0..BUCKETS - 1 {
            assert_eq!((bucket(end(b) - 1), bucket(end(b))), (b, b + 1));
        }
    }

    #[test]
    fn a_service_spins_for_callers_that_come_back_soon_and_for_no_others() {
        let p = Policy::service(WaitMode::Hybrid);
        assert_eq!(taught(&p, &[5_000]), 8_000);
        assert_eq!(taught(&p, &[20_000]), 32_000);
        assert_eq!(taught(&p, &[45_000]), 50_000);
        assert_eq!(taught(&p, &[200_000]), 0, "a wake is cheaper");
        assert_eq!(taught(&p, &[1_000_000_000]), 0);
        assert_eq!(taught(&p, &[5_000, 5_000, 5_000, 1_000_000]), 8_000, "most do");
        assert_eq!(taught(&p, &[[1 << 20; 15].as_slice(), &[20_000]].concat()), 0, "few do");
    }

    #[test]
    fn a_caller_stays_awake_where_sleeping_would_be_felt() {
        let p = Policy::caller(WaitMode::Hybrid);
        assert_eq!(taught(&p, &[60_000]), 64_000);
        assert_eq!(taught(&p, &[900_000]), 1_024_000);
        assert_eq!(taught(&p, &[8_000_000]), 0, "the published calls: a wake is under one percent");
        assert_eq!(taught(&p, &[100_000_000]), 0);
    }

    #[test]
    fn what_was_learned_is_unlearned() {
        let (p, l) = (Policy::service(WaitMode::Hybrid), WaitHistory::default());
        (0..10_000).for_each(|_| l.lasted(&p, 300_000));
        assert!((0..31).all(|_| l.budget(&p, 0) == SPIN_MIN));
        assert_eq!(l.budget(&p, 0), SERVICE_SPIN, "now and then it tries");
        (0..64).for_each(|_| l.lasted(&p, 10_000));
        assert_eq!(l.budget(&p, 0), 16_000);
    }

    #[test]
    fn a_steady_policy_learns_nothing() {
        let (p, l) = (Policy::service(WaitMode::Hybrid).steady(), WaitHistory::default());
        (0..100).for_each(|_| l.lasted(&p, 300_000_000));
        assert_eq!(l.budget(&p, 0), SERVICE_SPIN);
    }
}
