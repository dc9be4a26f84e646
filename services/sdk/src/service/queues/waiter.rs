//! One thread's place to wait for the programs of many channels, and for devices.

use super::QueuesChannel;
use rustix::event::{Timespec, epoll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
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
/// wakes it, or until another descriptor that it listens to is readable. A bell that several
/// channels share is listened to once.
pub struct RungWaiter {
    epoll: OwnedFd,
    waker: Bell,
    /// Each with how many channels share it.
    bells: BTreeMap<HeardBell, (Bell, usize)>,
    /// How many channels have no bell.
    silent: usize,
    /// Where other descriptors are listened to, once there are any. It is one more of the
    /// first epoll's: what is readable is asked of it without taking a ring from there.
    others: Option<OwnedFd>,
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
        Ok(RungWaiter { epoll, waker, bells: BTreeMap::new(), silent: 0, others: None })
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

    /// Listens to another descriptor too, such as a device: a wait ends while it is readable,
    /// or in an error, and [`RungWaiter::readable`] names it by `key`.
    ///
    /// # Errors
    /// The system's: the descriptor cannot be listened to, or is already.
    pub fn listen(&mut self, to: impl AsFd, key: u64) -> std::io::Result<()> {
        let others = match self.others.take() {
            Some(others) => others,
            None => {
                let others = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                let any = epoll::EventData::new_u64(0);
                epoll::add(&self.epoll, &others, any, epoll::EventFlags::IN)?;
                others
            }
        };
        let others = self.others.insert(others);
        Ok(epoll::add(others, to, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?)
    }

    /// Listens no more to a descriptor. Say so before it is closed: copies of it may be open
    /// elsewhere, and would end waits for ever.
    pub fn deafen(&mut self, to: impl AsFd) {
        if let Some(others) = &self.others {
            // One that it does not listen to is not missed.
            let _ = epoll::delete(others, to);
        }
    }

    /// Appends the keys of the descriptors that are readable now, or in an error: some of them,
    /// if they are many, and others the next time. It does not wait, and takes no ring away
    /// from [`RungWaiter::wait`].
    ///
    /// # Errors
    /// The system's.
    pub fn readable(&self, keys: &mut Vec<u64>) -> std::io::Result<()> {
        let Some(others) = &self.others else { return Ok(()) };
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        match epoll::wait(others, &mut events[..], Some(&Timespec::default())) {
            Ok((got, _)) => keys.extend(got.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    /// Whether all its channels have a bell. Where one has none, wait for a millisecond at
    /// most, and look (R-SLP-7).
    pub fn all_ring(&self) -> bool {
        self.silent == 0
    }

    /// Sleeps until a program rings, until this is woken, until another descriptor is readable,
    /// or until `limit` passes (`None`: for ever). True if it did not end by `limit`: a ring
    /// since the last wait counts. It may end early and for nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_descriptors_end_waits_by_their_keys_and_take_no_ring_away() {
        let mut waiter = RungWaiter::new().unwrap();
        let none = Some(Duration::ZERO);
        let keys = |waiter: &RungWaiter| {
            let mut keys = vec![];
            waiter.readable(&mut keys).unwrap();
            keys.sort();
            keys
        };
        assert_eq!((keys(&waiter), waiter.wait(none).unwrap()), (vec![], false));
        let pairs = [7, u64::MAX].map(|key| (key, vfun_supervise::pair().unwrap()));
        for (key, (a, _)) in &pairs {
            waiter.listen(a, *key).unwrap();
            assert!(waiter.listen(a, *key).is_err(), "it is listened to already");
        }
        assert_eq!((keys(&waiter), waiter.wait(none).unwrap()), (vec![], false));
        let [(_, (a, to_a)), (_, (b, to_b))] = pairs;
        rustix::io::write(&to_b, b"frame").unwrap();
        for _ in 0..2 {
            assert!(waiter.wait(none).unwrap(), "for as long as there is something to read");
            assert_eq!(keys(&waiter), [u64::MAX]);
        }
        rustix::io::write(&to_a, b"frame").unwrap();
        assert_eq!(keys(&waiter), [7, u64::MAX]);
        rustix::io::read(&b, &mut [0; 8]).unwrap();
        rustix::io::read(&a, &mut [0; 8]).unwrap();
        // A ring stays one though it was asked what is readable.
        waiter.waker().ring();
        assert!(keys(&waiter).is_empty());
        assert!(waiter.wait(none).unwrap() && !waiter.wait(none).unwrap());
        drop(to_a);
        assert_eq!(keys(&waiter), [7], "in an error");
        waiter.deafen(&a);
        waiter.deafen(&a);
        assert_eq!((keys(&waiter), waiter.wait(none).unwrap()), (vec![], false));
    }
}
