//! What both ends do with the two header pages: sleep, wake, break off.

use crate::broken::{Broken, Reason};
use crate::layout::header;
use vfun_window::Memory;
use vfun_window::sync::{Ordering, fence};

/// The memory, and whether the queue still serves.
pub(crate) struct Header<M> {
    pub(crate) mem: M,
    broken: Option<Broken>,
}

impl<M: Memory> Header<M> {
    pub(crate) fn new(mem: M) -> Self {
        Header { mem, broken: None }
    }

    /// What was known before of the queue's end.
    #[inline(always)]
    pub(crate) fn serves(&self) -> Result<(), Broken> {
        match self.broken {
            None => Ok(()),
            Some(broken) => Err(broken),
        }
    }

    /// R-QUE-6: the queue is broken from now on, and the peer is told.
    #[cold]
    pub(crate) fn break_off(&mut self, broken: Broken, reason: Reason) -> Broken {
        self.mem.store(header::BROKEN, reason.to_wire(), Ordering::Release);
        self.broken = Some(broken);
        broken
    }

    pub(crate) fn close(&mut self) {
        self.break_off(Broken::Ended(Reason::Closed), Reason::Closed);
    }

    /// Whether the peer has ended the queue.
    pub(crate) fn ended(&self) -> Option<Broken> {
        Reason::from_wire(self.mem.load(header::BROKEN, Ordering::Acquire)).map(Broken::Ended)
    }

    /// The peer has ended the queue, and nothing of it is left to do.
    pub(crate) fn end(&mut self, broken: Broken) -> Broken {
        self.broken = Some(broken);
        broken
    }

    /// What this side has produced or consumed, as it was noted last.
    pub(crate) fn noted(&self) -> u64 {
        self.mem.load_own(header::POSITION, Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn note(&self, position: u64, order: Ordering) {
        self.mem.store(header::POSITION, position, order);
    }

    #[inline]
    pub(crate) fn seems_asleep(&self) -> bool {
        self.mem.load(header::SLEEPS, Ordering::Relaxed) != 0
    }

    pub(crate) fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.seems_asleep()
    }

    /// R-QUE-8: either the peer sees the declaration, or this side sees the
    /// peer's news when it looks once more.
    pub(crate) fn declare_sleep(&self) {
        self.mem.store(header::SLEEPS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn declare_awake(&self) {
        self.mem.store(header::SLEEPS, 0, Ordering::SeqCst);
    }
}

/// What both ends of a queue can do about sleep and its end.
macro_rules! common {
    () => {
        pub fn memory(&self) -> &M {
            &self.header.mem
        }

        /// Whether the other side has declared that it sleeps. May miss a
        /// declaration made at this very moment; see [`crate::End::must_ring`].
        #[inline]
        pub fn seems_asleep(&self) -> bool {
            self.header.seems_asleep()
        }

        /// Says that this side will do no more, orderly. What was published
        /// stays to be consumed. Ring the other side after it, if it sleeps.
        pub fn close(&mut self) {
            self.header.close();
        }
    };
}
macro_rules! sleeps {
    () => {
        fn must_ring(&self) -> bool {
            self.header.must_ring()
        }
        fn declare_sleep(&self) {
            self.header.declare_sleep();
        }
        fn declare_awake(&self) {
            self.header.declare_awake();
        }
    };
}
pub(crate) use {common, sleeps};
