//! Waiting at one end of one queue, by that queue's own declarations (R-QUE-8).

use super::Queues;
use crate::calls::QueueSides;
use crate::error::Result;
use crate::transport::DoorbellWaiter;
use crate::wait::Sleeper;
use std::cell::RefCell;
use std::time::Duration;
use vfun_queue::{Broken, End};

/// What a wait at the end of a queue came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndWait {
    /// There is room, or an entry.
    Ready,
    /// The limit passed first.
    TimedOut,
    /// The queue is over, while the channel goes on.
    Broken(Broken),
}

impl Queues {
    /// Waits until an end of a queue in this channel is ready, as [`Queues::wait`] does, but
    /// says in the queue's own header page that it sleeps, and rings the service if the queue
    /// says that the other end sleeps.
    ///
    /// # Errors
    /// As [`Queues::check`].
    pub fn wait_end<E: End>(&self, end: &mut E, limit: Option<Duration>) -> Result<EndWait> {
        let sides = self.sides()?;
        let end = RefCell::new(end);
        let look = |hard: bool| match end.borrow_mut().ready(hard) {
            Ok(true) => Some(Ok(EndWait::Ready)),
            Ok(false) if hard => sides.check().err().map(Err),
            Ok(false) => None,
            Err(broken) => Some(sides.check().map(|()| EndWait::Broken(broken))),
        };
        sides.wait(&AtEnd { sides, end: &end }, limit, look).unwrap_or(Ok(EndWait::TimedOut))
    }
}

/// A thread at the end of a queue.
struct AtEnd<'a, E> {
    sides: &'a QueueSides,
    end: &'a RefCell<&'a mut E>,
}

impl<E: End> Sleeper for AtEnd<'_, E> {
    fn nudge(&self) {
        if self.end.borrow().must_ring() {
            self.sides.ring();
        }
    }

    fn declare(&self) -> Option<Box<dyn DoorbellWaiter>> {
        // Before declaring: a ring must find it there.
        let waiter = self.sides.waiter()?;
        self.end.borrow().declare_sleep();
        Some(waiter)
    }

    fn awake(&self, waiter: Box<dyn DoorbellWaiter>) {
        self.end.borrow().declare_awake();
        self.sides.keep(waiter);
    }
}
