//! What a grant does, smoothed.

/// What the host saw a grant do since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Calls completed without an error.
    pub calls: u64,
    /// Mean time of a call in software, ns, where any ran there.
    pub soft_ns: Option<f64>,
    /// Mean time of a call in hardware, ns, where any ran there.
    pub hard_ns: Option<f64>,
}

/// Weight of the newest interval. With one half, three quarters of a change
/// are seen after two intervals, and one odd interval is half forgotten.
const NEWEST: f64 = 0.5;
/// The same for times of a call, which change with arguments only.
const NEWEST_TIME: f64 = 0.25;

/// Calls a second below which a grant that makes none is taken to make none any more:
/// a rate that is halved each time would stay above zero for a thousand intervals.
/// After a thousand calls a second that is after 30 intervals.
const NONE: f64 = 1e-6;

/// Smoothed rate and times of one grant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Calls a second; `None` before the first sample.
    per_s: Option<f64>,
    soft_ns: Option<f64>,
    hard_ns: Option<f64>,
}

fn blend(old: Option<f64>, new: Option<f64>, weight: f64) -> Option<f64> {
    let new = new.filter(|n| n.is_finite() && *n >= 0.0);
    match (old, new) {
        (Some(o), Some(n)) => Some(o + (n - o) * weight),
        (o, n) => n.or(o),
    }
}

impl Rate {
    /// Takes what happened in `ms` in.
    pub fn take(&mut self, s: &Sample, ms: u64, cap: Option<f64>) {
        let per_s = s.calls as f64 * 1000.0 / ms.max(1) as f64;
        let per_s = cap.map_or(per_s, |cap| per_s.min(cap));
        let smoothed = blend(self.per_s, Some(per_s), NEWEST);
        self.per_s = smoothed.map(|rate| if rate < NONE { 0.0 } else { rate });
        self.soft_ns = blend(self.soft_ns, s.soft_ns, NEWEST_TIME);
        self.hard_ns = blend(self.hard_ns, s.hard_ns, NEWEST_TIME);
    }

    /// Calls a second.
    pub fn per_s(&self) -> f64 {
        self.per_s.unwrap_or(0.0)
    }

    /// Time that a VF saves a call, ns: measured where both are known, else what
    /// it saves by `others`, the boost of those where both are, else the
    /// function's usual gain. Negative where software is faster.
    pub fn saved_ns(&self, usual: f64, others: Option<f64>) -> f64 {
        match (self.soft_ns, self.hard_ns, others) {
            (Some(soft), Some(hard), _) => soft - hard,
            (Some(soft), None, Some(boost)) => soft * boost,
            (None, Some(hard), Some(boost)) if boost < 1.0 => hard * boost / (1.0 - boost),
            _ => usual,
        }
    }

    /// Boost as published: (soft − hard) / soft, where both are known.
    pub fn boost(&self) -> Option<f64> {
        let (soft, hard) = (self.soft_ns?, self.hard_ns?);
        (soft > 0.0).then(|| (soft - hard) / soft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_rate_is_seen_within_two_intervals() {
        let mut r = Rate::default();
        let calls = |calls| Sample { calls, ..Sample::default() };
        for _ in 0..5 {
            r.take(&calls(100), 1000, None);
        }
        assert_eq!(r.per_s(), 100.0);
        r.take(&calls(1000), 1000, None);
        r.take(&calls(1000), 1000, None);
        assert!(r.per_s() > 750.0, "{}", r.per_s());
        r.take(&calls(1000), 1000, Some(10.0));
        assert!(r.per_s() < 400.0, "the cap holds");
    }

    #[test]
    fn times_are_used_only_where_both_were_measured() {
        let mut r = Rate::default();
        assert_eq!(r.saved_ns(7.0, None), 7.0);
        assert_eq!(r.saved_ns(7.0, Some(0.5)), 7.0, "nothing that a part could be of");
        r.take(&Sample { calls: 1, soft_ns: Some(100.0), hard_ns: None }, 10, None);
        assert_eq!((r.saved_ns(7.0, None), r.boost()), (7.0, None));
        assert_eq!(r.saved_ns(7.0, Some(0.75)), 75.0, "as much as it saves the others");
        let hard = Rate { hard_ns: Some(25.0), ..Rate::default() };
        assert_eq!(hard.saved_ns(7.0, Some(0.75)), 75.0);
        r.take(&Sample { calls: 1, soft_ns: None, hard_ns: Some(40.0) }, 10, None);
        assert_eq!((r.saved_ns(7.0, Some(0.1)), r.boost()), (60.0, Some(0.6)));
        r.take(&Sample { calls: 1, soft_ns: Some(f64::NAN), hard_ns: Some(-1.0) }, 10, None);
        assert_eq!(r.saved_ns(7.0, None), 60.0, "nonsense is left out");
    }
}
