//! A descriptor by which event loops, and programs of others, wait for the host's rings.

use crate::error::{Error, Result};
use rustix::event::{Timespec, epoll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use vfun_window::Bell;

/// Shows that the host rang a channel of queues: its descriptor ([`AsFd`]) is readable from
/// the ring on, for `poll`, epoll and event loops, until [`QueuesWaiter::drain`]. Do not
/// read it. A bell may be shared, so that it may be readable for nothing. Any number of
/// waiters of one channel see each ring.
pub struct QueuesWaiter {
    /// It holds the bell, whose every ring is an edge; an edge that was not taken makes it
    /// readable.
    epoll: OwnedFd,
    bell: Bell,
}

impl QueuesWaiter {
    pub(super) fn new(bell: Bell) -> Result<Self> {
        let made = || -> rustix::io::Result<OwnedFd> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let on = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &bell, epoll::EventData::new_u64(0), on)?;
            Ok(epoll)
        };
        let epoll = made().map_err(|e| {
            Error::BadOption(format!("no descriptor to wait by: {}", std::io::Error::from(e)))
        })?;
        Ok(QueuesWaiter { epoll, bell })
    }

    /// Makes the descriptor readable again, if the host ever rang: for who took one of several things
    /// that a ring told of.
    pub fn again(&self) {
        // It was added so that it can be changed; a bell that nobody reads is an edge once more.
        let on = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let _ = epoll::modify(&self.epoll, &self.bell, epoll::EventData::new_u64(0), on);
    }

    /// Makes the descriptor unreadable until the next ring: whether it was readable. Drain
    /// first, then look at what is waited for: a ring that comes between is kept.
    pub fn drain(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [std::mem::MaybeUninit::uninit(); 1];
        match epoll::wait(&self.epoll, &mut events[..], Some(&now)) {
            Ok((got, _)) => !got.is_empty(),
            // It may have been: look.
            Err(_) => true,
        }
    }
}

impl AsFd for QueuesWaiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for QueuesWaiter {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
