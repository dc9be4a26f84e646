//! The five instances of the published experiment: the same work cut into ever more calls.

use std::fmt;

/// How much a call computes, and how many calls there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// How often the function computes its result within one call.
    pub repetitions: u64,
    /// How many calls there are, one after the other.
    pub iterations: u64,
}

/// The published instances, coarsest first; each is 500 million computations in all.
pub const PUBLISHED: [Instance; 5] = [
    Instance { repetitions: 500_000_000, iterations: 1 },
    Instance { repetitions: 50_000_000, iterations: 10 },
    Instance { repetitions: 5_000_000, iterations: 100 },
    Instance { repetitions: 500_000, iterations: 1_000 },
    Instance { repetitions: 250_000, iterations: 2_000 },
];

impl Instance {
    /// The same number of calls with `scale` times the work in each, and at least 1.
    /// So at a small scale the cost of calling weighs more than it does in the paper.
    #[must_use]
    pub fn scaled(self, scale: f64) -> Self {
        let repetitions = ((self.repetitions as f64 * scale).round() as u64).max(1);
        Self { repetitions, ..self }
    }
}

/// As in `500K×1k`: repetitions in a call, times calls.
impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = format!("{}×{}", short(self.repetitions, "K"), short(self.iterations, "k"));
        f.pad(&label)
    }
}

/// 2500 as `2.5K`; a number that this would shorten inexactly is written out.
fn short(n: u64, thousand: &str) -> String {
    let (unit, suffix) = match n {
        1_000_000.. => (1_000_000, "M"),
        1_000.. => (1_000, thousand),
        _ => return n.to_string(),
    };
    if !n.is_multiple_of(unit / 100) {
        return n.to_string();
    }
    let text = format!("{:.2}", n as f64 / unit as f64);
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_labels() {
        let labels: Vec<_> = PUBLISHED.iter().map(ToString::to_string).collect();
        assert_eq!(labels, ["500M×1", "50M×10", "5M×100", "500K×1k", "250K×2k"]);
        for instance in &PUBLISHED {
            assert_eq!(instance.repetitions * instance.iterations, 500_000_000);
        }
    }

    #[test]
    fn scale_shrinks_the_call_and_not_their_number() {
        assert_eq!(PUBLISHED[0].scaled(0.01).to_string(), "5M×1");
        assert_eq!(PUBLISHED[4].scaled(0.01).to_string(), "2.5K×2k");
        assert_eq!(PUBLISHED[4].scaled(1e-9).repetitions, 1);
        assert_eq!(Instance { repetitions: 1_234_567, iterations: 3 }.to_string(), "1234567×3");
    }
}
