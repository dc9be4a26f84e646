//! Numbers of calls: pinned in a file, never changed and never used again.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The first number of an API's own function (vfun_remoting::numbers::FIRST).
const FIRST: u16 = 16;

/// The file `numbers.toml`: names and their numbers, and numbers that are used no longer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    #[serde(default)]
    number: BTreeMap<String, u16>,
    /// Of functions that the API does not have any more.
    #[serde(default)]
    retired: BTreeSet<u16>,
}

impl Numbers {
    /// Reads the file and checks that no number stands for two functions.
    pub fn read(text: &str) -> Result<Numbers, String> {
        let numbers: Numbers = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut seen = BTreeMap::new();
        for (name, number) in &numbers.number {
            if *number < FIRST {
                return Err(format!("{name}: numbers below {FIRST} are the core's"));
            }
            if numbers.retired.contains(number) {
                return Err(format!("{name}: number {number} is retired"));
            }
            if let Some(other) = seen.insert(number, name) {
                return Err(format!("{name}: {other} has the number {number}"));
            }
        }
        Ok(numbers)
    }

    pub fn of(&self, function: &str) -> Option<u16> {
        self.number.get(function).copied()
    }
}
