//! Which mode, and how much of what.

use crate::WaitMode;
use crate::limits::*;
use std::time::Duration;

/// How a side waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mode: WaitMode,
    spin: u64,
    yields: u64,
    worth: u64,
    learns: bool,
}

fn ns(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Policy {
    /// An app's threads.
    pub const fn caller(mode: WaitMode) -> Self {
        let (spin, yields, worth) = (CALLER_SPIN, CALLER_YIELD, CALLER_WORTH);
        Policy { mode, spin, yields, worth, learns: true }
    }

    /// A service's threads.
    pub const fn service(mode: WaitMode) -> Self {
        let (spin, yields, worth) = (SERVICE_SPIN, 0, SERVICE_WORTH);
        Policy { mode, spin, yields, worth, learns: true }
    }

    /// The longest spin.
    pub fn spin_at_most(mut self, spin: Duration) -> Self {
        self.spin = ns(spin);
        self
    }

    /// The longest that the processor is yielded after that, instead of sleeping.
    pub fn yield_at_most(mut self, yields: Duration) -> Self {
        self.yields = ns(yields);
        self
    }

    /// Always spins for as long as it may. For where waking late costs more
    /// than this policy knows of: without a doorbell, or when measuring.
    pub fn steady(mut self) -> Self {
        self.learns = false;
        self
    }

    /// The mode.
    #[inline]
    pub const fn mode(&self) -> WaitMode {
        self.mode
    }

    /// Looks before [`crate::wait`].
    #[inline(always)]
    pub const fn first_looks(&self) -> u32 {
        match self.mode {
            WaitMode::Sleep => 1,
            _ => FIRST_LOOKS,
        }
    }

    /// The longest spin, ns.
    pub const fn spin(&self) -> u64 {
        self.spin
    }

    /// The longest wait before sleep, ns.
    pub const fn awake(&self) -> u64 {
        self.spin.saturating_add(self.yields)
    }

    pub(crate) const fn learns(&self) -> bool {
        self.learns
    }

    /// What of a wait's time awake not sleeping is worth, ns.
    pub(crate) const fn wake_worth(&self) -> u64 {
        WAKE * self.worth
    }
}
