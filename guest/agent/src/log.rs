//! Lines for the log, on standard error: each cause once, until it changes.

use crate::limits::CAUSES;
use std::collections::BTreeMap;
use std::io::Write;

/// Writes a line.
pub fn line(text: impl std::fmt::Display) {
    // A log that nobody takes is no reason to end.
    let _ = writeln!(std::io::stderr(), "vfun-agent: {text}");
}

/// Says what is so under a subject, if it was not so before.
#[derive(Default)]
pub struct Causes(BTreeMap<&'static str, Vec<String>>);

impl Causes {
    /// Says it, unless it was the last thing said under this subject. `None`: the trouble is
    /// over, which is not said.
    pub fn now(&mut self, subject: &'static str, text: Option<&str>) {
        let last = self.0.entry(subject).or_default();
        if last.last().map(String::as_str) == text {
            return;
        }
        last.clear();
        if let Some(text) = text {
            line(text);
            last.push(text.to_owned());
        }
    }

    /// Says it once only.
    pub fn once(&mut self, subject: &'static str, text: &str) {
        let said = self.0.entry(subject).or_default();
        if said.len() < CAUSES && !said.iter().any(|s| s == text) {
            line(text);
            said.push(text.to_owned());
        }
    }
}
