//! What an attacker does to its neighbour's calls.

use super::{Machine, Settings, stats};
use crate::method::{Compared, over_in_turns};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in the attacks' order.
    pub rows: Vec<IsolationRow>,
}

/// One attack; medians over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationRow {
    pub attack: String,
    /// Processors that attacker, its services and the manager used together,
    /// rounded: as many threads the idle neighbour spins with.
    pub threads: u32,
    /// Half of the innocent client's calls took no longer, under attack.
    pub p50_ns: Option<f64>,
    /// All but one in a hundred.
    pub p99_ns: Option<f64>,
    /// The same beside the idle neighbour.
    pub idle_p50_ns: Option<f64>,
    /// The same beside the idle neighbour.
    pub idle_p99_ns: Option<f64>,
    /// The p99 under attack over that beside the idle neighbour, of each repeat, at the median.
    pub p99_over_idle: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null with fewer than 6 repeats.
    pub p99_over_idle_low: Option<f64>,
    /// Upper end of the interval above.
    pub p99_over_idle_high: Option<f64>,
    /// Calls a second under attack over those beside the idle neighbour, at the median:
    /// rare but long delays show here and not in the p99.
    pub rate_over_idle: Option<f64>,
    /// Calls of the innocent client under attack, all repeats.
    pub calls: u64,
    /// Of these with an error or a wrong result.
    pub errors: u64,
    /// How often it was measured.
    pub repeats: u32,
}

/// What a turn showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Half of the calls took no longer, ns.
    pub p50: f64,
    /// All but one in a hundred, ns.
    pub p99: f64,
    /// Calls that ended; turns are equally long.
    pub calls: u64,
    /// Of these with an error or a wrong result.
    pub errors: u64,
}

impl IsolationRow {
    /// From each repeat's turn under attack and beside the idle neighbour.
    pub fn new(attack: &str, threads: u32, under: &[Turn], idle: &[Turn]) -> Self {
        let middle = |turns: &[Turn], of: fn(&Turn) -> f64| {
            stats::median(&turns.iter().map(of).collect::<Vec<_>>())
        };
        // Turns of a second, in which the attacker is what disturbs: none is dropped.
        let over = |of: fn(&Turn) -> f64| {
            let each = |turns: &[Turn]| turns.iter().map(of).collect::<Vec<_>>();
            over_in_turns(&each(under), &each(idle))
        };
        let p99 = over(|t| t.p99);
        IsolationRow {
            attack: attack.to_owned(),
            threads,
            p50_ns: middle(under, |t| t.p50),
            p99_ns: middle(under, |t| t.p99),
            idle_p50_ns: middle(idle, |t| t.p50),
            idle_p99_ns: middle(idle, |t| t.p99),
            p99_over_idle: p99.ratio,
            p99_over_idle_low: p99.low,
            p99_over_idle_high: p99.high,
            rate_over_idle: over(|t| t.calls as f64).ratio,
            calls: under.iter().map(|t| t.calls).sum(),
            errors: under.iter().chain(idle).map(|t| t.errors).sum(),
            repeats: p99.pairs,
        }
    }

    /// The p99 under attack over that beside the idle neighbour.
    pub fn compared(&self) -> Compared {
        Compared {
            ratio: self.p99_over_idle,
            low: self.p99_over_idle_low,
            high: self.p99_over_idle_high,
            pairs: self.repeats,
            dropped: 0,
        }
    }
}
