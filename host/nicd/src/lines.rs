//! Lines of the log, so many a minute of each kind: guests and hypervisors can cause them,
//! and must not hide those of others.

use crate::limits::LINES_A_MINUTE;
use std::time::{Duration, Instant};

/// Says that lines were left out once the minute is over.
pub struct Lines {
    about: &'static str,
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Lines {
    /// Lines about these, in a word.
    pub fn about(about: &'static str) -> Self {
        Lines { about, since: None, said: 0, left_out: 0 }
    }

    /// A line about trouble.
    pub fn warn(&mut self, line: &str) {
        if self.may_say(Instant::now()) {
            tracing::warn!("{line}");
        }
    }

    /// A line about what was done.
    pub fn info(&mut self, line: &str) {
        if self.may_say(Instant::now()) {
            tracing::info!("{line}");
        }
    }

    fn may_say(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now - since >= Duration::from_secs(60)) {
            if self.left_out > 0 {
                let (n, about) = (self.left_out, self.about);
                tracing::warn!("{n} lines about {about} were left out in the last minute");
            }
            (self.since, self.said, self.left_out) = (Some(now), 0, 0);
        }
        self.said += 1;
        let may = self.said <= LINES_A_MINUTE;
        self.left_out += u64::from(!may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_ends_and_the_next_minute_is_heard() {
        let (mut lines, now) = (Lines::about("VMs"), Instant::now());
        assert!((0..LINES_A_MINUTE).all(|_| lines.may_say(now)));
        assert!(!lines.may_say(now) && lines.left_out == 1);
        assert!(lines.may_say(now + Duration::from_secs(60)));
    }
}
