//! The interval of a median, from nothing but the order of the values.

/// What may lie beyond the interval on either side: it holds the true median in at least 95 of
/// 100 runs.
const TAIL: f64 = 0.025;

/// An interval that holds the median of whatever the values were drawn from, in at least 95 of
/// 100 draws, however it is distributed; `None` with fewer than 6 values, of which even the
/// lowest and the highest hold it less often.
///
/// Each value lies below the median with a chance of one half. So the number of values below it is that of
/// heads in as many throws of a coin, and the `k`th lowest value lies above the median as
/// seldom as there are fewer than `k` heads.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let k = rank(sorted.len())?;
    Some((sorted[k - 1], sorted[sorted.len() - k]))
}

/// The greatest `k` with a chance of at most [`TAIL`] that fewer than `k` of `n` lie below.
fn rank(n: usize) -> Option<usize> {
    // In logarithms: one half to the power of some thousand is no number any more.
    let mut term = n as f64 * 0.5f64.ln();
    let (mut below, mut k) = (0.0, 0);
    loop {
        below += term.exp();
        if below > TAIL || k >= n {
            return (k > 0).then_some(k);
        }
        term += ((n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::Lots;
    use crate::report::stats;

    #[test]
    fn the_ranks_are_those_of_the_tables() {
        // As in any table of the sign test, 5 %, two sides.
        let table = [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (12, Some(3))];
        let more = [(20, Some(6)), (25, Some(8)), (50, Some(18)), (100, Some(40))];
        for (n, k) in table.into_iter().chain(more) {
            assert_eq!(rank(n), k, "{n}");
        }
        // Half of them, less the square root and what rounds: no number is too large.
        let k = rank(100_000).unwrap();
        assert!((49_685..=49_695).contains(&k), "{k}");
        assert_eq!((rank(0), rank(1)), (None, None));
    }

    #[test]
    fn known_values_have_a_known_interval() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(median_interval(&values), Some((6.0, 15.0)));
        assert_eq!(median_interval(&values[..6]), Some((15.0, 20.0)));
        assert_eq!(median_interval(&values[..5]), None);
    }

    /// Ratios as machines yield them: few far above, most close together.
    fn skewed(lots: &mut Lots) -> f64 {
        let x = lots.unit();
        1.0 + 0.01 * x + if x > 0.9 { lots.unit() } else { 0.0 }
    }

    #[test]
    fn it_holds_the_median_in_95_of_100_draws() {
        const DRAWS: u32 = 4_000;
        // Nine of ten are 1 to 1.009, the rest above: half lie below 1.005.
        let truth = 1.005;
        let mut lots = Lots::new(7);
        for n in [6, 21, 63, 300] {
            let mut held = 0;
            for _ in 0..DRAWS {
                let values: Vec<f64> = (0..n).map(|_| skewed(&mut lots)).collect();
                let (low, high) = median_interval(&values).unwrap();
                let median = stats::median(&values).unwrap();
                assert!(low <= median && median <= high);
                held += u32::from(low <= truth && truth <= high);
            }
            let part = f64::from(held) / f64::from(DRAWS);
            // Three deviations of what 4000 draws can show.
            assert!(part > 0.95 - 0.0103, "{n}: {part}");
            assert!(part < 0.985, "{n}: {part}: wider than it needs to be");
        }
    }
}
