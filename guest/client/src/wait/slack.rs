//! Linux may end a sleep 50 µs late to save wake-ups; a thread that sleeps
//! for 20 µs asks it not to.

use std::num::NonZeroU64;

/// Sets this thread's timer slack to the least there is; puts it back when dropped.
pub(super) struct Slack(Option<u64>);

impl Slack {
    pub fn tight() -> Self {
        let before = rustix::thread::current_timer_slack().ok();
        let set = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Slack(before.filter(|_| set.is_ok()))
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(before));
        }
    }
}
