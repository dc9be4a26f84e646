//! What a VM sends and gets, as far as it can be believed.
//!
//! On the paravirtual way the host counts at the tap; a VM's own claim counts up to that.
//! On a VF that the card counts, the card is believed. On one that it does not count (its
//! counter never moves) nobody but the VM knows: its claim counts up to the rate that the
//! host saw before, for the time on the VF, and that bound halves with each tenure after the first. So a VM that
//! lies keeps a VF for no longer than the rate it once had is worth, and has to send in
//! earnest, where the host counts, to get one again. One that is honest and busy is
//! measured anew in the same way.

use crate::event::HostCounts;

/// Weight of the newest interval in the rate that the host saw.
const NEWEST: f64 = 0.5;

/// How long a VM has used its VF.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub ms: u64,
    /// The same in tenures.
    pub tenures: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    claim_last: Option<u64>,
    tap_last: Option<u64>,
    vf_last: Option<u64>,
    /// Packets since the last decision.
    claim: u64,
    tap: u64,
    vf: u64,
    /// The VF's counter has moved since the VM got it.
    vf_counts: bool,
    /// Packets a second that the host saw, smoothed.
    seen_per_s: f64,
    /// Packets a second that the last decision reckoned with.
    pub per_s: f64,
}

/// Packets since the last count; one that went back begins anew.
fn host_delta(last: &mut Option<u64>, count: u64) -> u64 {
    match last.replace(count) {
        Some(before) if before <= count => count - before,
        Some(_) => count,
        None => 0,
    }
}

impl Traffic {
    /// The VM's own count.
    pub(crate) fn claim(&mut self, packets: u64) {
        // Its bond made anew: what it had sent by then is in no report.
        let before = self.claim_last.replace(packets).unwrap_or(packets);
        self.claim = self.claim.saturating_add(packets.saturating_sub(before));
    }

    /// The host's counts.
    pub(crate) fn counted(&mut self, counts: HostCounts) {
        let tap = host_delta(&mut self.tap_last, counts.paravirtual);
        self.tap = self.tap.saturating_add(tap);
        let Some(vf) = counts.vf else {
            self.vf_last = None;
            return;
        };
        let delta = host_delta(&mut self.vf_last, vf);
        self.vf_counts |= delta > 0;
        self.vf = self.vf.saturating_add(delta);
    }

    /// It holds another VF from now on.
    pub(crate) fn begin_hold(&mut self) {
        self.vf_counts = false;
    }

    /// Whether the host counts what it sends through its VF.
    pub(crate) fn is_observable(&self) -> bool {
        self.vf_counts
    }

    /// Packets to reckon with in the `ms` since the last decision. `held`: how long it has
    /// held a VF.
    pub(crate) fn take(&mut self, ms: u64, held: Option<Held>) -> u64 {
        let seconds = ms.max(1) as f64 / 1000.0;
        let host = self.tap.saturating_add(self.vf);
        let packets = match held {
            Some(held) if !self.vf_counts => {
                let worth = 0.5f64.powf((held.tenures - 1.0).max(0.0));
                // Before it had the VF, the tap counted what it sent.
                let on_vf = held.ms.min(ms) as f64 / 1000.0;
                let bound = (self.seen_per_s * worth * on_vf) as u64;
                self.claim.min(self.tap.saturating_add(bound))
            }
            Some(_) => host,
            None => self.claim.min(host),
        };
        self.per_s = packets as f64 / seconds;
        if held.is_none() || self.vf_counts {
            self.seen_per_s += (self.per_s - self.seen_per_s) * NEWEST;
        }
        (self.claim, self.tap, self.vf) = (0, 0, 0);
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second of claimed and counted packets after all that was before.
    fn second(t: &mut Traffic, claim: u64, tap: u64, vf: Option<u64>, held: Option<f64>) -> u64 {
        t.claim(t.claim_last.unwrap_or(0) + claim);
        let vf = vf.map(|n| t.vf_last.unwrap_or(0) + n);
        t.counted(HostCounts { paravirtual: t.tap_last.unwrap_or(0) + tap, vf });
        t.take(1000, held.map(|tenures| Held { ms: 1000, tenures }))
    }

    fn started() -> Traffic {
        let mut t = Traffic::default();
        t.claim(0);
        t.counted(HostCounts { paravirtual: 0, vf: Some(0) });
        t
    }

    #[test]
    fn a_claim_counts_up_to_what_the_host_saw() {
        let mut t = started();
        assert_eq!(second(&mut t, 1_000_000, 10, None, None), 10);
        assert_eq!(second(&mut t, 5, 10, None, None), 5);
    }

    #[test]
    fn a_card_that_counts_is_believed() {
        let mut t = started();
        assert_eq!(second(&mut t, 1_000_000, 1, Some(50), Some(0.5)), 51);
        assert!(t.is_observable());
        assert_eq!(second(&mut t, 1_000_000, 1, Some(0), Some(0.5)), 1, "it rests");
    }

    #[test]
    fn on_a_card_that_does_not_count_a_claim_is_worth_less_with_each_tenure() {
        let mut t = started();
        for _ in 0..20 {
            second(&mut t, 1000, 1000, None, None);
        }
        t.begin_hold();
        let at = |t: &mut Traffic, held| second(t, 1_000_000, 0, Some(0), Some(held));
        assert!((998..=1000).contains(&at(&mut t, 0.9)));
        assert!((249..=250).contains(&at(&mut t, 3.0)));
        assert!(at(&mut t, 12.0) == 0);
        assert_eq!(second(&mut t, 3, 0, Some(0), Some(1.0)), 3, "nor more than it claims");
    }

    #[test]
    fn a_claim_counts_beside_the_tap_only_for_the_time_on_the_vf() {
        let mut t = started();
        for _ in 0..40 {
            second(&mut t, 1000, 1000, None, None);
        }
        t.begin_hold();
        t.claim(u64::MAX);
        t.counted(HostCounts { paravirtual: 40_600, vf: Some(0) });
        // 600 at the tap in the first 600 ms.
        let packets = t.take(1000, Some(Held { ms: 400, tenures: 0.01 }));
        assert!((998..=1000).contains(&packets), "{packets}");
    }

    #[test]
    fn counts_that_go_back_begin_anew() {
        let mut t = started();
        second(&mut t, 100, 100, Some(100), Some(0.1));
        t.claim(3);
        t.counted(HostCounts { paravirtual: 2, vf: Some(7) });
        assert_eq!(t.take(1000, Some(Held { ms: 100, tenures: 0.1 })), 9);
        t.claim(u64::MAX);
        t.counted(HostCounts { paravirtual: u64::MAX, vf: Some(u64::MAX) });
        assert_eq!(t.take(1000, None), u64::MAX - 3);
    }
}
