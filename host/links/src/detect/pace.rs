//! How often rules change, and when that is too often.

use crate::limits::{CALM_WINDOWS, PACE_CALM, PACE_MAX, PACE_MS};

/// Changes of the window that runs.
#[derive(Debug, Default)]
pub(super) struct Pace {
    began: u64,
    changes: u32,
    state: PaceState,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum PaceState {
    #[default]
    Calm,
    Storm {
        calm: u32,
    },
}

impl Pace {
    /// Counts changes. True: a storm has begun.
    pub(super) fn count(&mut self, changes: u32) -> bool {
        self.changes = self.changes.saturating_add(changes);
        let begins = self.changes > PACE_MAX && self.state == PaceState::Calm;
        if begins {
            self.state = PaceState::Storm { calm: 0 };
        }
        begins
    }

    /// Ends windows whose time is over. True: a storm has ended.
    pub(super) fn pass(&mut self, now: u64) -> bool {
        if now < self.began + PACE_MS {
            return false;
        }
        let calm = self.changes < PACE_CALM;
        (self.began, self.changes) = (now, 0);
        let PaceState::Storm { calm: windows } = &mut self.state else { return false };
        *windows = if calm { *windows + 1 } else { 0 };
        let ends = *windows >= CALM_WINDOWS;
        if ends {
            self.state = PaceState::Calm;
        }
        ends
    }

    pub(super) fn storm(&self) -> bool {
        self.state != PaceState::Calm
    }

    /// When the window that runs ends, if that matters.
    pub(super) fn wake(&self) -> Option<u64> {
        self.storm().then_some(self.began + PACE_MS)
    }
}
