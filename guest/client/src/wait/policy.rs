//! How a session waits, and at what cost.

use std::time::Duration;
use vfun_wait::{Policy, WaitMode};

/// How calls wait for their answers, in one of three modes. The service that a
/// function is activated at is asked to wait in the same mode, unless
/// [`crate::FunctionRequest::service_waits`] says otherwise.
///
/// - [`WaitPolicy::hybrid`], the default: spins for as long as
///   the channel's earlier waits make it likely to pay, then sleeps until
///   rung (without a doorbell: for a little more than the time already
///   waited / 128). Calls that follow each other at once run as fast as in
///   spin mode, and waiting for nothing takes no processor time.
/// - [`WaitPolicy::spin`]: never sleeps. The lowest latency, for one processor
///   per waiting thread, and one of the host's if the client's policy allows it.
/// - [`WaitPolicy::sleep`]: sleeps after one look. The least processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPolicy(Policy);

impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy::hybrid()
    }
}

impl From<WaitMode> for WaitPolicy {
    fn from(mode: WaitMode) -> Self {
        WaitPolicy(Policy::caller(mode))
    }
}

impl WaitPolicy {
    /// Spins while that is likely to pay, then sleeps.
    pub fn hybrid() -> Self {
        WaitMode::Hybrid.into()
    }
    /// Looks all the time and never sleeps.
    pub fn spin() -> Self {
        WaitMode::Spin.into()
    }
    /// Sleeps after one look.
    pub fn sleep() -> Self {
        WaitMode::Sleep.into()
    }
    /// Hybrid: how long to spin at most; 1.8 ms unless said otherwise, and
    /// 100 µs on a channel of which nothing is known yet.
    pub fn spin_at_most(self, spin: Duration) -> Self {
        WaitPolicy(self.0.spin_at_most(spin))
    }
    pub(crate) fn without_doorbell(self) -> Self {
        WaitPolicy(self.0.without_doorbell())
    }
    pub fn mode(&self) -> WaitMode {
        self.0.mode()
    }
    #[inline(always)]
    pub(crate) fn policy(&self) -> &Policy {
        &self.0
    }
}
