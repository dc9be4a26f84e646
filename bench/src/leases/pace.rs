//! When a client calls.

use std::time::Duration;

/// A gap between two calls differs from the mean by at most this part.
const UNEVEN: f64 = 0.2;

/// Numbers that look drawn by lot, and are the same for the same seed: splitmix64.
#[derive(Clone, Debug)]
pub struct Lots(u64);

impl Lots {
    /// The same seed gives the same pauses.
    pub fn new(seed: u64) -> Self {
        Lots(seed)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A client's calls: at its rate, slightly unevenly, and the same for the same seed.
#[derive(Clone, Debug)]
pub struct Pace {
    lots: Lots,
    mean_ns: f64,
    next_ns: f64,
}

impl Pace {
    /// The pace of one client; clients begin spread over the first gap.
    pub fn new(seed: u64, client: u64, per_s: f64) -> Self {
        let mean_ns = 1e9 / per_s.max(1e-3);
        let mut pace = Pace {
            lots: Lots::new(seed ^ client.wrapping_mul(0xd134_2543_de82_ef95)),
            mean_ns,
            next_ns: 0.0,
        };
        pace.next_ns = pace.lots.unit() * mean_ns;
        pace
    }

    /// When the next call is due, ns since the beginning. Each is due later than the one before.
    pub fn due_ns(&mut self) -> u64 {
        let due = self.next_ns;
        self.next_ns += self.mean_ns * (1.0 + UNEVEN * (2.0 * self.lots.unit() - 1.0));
        due as u64
    }

    /// The same as a time.
    pub fn due(&mut self) -> Duration {
        Duration::from_nanos(self.due_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_at_the_rate_and_alike_for_a_seed() {
        let dues = |seed, client| {
            let mut pace = Pace::new(seed, client, 50.0);
            (0..500).map(|_| pace.due_ns()).collect::<Vec<_>>()
        };
        let (a, b) = (dues(1, 2), dues(1, 2));
        assert_eq!(a, b);
        assert!(dues(2, 2) != a && dues(1, 3) != a);
        assert!(a.windows(2).all(|w| (16_000_000..=24_000_000).contains(&(w[1] - w[0]))));
        let seconds = (a[499] - a[0]) as f64 * 1e-9;
        assert!((499.0 / seconds - 50.0).abs() < 1.5, "{seconds}");
    }
}
