//! From slices to rows.

use super::slice::Slice;
use crate::method::{Compared, Pair, Turns};
use crate::report::{RemotingRatio, RemotingRow, stats};

/// From so many times on a slice has a p99 of its own.
const TIMES: u32 = 100;

/// p50 and p99 of a variant: the medians of its slices, or of all of them together where a
/// slice is too short for a p99.
fn percentiles(slices: &[Slice]) -> (Option<f64>, Option<f64>) {
    let all = |f: fn(&Slice) -> f64| slices.iter().map(f).collect::<Vec<_>>();
    let p99 = match slices.iter().all(|s| s.times >= TIMES) {
        true => stats::median(&all(|s| s.p99)),
        false => Slice::of(all(|s| s.p99)).map(|s| s.p99),
    };
    (stats::median(&all(|s| s.p50)), p99)
}

impl RemotingRow {
    /// With the figures of a variant and of the one that it is compared with.
    #[must_use]
    pub fn of_slices(mut self, turns: &Turns<Slice>, variant: usize, base: usize) -> Self {
        let (slices, bases) = (turns.kept(variant), turns.kept(base));
        (self.p50_ns, self.p99_ns) = percentiles(&slices);
        (self.base_p50_ns, self.base_p99_ns) = percentiles(&bases);
        let each: Vec<f64> = slices.iter().map(|s| s.p50).collect();
        self.most_ns = stats::range(&each).map(|(_, most)| most);
        (self.least_ns, self.base_least_ns) =
            least(turns, [variant, base]).map(|[a, b]| (a, b)).unzip();
        self.added_ns = added(turns, variant, base);
        self.compared_by(RemotingRatio::Time, turns.over(variant, base, |s| s.p50))
    }

    /// The ratio as one of rates, with the rates of so much work.
    #[must_use]
    pub fn as_rate(
        mut self,
        turns: &Turns<Slice>,
        (variant, base): (usize, usize),
        work: f64,
    ) -> Self {
        let per_s = |ns: Option<f64>| ns.map(|ns| work * 1e9 / ns);
        (self.per_s, self.base_per_s) = (per_s(self.p50_ns), per_s(self.base_p50_ns));
        self.compared_by(RemotingRatio::Rate, turns.over(variant, base, |s| 1.0 / s.p50))
    }
}

/// The p50s of the turn that was disturbed least: that with the least product of them, so that a
/// part of each counts as much as the same part of the others.
pub fn least<const N: usize>(turns: &Turns<Slice>, variants: [usize; N]) -> Option<[f64; N]> {
    let all: Vec<[f64; N]> =
        turns.together(variants).into_iter().map(|t| t.map(|s| s.p50)).collect();
    let product = |turn: &[f64; N]| turn.iter().map(|ns| ns.max(1e-3).ln()).sum::<f64>();
    all.into_iter().min_by(|a, b| product(a).total_cmp(&product(b)))
}

/// The differences of pairs: undisturbed ones if there are any.
pub fn differences(turns: &Turns<Slice>, variant: usize, base: usize) -> Vec<Pair> {
    turns.pairs(variant, base, |s| s.p50)
}

fn added(turns: &Turns<Slice>, variant: usize, base: usize) -> Option<f64> {
    let pairs = differences(turns, variant, base);
    let quiet = pairs.iter().any(|p| !p.disturbed);
    let kept = pairs.iter().filter(|p| !quiet || !p.disturbed);
    stats::median(&kept.map(|p| p.figure - p.base).collect::<Vec<_>>())
}

/// What `variant` adds to `base`, divided by `parts`, over the time of `unit`: one of each in a turn.
pub fn added_over(
    turns: &Turns<Slice>,
    (variant, base): (usize, usize),
    parts: f64,
    (unit, of_unit): (usize, f64),
) -> Compared {
    let both = differences(turns, variant, base).into_iter().zip(differences(turns, unit, base));
    let pair = |(added, unit): (Pair, Pair)| Pair {
        figure: (added.figure - added.base) / parts,
        base: unit.figure * of_unit,
        disturbed: added.disturbed || unit.disturbed,
    };
    Compared::of(&both.map(pair).collect::<Vec<_>>())
}
