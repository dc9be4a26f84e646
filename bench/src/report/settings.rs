//! How a measurement was run.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a measurement was run. Whatever else matters goes into `more` and appears
/// beside the named fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The part of the published work that each call does; 1 is all of it.
    pub scale: f64,
    /// How often each row was measured.
    pub repeats: u32,
    /// Which thread ran on which core, in words; null if the system was left to choose.
    pub pinning: Option<String>,
    /// Anything else, by name.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { scale: 1.0, repeats: 1, pinning: None, more: BTreeMap::new() }
    }
}

impl Settings {
    /// Adds one setting by name.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let pinning = self.pinning.as_deref().unwrap_or("none");
        let s = if self.repeats == 1 { "" } else { "s" };
        let mut line =
            format!("scale {}, {} repeat{s}, pinning: {pinning}", self.scale, self.repeats);
        for (name, value) in &self.more {
            match value {
                Value::String(text) => line += &format!(", {name}: {text}"),
                other => line += &format!(", {name}: {other}"),
            }
        }
        line
    }
}
