//! A channel that is served by another service still: how its thread here
//! waits for its turn.

use super::pulse::Pulse;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use vfun_window::{BatonEvent, BatonWaiter, Bell};
use vfun_wire::Status;

/// Told to nobody yet.
const NOTHING: u32 = u32::MAX;
/// Nobody is there to tell anything: only the baton counts.
const ALONE: u32 = u32::MAX - 1;

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

    /// Nobody will say any more whose turn it is. Whoever was told to hand the channel
    /// over still passes the baton; if nobody can, the thread stops. One that has had
    /// its turn is not concerned.
    pub fn leave_alone(&self) {
        let _ = self.turn.compare_exchange(NOTHING, ALONE, Ordering::SeqCst, Ordering::SeqCst);
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
            if turn == ALONE && waiter.is_gone() {
                return None;
            }
            if turn != NOTHING && turn != ALONE {
                return Some((Status::from_wire(turn).unwrap_or(Status::DriverCrashed), None));
            }
            if pulse.stopping() {
                return None;
            }
            match waiter.wait() {
                Ok(BatonEvent::Here(used)) => return Some((Status::DriverCrashed, used)),
                Ok(BatonEvent::Not) => {}
                // It cannot be waited on: the manager tells as well, later.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_window::{Baton, baton};

    fn standing() -> (Standby, Baton, BatonWaiter) {
        let (standby, (giver, taker)) = (Standby::new().unwrap(), baton().unwrap());
        let waiter = standby.waiter(taker).unwrap();
        (standby, Baton::from_fd(giver), waiter)
    }

    #[test]
    fn whoever_is_left_alone_takes_the_baton_if_somebody_can_pass_it() {
        let pulse = Pulse::default();
        let (standby, baton, waiter) = standing();
        standby.leave_alone();
        std::thread::scope(|s| {
            let turn = s.spawn(|| standby.wait(&waiter, &pulse));
            std::thread::sleep(std::time::Duration::from_millis(20));
            baton.pass(7);
            assert_eq!(turn.join().unwrap(), Some((Status::DriverCrashed, Some(7))));
        });
        let (standby, baton, waiter) = standing();
        standby.leave_alone();
        drop(baton);
        assert_eq!(standby.wait(&waiter, &pulse), None);
        // The same in the other order, and whoever is told all the same has its turn.
        let (standby, baton, waiter) = standing();
        drop(baton);
        assert_eq!(waiter.wait().unwrap(), BatonEvent::Not);
        standby.leave_alone();
        assert_eq!(standby.wait(&waiter, &pulse), None);
        standby.take(Status::Deadline.to_wire());
        assert_eq!(standby.wait(&waiter, &pulse), Some((Status::Deadline, None)));
        standby.leave_alone();
        assert_eq!(standby.wait(&waiter, &pulse), Some((Status::Deadline, None)));
    }

    #[test]
    fn whoever_is_to_stop_stops() {
        let (standby, _baton, waiter) = standing();
        let pulse = Pulse::default();
        pulse.stop();
        assert_eq!(standby.wait(&waiter, &pulse), None);
    }
}
