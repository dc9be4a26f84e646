//! A channel that is served by another service still: how its thread here
//! waits for its turn.

use super::pulse::Pulse;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use vfun_window::{BatonWaiter, Bell, Passed};
use vfun_wire::Status;

/// Told to nobody yet.
const NOTHING: u32 = u32::MAX;

/// Between the main thread and the one that stands by.
pub struct Standby {
    /// A [`Status`], once the manager says that it is this side's turn.
    turn: AtomicU32,
    bell: Bell,
}

impl Standby {
    pub fn new() -> std::io::Result<Self> {
        Ok(Standby { turn: AtomicU32::new(NOTHING), bell: Bell::new()? })
    }

    /// A place to wait for the baton.
    pub fn waiter(&self, baton: OwnedFd) -> std::io::Result<BatonWaiter> {
        BatonWaiter::new(baton, &self.bell)
    }

    /// It is this side's turn, whether or not the baton comes. A call that was
    /// left half done is answered with `status`.
    pub fn take(&self, status: u32) {
        self.turn.store(status, Ordering::SeqCst);
        self.wake();
    }

    /// Lets the thread look.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// Waits for this side's turn: what a call that was left half done is to be
    /// answered with, and what came with the baton, or `None` if the thread is to stop.
    pub fn wait(&self, waiter: &BatonWaiter, pulse: &Pulse) -> Option<(Status, Option<u64>)> {
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            if turn != NOTHING {
                return Some((Status::from_wire(turn).unwrap_or(Status::DriverCrashed), None));
            }
            if pulse.stopping() {
                return None;
            }
            match waiter.wait() {
                Ok(Passed::Here(used)) => return Some((Status::DriverCrashed, used)),
                Ok(Passed::Not) => {}
                // It cannot be waited on: the manager tells as well, later.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    }
}
