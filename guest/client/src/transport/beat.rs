//! Whether the manager of a window without a socket is at work: by the word that
//! it moves on in the window's first page (R-WIN-10).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfun_wire::header::host_state;

/// How long the beat may stand still. It moves each second. A manager that waits for a
/// slow disk is not gone; one that was stopped for longer is taken for gone, and then
/// the service's own words decide (`calls/life.rs`).
const STILL: Duration = Duration::from_secs(10);

/// What was seen of the beat: its value, and since when it has had it.
#[derive(Default)]
pub(super) struct HostBeat(Mutex<Option<(u64, Instant)>>);

impl HostBeat {
    /// Whether the beat has stood still for too long. `state` is the host's.
    pub fn stands_still(&self, now: Instant, beat: u64, state: u32) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // 0: a manager that moves no beat here. Away: none moves it meanwhile, and
        // the keeper ends the calls of a service that dies.
        if beat == 0 || state == host_state::AWAY {
            *seen = None;
            return false;
        }
        match *seen {
            Some((last, since)) if last == beat => now.saturating_duration_since(since) >= STILL,
            _ => {
                *seen = Some((beat, now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host_state::{AWAY, SERVING};

    #[test]
    fn a_manager_is_gone_whose_beat_stands_still() {
        let (host, start) = (HostBeat::default(), Instant::now());
        let at =
            |s: u64, beat, state| host.stands_still(start + Duration::from_secs(s), beat, state);
        assert!(!at(0, 0, SERVING) && !at(100, 0, SERVING), "it shows none here");
        assert!(!at(100, 5, SERVING) && !at(109, 5, SERVING));
        assert!(at(110, 5, SERVING) && at(111, 5, SERVING));
        assert!(!at(112, 6, SERVING) && !at(121, 6, SERVING), "it was only slow");
        assert!(!at(130, 6, AWAY), "its keeper has its place");
        assert!(!at(131, 6, SERVING), "the next one has yet to move it");
        assert!(at(141, 6, SERVING));
        assert!(!at(1_000, 7, SERVING), "nobody looked for long");
    }
}
