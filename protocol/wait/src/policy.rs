//! Which mode, and how much of what.

use crate::WaitMode;
use crate::limits::*;
use std::time::Duration;

/// How a side waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mode: WaitMode,
    /// Spin while nothing is known.
    first: u64,
    spin: u64,
    yields: u64,
    worth: u64,
    learns: bool,
}

fn ns(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Policy {
    /// The policy of an app's threads, which wait for answers.
    pub const fn caller(mode: WaitMode) -> Self {
        let (first, spin, worth) = (CALLER_SPIN, CALLER_SPIN_MOST, CALLER_WORTH);
        Policy { mode, first, spin, yields: 0, worth, learns: true }
    }

    /// The policy of a service's threads, which wait for requests.
    pub const fn service(mode: WaitMode) -> Self {
        let (first, spin, worth) = (SERVICE_SPIN, SERVICE_SPIN, SERVICE_WORTH);
        Policy { mode, first, spin, yields: 0, worth, learns: true }
    }

    /// Spins at most so long before it sleeps.
    pub fn spin_at_most(mut self, spin: Duration) -> Self {
        self.spin = ns(spin);
        self.first = self.first.min(self.spin);
        self
    }

    /// For an app without a doorbell: it spins for less and then yields the
    /// processor for a while, because sleeping by the clock ends late.
    pub fn without_doorbell(mut self) -> Self {
        self.spin = self.first;
        self.yields = CALLER_YIELD;
        self
    }

    /// Always spins for as long as it may. For where waking late costs more
    /// than this policy knows of: without a doorbell, or when measuring.
    pub fn steady(mut self) -> Self {
        self.learns = false;
        self.first = self.spin;
        self
    }

    #[inline]
    pub const fn mode(&self) -> WaitMode {
        self.mode
    }

    /// How often to look before [`crate::wait`] is begun at all.
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

    /// The spin of a channel of which nothing is known, ns.
    pub const fn first_spin(&self) -> u64 {
        self.first
    }

    /// The longest wait before sleep, ns.
    pub const fn awake(&self) -> u64 {
        self.spin.saturating_add(self.yields)
    }

    pub(crate) const fn yields(&self) -> bool {
        self.yields > 0
    }

    pub(crate) const fn learns(&self) -> bool {
        self.learns
    }

    /// What of a wait's time awake not sleeping is worth, ns.
    pub(crate) const fn wake_worth(&self) -> u64 {
        WAKE * self.worth
    }
}
