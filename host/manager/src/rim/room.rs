//! Whether a helper to which the manager speaks by packets takes what it is told.

use crate::core::limits::HELPER_HANGS_MS;

/// What is known of the room in its socket. Times are the manager's, ms.
#[derive(Debug, Default)]
pub struct Room {
    full: bool,
    /// Since when it took nothing of what there is to say.
    since: Option<u64>,
    /// The socket is watched for room.
    watched: bool,
}

impl Room {
    /// It takes nothing more now.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// It refused something.
    pub fn refused(&mut self, now: u64) {
        self.full = true;
        self.since.get_or_insert(now);
    }

    /// The socket shows something. That may be words of a process that hears nothing, so
    /// it is no proof of room: it is tried again.
    pub fn try_again(&mut self) {
        self.full = false;
    }

    /// It took something, or all is said.
    pub fn took(&mut self) {
        (self.full, self.since) = (false, None);
    }

    /// Whether the socket is to be watched for room, where that is another answer than
    /// the last one.
    pub fn watch(&mut self) -> Option<bool> {
        let changed = self.full != self.watched;
        self.watched = self.full;
        changed.then_some(self.full)
    }

    /// How long it has taken nothing, ms.
    pub fn stuck(&self, now: u64) -> Option<u64> {
        self.since.map(|since| now.saturating_sub(since))
    }

    /// Whether that is so long that it hangs.
    pub fn hangs(&self, now: u64) -> bool {
        self.stuck(now).is_some_and(|stuck| stuck >= HELPER_HANGS_MS)
    }

    /// Milliseconds until it counts as one that hangs.
    pub fn patience(&self, now: u64) -> Option<u64> {
        self.stuck(now).map(|stuck| HELPER_HANGS_MS.saturating_sub(stuck))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_takes_nothing_hangs_after_a_while_also_if_it_speaks() {
        let mut room = Room::default();
        assert!(!room.is_full() && !room.hangs(u64::MAX) && room.patience(0).is_none());
        room.refused(100);
        assert_eq!((room.watch(), room.watch()), (Some(true), None));
        for now in (100..100 + HELPER_HANGS_MS).step_by(1000) {
            room.try_again();
            assert!(!room.is_full() && !room.hangs(now));
            room.refused(now);
            assert_eq!(room.patience(now), Some(100 + HELPER_HANGS_MS - now));
        }
        assert!(room.is_full() && room.hangs(100 + HELPER_HANGS_MS));
        assert_eq!(room.patience(200 + HELPER_HANGS_MS), Some(0));
    }

    #[test]
    fn one_that_took_something_begins_anew() {
        let mut room = Room::default();
        room.refused(0);
        room.watch();
        room.took();
        assert_eq!((room.watch(), room.stuck(5)), (Some(false), None));
        room.refused(HELPER_HANGS_MS);
        assert!(!room.hangs(HELPER_HANGS_MS + 1));
    }
}
