//! What an attacker does to its neighbour's calls.

use super::{Machine, Settings, stats};
use serde::{Deserialize, Serialize};

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationReport {
    /// Where it was measured.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// The rows, in the attacks' order.
    pub rows: Vec<IsolationRow>,
}

/// One attack; medians over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IsolationRow {
    /// The attack's name.
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
    /// The lowest repeat's.
    pub spread_min: Option<f64>,
    /// The highest repeat's.
    pub spread_max: Option<f64>,
    /// Calls of the innocent client under attack, all repeats.
    pub calls: u64,
    /// Of these with an error or a wrong result.
    pub errors: u64,
    /// How often it was measured.
    pub repeats: u32,
}

/// p50 and p99 of a turn, ns.
pub type Turn = (f64, f64);

impl IsolationRow {
    /// From each repeat's turn under attack and beside the idle neighbour.
    pub fn new(
        attack: &str,
        threads: u32,
        under: &[Turn],
        idle: &[Turn],
        calls: (u64, u64),
    ) -> Self {
        let half = |turns: &[Turn]| stats::median(&turns.iter().map(|t| t.0).collect::<Vec<_>>());
        let most = |turns: &[Turn]| stats::median(&turns.iter().map(|t| t.1).collect::<Vec<_>>());
        let ratios: Vec<f64> = under.iter().zip(idle).map(|(u, i)| u.1 / i.1).collect();
        let (spread_min, spread_max) = stats::range(&ratios).unzip();
        IsolationRow {
            attack: attack.to_owned(),
            threads,
            p50_ns: half(under),
            p99_ns: most(under),
            idle_p50_ns: half(idle),
            idle_p99_ns: most(idle),
            p99_over_idle: stats::median(&ratios),
            spread_min,
            spread_max,
            calls: calls.0,
            errors: calls.1,
            repeats: ratios.len() as u32,
        }
    }
}
