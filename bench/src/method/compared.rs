//! What a comparison came to: a ratio, how well it is known, and what it settles.

use super::median_interval;
use crate::report::{stats, text::number::times_column as times};

/// At most this part of the pairs may be dropped. Beyond it the kept ones are no longer
/// typical of what ran, and nothing is told.
const DROPPED_MOST: f64 = 0.5;

/// Two figures of slices that ran beside each other, and whether either was disturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The figure of what is compared.
    pub figure: f64,
    /// The figure that it is compared with.
    pub base: f64,
    /// Whether the kernel counted a disturbance in either.
    pub disturbed: bool,
}

/// A ratio of two things that were run in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// The median of the kept pairs' ratios; `None` if too many were dropped.
    pub ratio: Option<f64>,
    /// The interval's lower end; `None` if there is no ratio, or too few pairs for an interval.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
    /// Pairs of slices that were run; dropped ones count.
    pub pairs: u32,
    /// Pairs that were dropped, because the kernel counted a disturbance.
    pub dropped: u32,
}

/// What a comparison says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The whole interval does.
    Yes,
    /// The whole interval does not.
    No,
    /// The interval lies on both sides, or there is none.
    CannotTell,
}

impl Compared {
    /// Of pairs. Disturbed ones are dropped, whatever their figures are.
    pub fn of(pairs: &[Pair]) -> Self {
        let kept: Vec<_> =
            pairs.iter().filter(|p| !p.disturbed).map(|p| p.figure / p.base).collect();
        let dropped = pairs.len() - kept.len();
        let told = dropped as f64 <= DROPPED_MOST * pairs.len() as f64;
        let ratio = if told { stats::median(&kept) } else { None };
        let (low, high) = ratio.and_then(|_| median_interval(&kept)).unzip();
        Compared { ratio, low, high, pairs: pairs.len() as u32, dropped: dropped as u32 }
    }

    /// Both ends of the interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Whether the ratio is at most so much.
    pub fn at_most(&self, limit: f64) -> Says {
        match self.interval() {
            Some((_, high)) if high <= limit => Says::Yes,
            Some((low, _)) if low > limit => Says::No,
            _ => Says::CannotTell,
        }
    }

    /// Whether the ratio is at least so much.
    pub fn at_least(&self, limit: f64) -> Says {
        match self.interval() {
            Some((low, _)) if low >= limit => Says::Yes,
            Some((_, high)) if high < limit => Says::No,
            _ => Says::CannotTell,
        }
    }

    /// The ratio, if the interval reaches no further than this part of it to either side.
    pub fn known_within(&self, part: f64) -> Option<f64> {
        let (ratio, (low, high)) = (self.ratio?, self.interval()?);
        (ratio - low <= part * ratio && high - ratio <= part * ratio).then_some(ratio)
    }

    /// Without the ratio, if its interval reaches further than this part of it.
    #[must_use]
    pub fn told_within(mut self, part: f64) -> Self {
        self.ratio = self.known_within(part);
        self
    }

    /// With an interval that also holds what runs an hour apart say, where the cost of calling
    /// (the ratio's distance from 1) changes from run to run: each side is wider by this part of
    /// that cost. One run cannot see such changes: all of its pairs have them in common.
    #[must_use]
    pub fn between_runs(mut self, part: f64) -> Self {
        if let (Some(ratio), Some((low, high))) = (self.ratio, self.interval()) {
            let more = part * (ratio - 1.0).abs();
            (self.low, self.high) = (Some(low - more), Some(high + more));
        }
        self
    }

    /// "1.004 × (0.998 … 1.009)", or why it cannot be told.
    pub fn words(&self) -> String {
        let (pairs, dropped) = (self.pairs, self.dropped);
        match (self.ratio, self.interval()) {
            (Some(ratio), Some((low, high))) => {
                format!("{} × ({} … {})", times(ratio), times(low), times(high))
            }
            (None, Some((low, high))) => {
                format!("cannot tell: {} … {} ×", times(low), times(high))
            }
            (None, None) if pairs - dropped < pairs.div_ceil(2) => {
                format!("cannot tell: {dropped} of {pairs} pairs of slices were disturbed")
            }
            _ => {
                let kept = pairs - dropped;
                format!("cannot tell: {kept} undisturbed pairs of slices, at least 6 are needed")
            }
        }
    }

    /// The same for a table's cell, where there is no room for reasons: "1.004 (0.998 … 1.009)",
    /// and "?" for what cannot be told.
    pub fn cell(&self) -> String {
        let ratio = self.ratio.map_or_else(|| "?".to_owned(), times);
        match self.interval() {
            Some((low, high)) => format!("{ratio} ({} … {})", times(low), times(high)),
            None => "?".to_owned(),
        }
    }
}

/// Two lists of figures that were taken in turns, with nothing dropped: what lasts too long for
/// slices.
pub fn over_in_turns(figures: &[f64], bases: &[f64]) -> Compared {
    let pair = |(&figure, &base): (&f64, &f64)| Pair { figure, base, disturbed: false };
    Compared::of(&figures.iter().zip(bases).map(pair).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: &[f64], disturbed: usize) -> Vec<Pair> {
        let pair =
            |(i, &r): (usize, &f64)| Pair { figure: 7.0 * r, base: 7.0, disturbed: i < disturbed };
        ratios.iter().enumerate().map(pair).collect()
    }

    const TEN: [f64; 10] = [9.0, 9.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08];

    #[test]
    fn disturbed_pairs_are_dropped_and_counted() {
        let all = Compared::of(&pairs(&TEN, 2));
        assert_eq!((all.pairs, all.dropped), (10, 2));
        assert!((all.ratio.unwrap() - 1.045).abs() < 1e-12, "{all:?}");
        assert!(
            (all.low.unwrap() - 1.01).abs() < 1e-12 && (all.high.unwrap() - 1.08).abs() < 1e-12
        );
        assert_eq!(all.words(), "1.045 × (1.010 … 1.080)");
        assert_eq!(all.cell(), "1.045 (1.010 … 1.080)");
    }

    #[test]
    fn when_more_than_half_are_dropped_nothing_is_told() {
        let many: Vec<f64> = (0..20).map(|i| 1.0 + f64::from(i) / 1e4).collect();
        let half = Compared::of(&pairs(&many, 10));
        assert!(half.ratio.is_some() && half.interval().is_some());
        let more = Compared::of(&pairs(&many, 11));
        assert_eq!((more.ratio, more.interval(), more.dropped), (None, None, 11));
        assert_eq!(more.words(), "cannot tell: 11 of 20 pairs of slices were disturbed");
        assert_eq!((more.at_most(5.0), more.at_least(0.1)), (Says::CannotTell, Says::CannotTell));
        assert_eq!(more.cell(), "?");
    }

    #[test]
    fn few_pairs_have_a_ratio_and_no_interval() {
        let few = Compared::of(&pairs(&[1.0, 1.1, 1.2], 0));
        assert_eq!((few.ratio.map(|r| (r * 10.0).round()), few.interval()), (Some(11.0), None));
        assert_eq!(
            few.words(),
            "cannot tell: 3 undisturbed pairs of slices, at least 6 are needed"
        );
        assert_eq!(few.at_most(9.0), Says::CannotTell);
        let none = Compared::of(&[]).words();
        assert_eq!(none, "cannot tell: 0 undisturbed pairs of slices, at least 6 are needed");
    }

    #[test]
    fn what_calls_cost_is_known_less_well_between_runs() {
        let close = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-12;
        let all = Compared::of(&pairs(&TEN[2..], 0));
        let wider = all.between_runs(0.5);
        assert!(close(wider.ratio, 1.045) && all.ratio == wider.ratio);
        assert!(close(wider.low, 1.01 - 0.0225) && close(wider.high, 1.08 + 0.0225), "{wider:?}");
        // What costs nothing is known as before, and what is not known stays so.
        let even = Compared { ratio: Some(1.0), ..all };
        assert_eq!(even.between_runs(0.5), even);
        let few = Compared::of(&pairs(&TEN[..3], 0));
        assert_eq!(few.between_runs(0.5), few);
        // A ratio below 1 is as uncertain as one above it.
        let fast = Compared { ratio: Some(0.9), low: Some(0.89), high: Some(0.91), ..all };
        let wider = fast.between_runs(0.5);
        assert!(close(wider.low, 0.84) && close(wider.high, 0.96), "{wider:?}");
    }

    #[test]
    fn both_sides_must_be_close() {
        let of = |low, high| Compared {
            ratio: Some(1.0),
            low: Some(low),
            high: Some(high),
            ..Compared::default()
        };
        assert_eq!(of(0.995, 1.005).known_within(0.01), Some(1.0));
        assert_eq!(of(0.95, 1.005).known_within(0.01), None);
        assert_eq!(of(0.995, 1.05).known_within(0.01), None);
    }

    #[test]
    fn a_limit_within_the_interval_cannot_be_told() {
        let all = Compared::of(&pairs(&TEN[2..], 0));
        assert_eq!(
            (all.at_most(1.08), all.at_most(1.0), all.at_most(1.05)),
            (Says::Yes, Says::No, Says::CannotTell)
        );
        assert_eq!(
            (all.at_least(1.01), all.at_least(1.09), all.at_least(1.05)),
            (Says::Yes, Says::No, Says::CannotTell)
        );
        assert!(all.told_within(0.04).ratio.is_some());
        let wide = all.told_within(0.01);
        assert_eq!((wide.ratio, wide.interval()), (None, all.interval()));
        assert_eq!(
            (wide.words(), wide.cell()),
            ("cannot tell: 1.010 … 1.080 ×".into(), "? (1.010 … 1.080)".into())
        );
        assert_eq!(wide.at_most(1.08), Says::Yes, "the interval still answers");
    }
}
