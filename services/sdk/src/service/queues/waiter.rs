//! One thread's place to wait for the programs of many channels.

use super::QueuesChannel;
use rustix::event::{Timespec, epoll};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
use vfun_window::Bell;

/// A bell: one of a window, by the window's laying out and the bell's number there, or
/// one of which nobody knows who else has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HeardBell {
    Shared(u64, u16),
    Own(u64),
}

impl HeardBell {
    fn of(channel: &QueuesChannel) -> Self {
        match channel.which {
            Some((window, number)) => HeardBell::Shared(window, number),
            None => HeardBell::Own(channel.handle),
        }
    }
}

/// Waits until the program of any of its channels rings, or until another thread
/// wakes it. A bell that several channels share is listened to once.
pub struct RungWaiter {
    epoll: OwnedFd,
    waker: Bell,
    /// Each with how many channels share it.
    bells: BTreeMap<HeardBell, (Bell, usize)>,
    /// How many channels have no bell.
    silent: usize,
}

/// A ring is an edge: it is seen once by each who waits.
const EDGE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ET);

impl RungWaiter {
    /// One without channels.
    ///
    /// # Errors
    /// The system's: no descriptor is left; it takes two.
    pub fn new() -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Bell::new()?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(0), EDGE)?;
        Ok(RungWaiter { epoll, waker, bells: BTreeMap::new(), silent: 0 })
    }

    /// By this other threads end a wait: the one under way, or the next one.
    pub fn waker(&self) -> Bell {
        self.waker.clone()
    }

    /// Listens to a channel's program, from now on. Rings from before may count.
    ///
    /// # Errors
    /// The system's: the bell cannot be listened to.
    pub fn add(&mut self, channel: &QueuesChannel) -> std::io::Result<()> {
        let Some(bell) = channel.rung() else {
            self.silent += 1;
            return Ok(());
        };
        let which = HeardBell::of(channel);
        if let Some((_, sharers)) = self.bells.get_mut(&which) {
            *sharers += 1;
            return Ok(());
        }
        epoll::add(&self.epoll, bell, epoll::EventData::new_u64(0), EDGE)?;
        self.bells.insert(which, (bell.clone(), 1));
        Ok(())
    }

    /// Listens no more to a channel that was added.
    pub fn remove(&mut self, channel: &QueuesChannel) {
        if channel.rung().is_none() {
            self.silent = self.silent.saturating_sub(1);
            return;
        }
        let which = HeardBell::of(channel);
        let Some((bell, sharers)) = self.bells.get_mut(&which) else { return };
        *sharers -= 1;
        if *sharers == 0 {
            // It is closed with the last that has it, which ends the listening as well.
            let _ = epoll::delete(&self.epoll, &*bell);
            self.bells.remove(&which);
        }
    }

    /// Whether all its channels have a bell. Where one has none, wait for a millisecond at
    /// most, and look (R-SLP-7).
    pub fn all_ring(&self) -> bool {
        self.silent == 0
    }

    /// Sleeps until a program rings, until this is woken, or until `limit` passes (`None`:
    /// for ever). True if it rang, now or since the last wait. It may end early and for
    /// nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self, limit: Option<Duration>) -> std::io::Result<bool> {
        let limit = limit.map(|t| Timespec {
            tv_sec: t.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut events = [std::mem::MaybeUninit::uninit(); 16];
        match epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) {
            Ok((got, _)) => Ok(!got.is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
