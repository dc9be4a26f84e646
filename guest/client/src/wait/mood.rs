//! What earlier waits of a channel teach the next one. Only waits that were
//! long anyway write here.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most waits in a row that go without spinning before spinning is tried again.
const CROWDED_MAX: u32 = 256;
/// Sleeps in a row after which yielding first is not worth its cost.
const SLEPT_OFTEN: u32 = 4;

/// What waits of one channel found out.
#[derive(Default)]
pub(crate) struct Mood {
    /// Waits yet to go without spinning, because the peer needs this processor.
    crowded: AtomicU32,
    /// How many that were the last time; doubles while it proves right.
    stretch: AtomicU32,
    /// Waits in a row that ended asleep.
    slept: AtomicU32,
}

impl Mood {
    /// Whether to leave the processor at once. Counts the stretch down.
    #[inline]
    pub fn crowded(&self) -> bool {
        let left = self.crowded.load(Relaxed);
        if left == 0 {
            return false;
        }
        // A lost count among threads only makes the stretch a little longer.
        self.crowded.store(left - 1, Relaxed);
        true
    }

    /// Spinning was in vain, and letting others run brought the answer.
    pub fn note_crowded(&self) {
        let stretch = (self.stretch.load(Relaxed) * 2).clamp(8, CROWDED_MAX);
        self.stretch.store(stretch, Relaxed);
        self.crowded.store(stretch, Relaxed);
    }

    /// Spinning brought the answer.
    pub fn note_roomy(&self) {
        if self.stretch.load(Relaxed) != 0 {
            self.stretch.store(0, Relaxed);
        }
        self.note_awake();
    }

    /// An answer came before sleep.
    pub fn note_awake(&self) {
        if self.slept.load(Relaxed) != 0 {
            self.slept.store(0, Relaxed);
        }
    }

    /// An answer came to a sleeper.
    pub fn note_slept(&self) {
        self.slept.store(self.slept.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Whether long waits of this channel end asleep, so that yielding first
    /// only costs processor time.
    pub fn sleeps_often(&self) -> bool {
        self.slept.load(Relaxed) >= SLEPT_OFTEN
    }
}
