//! Lines of the log that a client causes: so many a second about each, and the
//! rest counted.

use super::{Bucket, Rate};
use std::collections::BTreeMap;

/// Between two lines that say how many were left out, ms.
pub const SUMMARY_MS: u64 = 10_000;

/// Whether a line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// Write it.
    Yes,
    /// Count it only.
    No,
}

#[derive(Debug)]
struct About {
    bucket: Bucket,
    left_out: u64,
    /// When the first of those was left out, ms.
    since: u64,
}

/// Who may have how many lines.
#[derive(Debug)]
pub struct Lines {
    rate: Rate,
    /// Most names counted apart; all others share one.
    names: usize,
    about: BTreeMap<String, About>,
    /// Lines left out since the start.
    left_out: u64,
}

/// For those beyond the names counted apart.
const OTHERS: &str = "others";

impl Lines {
    /// So many lines about each name, at most `names` of them apart.
    pub fn new(rate: Rate, names: usize) -> Self {
        Lines { rate, names, about: BTreeMap::new(), left_out: 0 }
    }

    /// Whether a line about `name` may be written now.
    pub fn say(&mut self, now: u64, name: &str) -> Say {
        if !self.about.contains_key(name) && self.about.len() >= self.names {
            self.about.retain(|_, a| a.left_out > 0 || !a.bucket.is_full(now));
        }
        let apart = self.about.contains_key(name) || self.about.len() < self.names;
        let rate = self.rate;
        let about = self
            .about
            .entry(if apart { name } else { OTHERS }.to_owned())
            .or_insert_with(|| About { bucket: Bucket::new(rate, now), left_out: 0, since: now });
        if about.bucket.take(now, 1) {
            return Say::Yes;
        }
        if about.left_out == 0 {
            about.since = now;
        }
        about.left_out += 1;
        self.left_out += 1;
        Say::No
    }

    /// What is to be said now of lines that were left out.
    pub fn summaries(&mut self, now: u64) -> Vec<String> {
        let mut said = vec![];
        for (name, a) in self.about.iter_mut().filter(|(_, a)| a.left_out > 0) {
            let passed = now.saturating_sub(a.since);
            if passed >= SUMMARY_MS {
                let n = std::mem::take(&mut a.left_out);
                let lines = if n == 1 { "line" } else { "lines" };
                let s = passed.div_ceil(1000);
                said.push(format!("{n} more {lines} about {name} in the last {s} s were left out"));
            }
        }
        said
    }

    /// Milliseconds until there is something to say of lines that were left out.
    pub fn due(&self, now: u64) -> Option<u64> {
        let since = self.about.values().filter(|a| a.left_out > 0).map(|a| a.since).min()?;
        Some((since + SUMMARY_MS).saturating_sub(now))
    }

    /// Lines left out since the start.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_s: 10, burst: 20 };

    #[test]
    fn a_flood_about_one_is_cut_and_counted_and_others_are_heard() {
        let mut lines = Lines::new(RATE, 8);
        let said = (0..500).filter(|_| lines.say(0, "client vm1") == Say::Yes).count();
        assert_eq!(said, 20);
        assert_eq!(lines.say(0, "client vm2"), Say::Yes);
        assert!(lines.summaries(SUMMARY_MS - 1).is_empty());
        assert_eq!(lines.due(4_000), Some(6_000));
        assert_eq!(
            lines.summaries(SUMMARY_MS),
            ["480 more lines about client vm1 in the last 10 s were left out"]
        );
        assert!(lines.summaries(2 * SUMMARY_MS).is_empty());
        assert_eq!((lines.due(0), lines.left_out()), (None, 480));
    }

    #[test]
    fn ever_new_names_share_one_place() {
        let mut lines = Lines::new(RATE, 8);
        let said = (0..1000).filter(|i| lines.say(0, &format!("u{i}")) == Say::Yes).count();
        assert_eq!(said, 8 + 20);
        assert!(lines.about.len() <= 9);
        // Those that are quiet again make room.
        assert!(lines.say(SUMMARY_MS, "late") == Say::Yes && lines.about.contains_key("late"));
    }
}
