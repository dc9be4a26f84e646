//! The few statistics that reports use. Nothing here yields NaN or infinity, which JSON
//! cannot hold: what cannot be computed is `None`, and so is anything of values that are
//! not all finite.

use serde::{Deserialize, Serialize};

/// Percentiles of one run's samples, in the samples' own unit (nanoseconds in reports).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the samples are no larger.
    pub p50: u64,
    /// 99 of 100 are no larger.
    pub p99: u64,
    /// 999 of 1000 are no larger.
    pub p999: u64,
}

impl Percentiles {
    /// Sorts the samples and takes the percentiles; `None` without samples.
    pub fn of(samples: &mut [u64]) -> Option<Self> {
        samples.sort_unstable();
        Some(Self {
            p50: percentile(samples, 500)?,
            p99: percentile(samples, 990)?,
            p999: percentile(samples, 999)?,
        })
    }
}

/// The smallest sample that at least `thousandths` of 1000 samples do not exceed
/// (nearest rank: always a sample that occurred). `sorted` must be ascending;
/// `thousandths` beyond 1000 count as 1000. `None` without samples.
pub fn percentile(sorted: &[u64], thousandths: u32) -> Option<u64> {
    // Whole numbers, because 0.999 * n is not exact and would slip by one rank.
    let part = u128::from(thousandths.min(1000));
    let rank = (sorted.len() as u128 * part).div_ceil(1000).max(1);
    sorted.get(rank as usize - 1).copied()
}

fn usable(values: &[f64]) -> bool {
    !values.is_empty() && values.iter().all(|v| v.is_finite())
}

/// The arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    usable(values).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (n - 1); `None` with fewer than two values, because
/// one run says nothing about spread.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The middle value, or the mean of the two middle ones; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        _ if !usable(values) => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The smallest and the largest value; `None` without values.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first().filter(|_| usable(values))?;
    Some(values.iter().fold((first, first), |(low, high), &v| (low.min(v), high.max(v))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, spelled out: the first sample with enough samples at or below it.
    fn naive(samples: &[u64], thousandths: u64) -> u64 {
        let mut candidates = samples.to_vec();
        candidates.sort_unstable();
        let below = |v: u64| samples.iter().filter(|&&s| s <= v).count() as u64;
        *candidates
            .iter()
            .find(|&&v| below(v) * 1000 >= thousandths * samples.len() as u64)
            .unwrap()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
    }

    #[test]
    fn nothing_has_no_statistics() {
        assert_eq!(Percentiles::of(&mut []), None);
        assert_eq!((mean(&[]), sample_sd(&[]), median(&[]), range(&[])), (None, None, None, None));
        assert_eq!(sample_sd(&[3.0]), None);
        for bad in [f64::NAN, f64::INFINITY] {
            let values = [1.0, bad, 2.0];
            assert_eq!((mean(&values), sample_sd(&values)), (None, None));
            assert_eq!((median(&values), range(&values)), (None, None));
        }
    }

    #[test]
    fn exact_ranks() {
        let thousands: Vec<u64> = (1..=3000).collect();
        assert_eq!(percentile(&thousands, 999), Some(2997));
        assert_eq!(percentile(&thousands, 990), Some(2970));
        assert_eq!(percentile(&thousands, 0), Some(1));
        assert_eq!(percentile(&thousands, 5000), Some(3000));
        assert_eq!(
            sample_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            Some((32.0f64 / 7.0).sqrt())
        );
    }

    proptest! {
        #[test]
        fn percentiles_match_the_definition(mut samples in prop::collection::vec(0u64..500, 1..400)) {
            let got = Percentiles::of(&mut samples).unwrap();
            prop_assert_eq!(got.p50, naive(&samples, 500));
            prop_assert_eq!(got.p99, naive(&samples, 990));
            prop_assert_eq!(got.p999, naive(&samples, 999));
        }

        #[test]
        fn moments_match_the_definition(values in prop::collection::vec(-1e3f64..1e3, 2..60)) {
            let n = values.len() as f64;
            let mut sum = 0.0;
            for v in &values { sum += v; }
            prop_assert!(near(mean(&values).unwrap(), sum / n));
            // Over all pairs: a formula that does not use the mean.
            let mut pairs = 0.0;
            for a in &values { for b in &values { pairs += (a - b) * (a - b); } }
            let sd = (pairs / (2.0 * n * (n - 1.0))).sqrt();
            prop_assert!((sample_sd(&values).unwrap() - sd).abs() < 1e-6);
        }

        #[test]
        fn median_has_as_many_below_as_above(values in prop::collection::vec(-1e3f64..1e3, 1..60)) {
            let m = median(&values).unwrap();
            let below = values.iter().filter(|&&v| v < m).count();
            let above = values.iter().filter(|&&v| v > m).count();
            prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
            let (low, high) = range(&values).unwrap();
            prop_assert!(low <= m && m <= high);
            prop_assert!(values.iter().all(|&v| low <= v && v <= high));
        }
    }
}
