//! What a packet takes, as a parameter.

/// What a packet takes on each path. The publication gives no curve in numbers. It gives one
/// figure for a busy server, and says that the gain grows in proportion to the rate and does
/// not depend on the size. So that is what is reckoned with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketTimes {
    /// On the paravirtual NIC at [`PacketTimes::busy_per_s`], ns.
    pub paravirtual_ns: f64,
    /// On a VF, at any rate, ns.
    pub vf_ns: f64,
    /// Packets a second at which the two times above hold.
    pub busy_per_s: f64,
}

impl PacketTimes {
    /// The part by which a VF shortens a packet's time at a rate, 0 to 1.
    pub fn boost(&self, per_s: f64) -> f64 {
        (1.0 - self.vf_ns / self.paravirtual_ns) * (per_s / self.busy_per_s).min(1.0)
    }

    /// What a packet takes on the paravirtual NIC at a rate, ns.
    pub fn without_ns(&self, per_s: f64) -> f64 {
        self.vf_ns / (1.0 - self.boost(per_s))
    }

    /// What a packet takes in the mean at a rate, with a VF for a part of the time, ns.
    pub fn mean_ns(&self, per_s: f64, vf_share: f64) -> f64 {
        let without = self.without_ns(per_s);
        without + (self.vf_ns - without) * vf_share
    }

    /// What a VF saves a VM of this rate in a second, ns: all its packets together.
    pub fn saved_ns(&self, per_s: f64, vf_share: f64) -> f64 {
        per_s * (self.without_ns(per_s) - self.mean_ns(per_s, vf_share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_grows_with_the_rate_up_to_the_busy_one() {
        let t = PacketTimes { paravirtual_ns: 8e6, vf_ns: 2e6, busy_per_s: 1e5 };
        assert_eq!(
            (t.boost(0.0), t.boost(5e4), t.boost(1e5), t.boost(9e9)),
            (0.0, 0.375, 0.75, 0.75)
        );
        assert_eq!((t.without_ns(0.0), t.without_ns(1e5)), (2e6, 8e6));
        assert_eq!(
            (t.mean_ns(1e5, 0.0), t.mean_ns(1e5, 0.5), t.mean_ns(1e5, 1.0)),
            (8e6, 5e6, 2e6)
        );
        assert_eq!(t.saved_ns(1e5, 0.5), 3e11);
    }
}
