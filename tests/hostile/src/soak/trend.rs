//! Whether a figure grows: the slope of its second half, against its own noise.

/// What a series of samples does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// The first sample.
    pub first: f64,
    /// The sample at half time.
    pub half: f64,
    /// The last one.
    pub last: f64,
    /// How much it grows in the second half, by its median slope.
    pub growth: f64,
    /// How far samples usually lie from that line.
    pub noise: f64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

impl Trend {
    /// Of at least one sample, taken at even times.
    pub fn of(samples: &[f64]) -> Self {
        let second = &samples[samples.len() / 2..];
        // Theil and Sen's: a few wild samples do not turn it.
        let mut slopes = vec![];
        for (i, a) in second.iter().enumerate() {
            for (j, b) in second.iter().enumerate().skip(i + 1) {
                slopes.push((b - a) / (j - i) as f64);
            }
        }
        let slope = median(slopes);
        let rests: Vec<f64> =
            second.iter().enumerate().map(|(i, y)| y - slope * i as f64).collect();
        let middle = median(rests.clone());
        Trend {
            first: samples[0],
            half: second[0],
            last: samples[samples.len() - 1],
            growth: slope * (second.len().max(1) - 1) as f64,
            noise: median(rests.iter().map(|r| (r - middle).abs()).collect()),
        }
    }

    /// Whether it grows by more than `bearable` and by more than its noise explains.
    pub fn grows(&self, bearable: f64) -> bool {
        self.growth > bearable && self.growth > 3.0 * self.noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_noise_and_from_a_start() {
        let noisy: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i * 7 % 5)).collect();
        assert!(!Trend::of(&noisy).grows(1.0));
        let leak: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i * 7 % 5) + f64::from(i)).collect();
        assert!(Trend::of(&leak).grows(1.0), "{:?}", Trend::of(&leak));
        let starts: Vec<f64> = (0..60).map(|i| f64::from(i.min(20)) * 10.0).collect();
        assert!(!Trend::of(&starts).grows(1.0));
        let spike: Vec<f64> = (0..60).map(|i| if i == 55 { 1e6 } else { 5.0 }).collect();
        assert!(!Trend::of(&spike).grows(1.0));
        assert!(!Trend::of(&[3.0]).grows(0.0));
    }
}
