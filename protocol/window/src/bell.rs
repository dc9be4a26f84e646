//! Doorbells on one machine: eventfds, and waiting on them.
//!
//! A bell may be shared by several channels and waited on by several threads
//! and processes at once. So nobody ever reads it empty: each waiter has an
//! epoll of its own with the bell registered edge-triggered, and every ring
//! is an edge for every waiter. Rings between two waits are kept as one.

use rustix::event::{EventfdFlags, epoll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// One doorbell: an eventfd that is only ever written.
#[derive(Clone)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// Makes a new eventfd, which does not block.
    pub fn new() -> std::io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell(Arc::new(fd)))
    }

    /// A bell that was passed from elsewhere.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Bell(Arc::new(fd))
    }

    /// Whether both are one descriptor of this process.
    pub fn is_same(&self, other: &Bell) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Wakes everybody who waits. A bell that cannot be rung (its counter is
    /// at the end after 2^64 rings, or it is no eventfd) is not an error a
    /// caller could act on: waiters look again by themselves.
    pub fn ring(&self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One thread's place to wait on a bell, or on whichever of several rings first.
pub struct BellWaiter {
    epoll: OwnedFd,
    bells: Vec<Bell>,
}

/// A ring is an edge: it is seen once by each who waits.
const EDGE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);

impl BellWaiter {
    /// Registers with `bell`. Rings from before may count as one.
    pub fn new(bell: &Bell) -> std::io::Result<Self> {
        Self::any(&[bell])
    }

    /// Registers with several: each one's ring ends a wait.
    pub fn any(bells: &[&Bell]) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for bell in bells {
            epoll::add(&epoll, bell, epoll::EventData::new_u64(0), EDGE)?;
        }
        Ok(BellWaiter { epoll, bells: bells.iter().map(|&b| b.clone()).collect() })
    }

    /// No longer waits for one of its bells, by its place among them: its rings are
    /// lost on this waiter from now on. An error if it does not now, or has none there.
    pub fn deafen(&self, bell: usize) -> std::io::Result<()> {
        Ok(epoll::delete(&self.epoll, self.at(bell)?)?)
    }

    /// Waits for it again. If it has ever rung, that counts as a ring now. An error if it
    /// does so already, or has none there.
    pub fn listen(&self, bell: usize) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, self.at(bell)?, epoll::EventData::new_u64(0), EDGE)?)
    }

    fn at(&self, bell: usize) -> std::io::Result<&Bell> {
        self.bells.get(bell).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Sleeps until a bell rings or `timeout` passes (`None`: for ever).
    /// True if it rang, now or since the last wait. A signal ends the wait early.
    pub fn wait(&self, timeout: Option<Duration>) -> std::io::Result<bool> {
        let ts = timeout.map(|t| rustix::event::Timespec {
            tv_sec: t.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut events = [std::mem::MaybeUninit::uninit(); 1];
        match epoll::wait(&self.epoll, &mut events[..], ts.as_ref()) {
            Ok((got, _)) => Ok(!got.is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_waiter_sees_every_ring() {
        let bell = Bell::new().unwrap();
        let (a, b) = (BellWaiter::new(&bell).unwrap(), BellWaiter::new(&bell).unwrap());
        let none = Some(Duration::ZERO);
        assert!(!a.wait(none).unwrap());
        for _ in 0..3 {
            bell.ring();
            assert!(a.wait(none).unwrap());
            assert!(!a.wait(none).unwrap(), "an edge is seen once");
            assert!(b.wait(none).unwrap());
        }
    }

    #[test]
    fn any_of_several_rings() {
        let (a, b) = (Bell::new().unwrap(), Bell::new().unwrap());
        let w = BellWaiter::any(&[&a, &b]).unwrap();
        let none = Some(Duration::ZERO);
        assert!(!w.wait(none).unwrap());
        for bell in [&a, &b, &b, &a] {
            bell.ring();
            assert!(w.wait(none).unwrap());
            assert!(!w.wait(none).unwrap());
        }
    }

    #[test]
    fn a_bell_that_is_not_listened_to_counts_when_it_is_again() {
        let (a, b) = (Bell::new().unwrap(), Bell::new().unwrap());
        let w = BellWaiter::any(&[&a, &b]).unwrap();
        let none = Some(Duration::ZERO);
        w.deafen(0).unwrap();
        a.ring();
        assert!(!w.wait(none).unwrap());
        b.ring();
        assert!(w.wait(none).unwrap(), "the other one is heard");
        w.listen(0).unwrap();
        assert!(w.wait(none).unwrap() && !w.wait(none).unwrap());
        assert!(w.listen(0).is_err() && w.deafen(2).is_err());
    }

    #[test]
    fn a_ring_wakes_a_sleeper() {
        let bell = Bell::new().unwrap();
        let w = BellWaiter::new(&bell).unwrap();
        let ringer = bell.clone();
        let t = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            ringer.ring();
        });
        assert!(w.wait(Some(Duration::from_secs(10))).unwrap());
        t.join().unwrap();
    }
}
