//! Lines of the log that anybody on the network can cause: no more than so many
//! a minute, and then how many were left out.

use crate::limits::LINES_A_MINUTE;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All connections share it: addresses cost nothing.
#[derive(Default)]
pub struct Lines(Mutex<Pace>);

#[derive(Default)]
struct Pace {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Lines {
    /// Whether a line may be written now; if so, how many were left out before it.
    pub fn say(&self, now: Instant) -> Option<u64> {
        let mut pace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |since| now.saturating_duration_since(since) >= Duration::from_secs(60);
        if pace.since.is_none_or(over) {
            pace.since = Some(now);
            pace.said = 0;
        }
        if pace.said >= LINES_A_MINUTE {
            pace.left_out += 1;
            return None;
        }
        pace.said += 1;
        Some(std::mem::take(&mut pace.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_said_once_a_minute_is_over() {
        let (lines, now) = (Lines::default(), Instant::now());
        for _ in 0..LINES_A_MINUTE {
            assert_eq!(lines.say(now), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(lines.say(now + Duration::from_secs(59)), None);
        }
        assert_eq!(lines.say(now + Duration::from_secs(60)), Some(1000));
        assert_eq!(lines.say(now + Duration::from_secs(60)), Some(0));
    }
}
