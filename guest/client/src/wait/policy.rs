//! How patiently a call waits, and at what cost.

use std::time::Duration;

/// How calls wait for their answers. The default spins for some 100 µs, then
/// lets others run for up to 10 ms as long as nobody else wants the processor,
/// then sleeps until rung (or, without a doorbell, for a little more than the
/// time already waited / 128).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    pub(crate) spin: Duration,
    pub(crate) yields: Duration,
    pub(crate) sleeps: bool,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy {
            spin: Duration::from_micros(100),
            yields: Duration::from_millis(10),
            sleeps: true,
        }
    }
}

impl WaitPolicy {
    /// Never sleeps: the lowest latency, for one processor per waiting thread.
    pub fn busy() -> Self {
        WaitPolicy { sleeps: false, ..Self::default() }
    }
    /// Sleeps as soon as a short spin was in vain: the least processor time.
    pub fn sleepy() -> Self {
        WaitPolicy { spin: Duration::ZERO, yields: Duration::ZERO, sleeps: true }
    }
    /// How long to spin.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }
    /// How long, from the wait's start, to go on yielding the processor.
    pub fn yields(mut self, yields: Duration) -> Self {
        self.yields = yields;
        self
    }
}
