//! Times one thing again and again, each time by itself.

use super::Clock;
use crate::Result;
use crate::report::stats::Percentiles;
use std::time::Duration;
use vfun_window::cycles;

/// Times `f` until there are `most` samples or `limit` has passed, whichever is first,
/// but at least once. Samples follow each other with one reading of the counter in each:
/// the end of one is the beginning of the next.
pub(super) fn chain(
    clock: &Clock,
    most: u32,
    limit: Duration,
    mut f: impl FnMut() -> Result<()>,
) -> Result<Vec<u64>> {
    let limit = clock.cycles(limit);
    // Made (and its pages touched) before the clock runs.
    let mut samples = vec![1; most.max(1) as usize];
    let from = cycles();
    let mut last = from;
    let mut taken = 0;
    for sample in &mut samples {
        f()?;
        let now = cycles();
        *sample = now.wrapping_sub(last);
        last = now;
        taken += 1;
        if now.wrapping_sub(from) > limit {
            break;
        }
    }
    samples.truncate(taken);
    Ok(samples)
}

/// The samples' percentiles in nanoseconds. The median is taken between the steps of the
/// counter, which are 10 ns on some processors: a tenth of what is measured.
pub(super) fn percentiles(clock: &Clock, mut cycles: Vec<u64>) -> Percentiles {
    let in_ns = |c| clock.ns(c);
    let p = Percentiles::of(&mut cycles).unwrap_or(Percentiles { p50: 0, p99: 0, p999: 0 });
    let p50 = (middle(&cycles) * clock.ns_per_cycle()).round() as u64;
    Percentiles { p50, p99: in_ns(p.p99), p999: in_ns(p.p999) }
}

/// The median of values that a counter has rounded: the samples that read alike are taken
/// to lie evenly over the step that they share. Of values that are all different it is
/// the median. `sorted` is ascending; 0 of nothing.
fn middle(sorted: &[u64]) -> f64 {
    let Some(&value) = sorted.get(sorted.len() / 2) else { return 0.0 };
    let first = sorted.partition_point(|&s| s < value);
    let end = sorted.partition_point(|&s| s <= value);
    let (below, above) = (first.checked_sub(1).map(|i| sorted[i]), sorted.get(end).copied());
    // A step reaches half-way to its neighbours; at an end it is as wide as on the other side.
    let down = below.map(|b| (value - b) as f64 / 2.0);
    let up = above.map(|a| (a - value) as f64 / 2.0);
    let (down, up) = (down.or(up).unwrap_or(0.0), up.or(down).unwrap_or(0.0));
    // A far neighbour is an outlier, not the next step.
    let (down, up) = (down.min(up * 2.0), up.min(down * 2.0));
    let share = (sorted.len() as f64 / 2.0 - first as f64) / (end - first) as f64;
    value as f64 - down + (down + up) * share
}

/// How often `f` runs in at least `least`, and the time that took in seconds. The counter
/// is read once for `batch` runs.
pub(super) fn rate(
    clock: &Clock,
    least: Duration,
    batch: u32,
    mut f: impl FnMut() -> Result<()>,
) -> Result<(u64, f64)> {
    let least = clock.cycles(least);
    let (from, mut runs) = (cycles(), 0);
    loop {
        for _ in 0..batch {
            f()?;
        }
        runs += u64::from(batch);
        let took = cycles().wrapping_sub(from);
        if took >= least {
            return Ok((runs, took as f64 * clock.ns_per_cycle() * 1e-9));
        }
    }
}

/// Runs `f` for a while, untimed, so that everybody is awake and every page is there:
/// until `time` has passed or it ran `most` times, whichever is first.
pub(super) fn warm_up(
    clock: &Clock,
    most: u32,
    time: Duration,
    f: impl FnMut() -> Result<()>,
) -> Result<()> {
    chain(clock, most, time, f).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between_the_counters_steps() {
        assert_eq!((middle(&[]), middle(&[7]), middle(&[5, 5, 5])), (0.0, 7.0, 5.0));
        // Even over three steps: the middle of the middle one.
        assert_eq!(middle(&[100, 110, 120]), 110.0);
        // True values around 104, read in steps of 10.
        let mut read: Vec<u64> = (0..1000u64).map(|i| (99 + i % 11 + 5) / 10 * 10).collect();
        read.sort_unstable();
        assert!((middle(&read) - 104.0).abs() < 1.0, "{}", middle(&read));
        // An outlier beside the middle does not pull it away.
        assert!((middle(&[100, 110, 110, 110, 9_000]) - 110.0).abs() <= 10.0);
    }

    #[test]
    fn limits_hold() {
        let clock = Clock::calibrate();
        let mut ran = 0;
        let mut count = || {
            ran += 1;
            Ok(())
        };
        assert_eq!(chain(&clock, 100, Duration::from_secs(5), &mut count).unwrap().len(), 100);
        assert_eq!(chain(&clock, 100, Duration::ZERO, &mut count).unwrap().len(), 1);
        assert_eq!(ran, 101);
        let sleep = || {
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        };
        let samples = chain(&clock, 5, Duration::from_secs(5), sleep).unwrap();
        assert!(percentiles(&clock, samples).p50 >= 1_990_000);
        let (runs, seconds) = rate(&clock, Duration::from_millis(20), 2, sleep).unwrap();
        assert!(runs % 2 == 0 && (2..=10).contains(&runs), "{runs}");
        assert!(seconds >= 0.0199 && seconds / runs as f64 >= 0.00199, "{seconds}");
    }
}
