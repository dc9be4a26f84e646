//! How long calls took.

use crate::out;
use serde_json::{Value, json};
use std::time::Duration;

/// Times kept; later calls count only in the total.
pub const KEPT: u64 = 1 << 20;

fn at(sorted: &[Duration], per_mille: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * per_mille / 1000).min(last)).copied().unwrap_or_default()
}

fn sorted(times: &[Duration]) -> Vec<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted
}

/// For people. The clock is read twice a call, some 25 ns each.
pub fn text(times: &[Duration], calls: u64, all: Duration) -> String {
    let s = sorted(times);
    let d = out::duration;
    format!(
        "{} calls in {}: p50 {}, p99 {}, p99.9 {}, least {}, most {} ({} a second)",
        out::count(calls),
        d(all),
        d(at(&s, 500)),
        d(at(&s, 990)),
        d(at(&s, 999)),
        d(at(&s, 0)),
        d(at(&s, 1000)),
        out::rate(calls as f64 / all.as_secs_f64().max(1e-9)),
    )
}

/// The times as JSON, in nanoseconds.
pub fn object(times: &[Duration], all: Duration) -> Value {
    let s = sorted(times);
    let ns = |per_mille| at(&s, per_mille).as_nanos() as u64;
    json!({
        "all": all.as_nanos() as u64, "min": ns(0), "p50": ns(500), "p99": ns(990), "p999": ns(999), "max": ns(1000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_times() {
        let times: Vec<_> = (1..=1000).rev().map(Duration::from_nanos).collect();
        let o = object(&times, Duration::from_micros(501));
        assert_eq!(
            (o["min"].as_u64(), o["p50"].as_u64(), o["p99"].as_u64(), o["max"].as_u64()),
            (Some(1), Some(501), Some(991), Some(1000))
        );
        assert!(
            text(&times, 1000, Duration::from_millis(1))
                .starts_with("1 000 calls in 1.00 ms: p50 501 ns")
        );
        assert_eq!(object(&[], Duration::ZERO)["p50"], 0);
    }
}
