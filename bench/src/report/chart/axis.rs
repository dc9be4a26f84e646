//! Values to pixels, and where the ticks are.

/// One axis: values from `low` to `high` on pixels from `from` to `to`. A vertical axis
/// has `from` below `to` on the screen, that is larger.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub log: bool,
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl Axis {
    /// The pixel of a value; beyond the axis, the axis's end.
    pub fn at(&self, value: f64) -> f64 {
        let scale = |v: f64| {
            if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v }
        };
        let (low, high) = (scale(self.low), scale(self.high));
        let part = ((scale(value) - low) / (high - low)).clamp(0.0, 1.0);
        self.from + part * (self.to - self.from)
    }

    /// A handful of round values, ascending.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log { self.log_ticks() } else { self.linear_ticks() }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 8.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|m| m * decade)
            .into_iter()
            .find(|&s| s >= rough)
            .unwrap_or(decade);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within: &[f64] = if self.high / self.low < 2e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (first..=last).flat_map(|d| within.iter().map(move |m| m * 10f64.powi(d)));
        all.filter(|t| (self.low * 0.999..=self.high * 1.001).contains(t)).collect()
    }
}

/// The largest of 1, 2 and 5 times a power of ten that is at most `value`.
pub fn round_down(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0]
        .map(|m| m * decade)
        .into_iter()
        .find(|&v| v <= value * 1.000_001)
        .unwrap_or(decade)
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `value`.
pub fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * decade)
        .into_iter()
        .find(|&v| v >= value * 0.999_999)
        .unwrap_or(decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let axis = Axis { log: false, low: 0.0, high: 1.25, from: 100.0, to: 0.0 };
        let ticks: Vec<_> = axis.ticks().iter().map(|t| format!("{t:.2}")).collect();
        assert_eq!(ticks, ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00", "1.20"]);
        let axis = Axis { log: true, low: 100.0, high: 1e6, from: 0.0, to: 400.0 };
        assert_eq!(axis.ticks(), [100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(
            (axis.at(100.0), axis.at(1e4), axis.at(1e9), axis.at(-1.0)),
            (0.0, 200.0, 400.0, 0.0)
        );
        assert_eq!((round_down(287.0), round_up(287.0), round_up(500.0)), (200.0, 500.0, 500.0));
    }
}
