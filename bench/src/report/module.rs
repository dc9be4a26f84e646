//! What the kernel module costs and how soon it serves.

use super::{Machine, Settings, stats};
use crate::method::{Compared, over_in_turns};
use serde::{Deserialize, Serialize};

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleFigure {
    /// A call of a function that does nothing, in hybrid mode.
    NullCall,
    /// One ring of the host by the module's system call.
    Ring,
    /// From the system call that loads the module to its return.
    Load,
    /// From the system call that loads the module to the first call's result.
    LoadToFirstCall,
    /// From QEMU's command that plugs a window in to the first call's result on the host.
    AttachToFirstCall,
}

impl ModuleFigure {
    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NullCall => "null call",
            Self::Ring => "a ring",
            Self::Load => "loading the module",
            Self::LoadToFirstCall => "load to first call",
            Self::AttachToFirstCall => "attach to first call",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleReport {
    /// Where it was measured.
    pub machine: Machine,
    pub settings: Settings,
    /// The rows, in any order.
    pub rows: Vec<ModuleRow>,
}

impl ModuleReport {
    /// A row, by what was measured and the way there.
    pub fn find(&self, kind: ModuleFigure, path: &str) -> Option<&ModuleRow> {
        self.rows.iter().find(|r| r.kind == kind && r.path == path)
    }
}

/// One figure; medians over the repeats. What does not apply is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleRow {
    /// What this row measured.
    pub kind: ModuleFigure,
    /// `module`, or `raw`: mapped by a privileged program.
    pub path: String,
    /// Half of the times were no longer.
    pub p50_ns: Option<f64>,
    /// All but one in a hundred were no longer, where a repeat has that many.
    pub p99_ns: Option<f64>,
    /// The p50 over that of the raw path, of each repeat, at the median.
    pub over_raw: Option<f64>,
    /// The lower end of the interval that holds it in 95 of 100 runs; null with fewer than 6 repeats.
    pub over_raw_low: Option<f64>,
    /// Upper end of the interval above.
    pub over_raw_high: Option<f64>,
    /// How often it was measured.
    pub repeats: u32,
    /// The lowest repeat's p50.
    pub spread_min: Option<f64>,
    /// The same of the highest repeat.
    pub spread_max: Option<f64>,
}

impl ModuleRow {
    /// From each repeat's p50 and, where there is one, p99.
    pub fn new(kind: ModuleFigure, path: &str, p50: &[f64], p99: &[f64]) -> Self {
        let (spread_min, spread_max) = stats::range(p50).unzip();
        ModuleRow {
            kind,
            path: path.to_owned(),
            p50_ns: stats::median(p50),
            p99_ns: stats::median(p99),
            over_raw: None,
            over_raw_low: None,
            over_raw_high: None,
            repeats: p50.len() as u32,
            spread_min,
            spread_max,
        }
    }

    /// With each repeat's p50 over the raw path's of the same repeat.
    #[must_use]
    pub fn over_raw(mut self, p50: &[f64], raw: &[f64]) -> Self {
        let compared = over_in_turns(p50, raw);
        self.over_raw = compared.ratio;
        (self.over_raw_low, self.over_raw_high) = (compared.low, compared.high);
        self
    }

    /// That ratio. Turns of seconds, between which the module is loaded: none is dropped.
    pub fn compared(&self) -> Compared {
        Compared {
            ratio: self.over_raw,
            low: self.over_raw_low,
            high: self.over_raw_high,
            pairs: if self.over_raw.is_some() { self.repeats } else { 0 },
            dropped: 0,
        }
    }
}
