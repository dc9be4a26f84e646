//! How leases are given.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How leases are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Nobody holds a VF: what software alone does, for comparison.
    None,
    /// First come, first served; a lease lasts as long as its grant.
    First,
    /// Drawn anew at each interval, for comparison.
    Random,
    /// Each in turn, for equal time.
    Fair,
    /// The highest rates of completed calls.
    Activity,
    /// Whoever saves the most time: rate × (software − hardware) time of a call.
    Gain,
}

impl Policy {
    pub const ALL: [Policy; 6] =
        [Policy::None, Policy::First, Policy::Random, Policy::Fair, Policy::Activity, Policy::Gain];

    /// Its name in manifests and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::First => "first",
            Policy::Random => "random",
            Policy::Fair => "fair",
            Policy::Activity => "activity",
            Policy::Gain => "gain",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Policy::ALL.into_iter().find(|p| p.name() == s).ok_or_else(|| {
            let all: Vec<_> = Policy::ALL.iter().map(|p| p.name()).collect();
            format!("'{s}' is no policy of leases; they are {}", all.join(", "))
        })
    }
}
