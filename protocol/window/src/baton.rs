//! A baton: passed once, from a process that lets go of something to the one
//! that waits for it asleep.
//!
//! A pipe and not a bell: who writes into a pipe tells the kernel that it is
//! about to sleep itself, so that the one that waits runs on the processor that
//! becomes free, and no other has to be woken from its own sleep for it.

use crate::Bell;
use rustix::event::epoll;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io::Result;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The end that passes it.
pub struct Baton(OwnedFd);

/// The end that takes it, or hears a bell instead.
pub struct BatonWaiter {
    epoll: OwnedFd,
    baton: OwnedFd,
    _bell: Bell,
    gone: AtomicBool,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatonEvent {
    /// The baton is here, with the word that came with it, if one did.
    Here(Option<u64>),
    /// The bell rang, or a signal came, or nobody can pass it any more.
    Not,
}

const BATON: u64 = 1;

/// Both ends of a baton, to be sent to where they belong: who passes it, who takes it.
pub fn baton() -> Result<(OwnedFd, OwnedFd)> {
    let (taker, giver) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((giver, taker))
}

impl Baton {
    /// The end that was sent here.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Baton(fd)
    }

    /// Passes it, with a word. That nobody waits any more is not this side's concern.
    pub fn pass(self, word: u64) {
        let _ = rustix::io::write(&self.0, &word.to_le_bytes());
    }
}

impl BatonWaiter {
    /// Waits on the end that was sent here, and on a bell of this process.
    pub fn new(baton: OwnedFd, bell: &Bell) -> Result<Self> {
        use epoll::{EventData, EventFlags};
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, bell, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &baton, EventData::new_u64(BATON), EventFlags::IN)?;
        Ok(BatonWaiter { epoll, baton, _bell: bell.clone(), gone: AtomicBool::new(false) })
    }

    /// Whether a wait has found that nobody can pass it any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Sleeps until one of the two.
    pub fn wait(&self) -> Result<BatonEvent> {
        let mut events = [std::mem::MaybeUninit::uninit(); 2];
        let told = match epoll::wait(&self.epoll, &mut events[..], None) {
            Ok((got, _)) => got.iter().find(|e| e.data.u64() == BATON).map(|e| e.flags),
            Err(rustix::io::Errno::INTR) => None,
            Err(e) => return Err(e.into()),
        };
        let Some(told) = told else { return Ok(BatonEvent::Not) };
        if told.contains(epoll::EventFlags::IN) {
            let mut word = [0; 8];
            return match rustix::io::read(&self.baton, &mut word) {
                Ok(8) => Ok(BatonEvent::Here(Some(u64::from_le_bytes(word)))),
                Ok(1..) => Ok(BatonEvent::Here(None)),
                _ => Ok(BatonEvent::Not),
            };
        }
        // Whoever had the other end is gone: only the bell is left.
        self.gone.store(true, Ordering::Relaxed);
        epoll::delete(&self.epoll, self.baton.as_fd())?;
        Ok(BatonEvent::Not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_passed_once_and_its_loss_is_no_baton() {
        let bell = Bell::new().unwrap();
        let (giver, taker) = baton().unwrap();
        let w = BatonWaiter::new(taker, &bell).unwrap();
        bell.ring();
        assert_eq!(w.wait().unwrap(), BatonEvent::Not, "only the bell");
        Baton::from_fd(giver).pass(7);
        assert_eq!(w.wait().unwrap(), BatonEvent::Here(Some(7)));
        assert_eq!(w.wait().unwrap(), BatonEvent::Not, "its other end is gone");
    }

    #[test]
    fn whoever_dies_with_it_has_not_passed_it() {
        let bell = Bell::new().unwrap();
        let (giver, taker) = baton().unwrap();
        let w = BatonWaiter::new(taker, &bell).unwrap();
        bell.ring();
        assert_eq!((w.wait().unwrap(), w.is_gone()), (BatonEvent::Not, false));
        drop(giver);
        assert_eq!((w.wait().unwrap(), w.is_gone()), (BatonEvent::Not, true));
        bell.ring();
        assert_eq!(w.wait().unwrap(), BatonEvent::Not);
    }

    #[test]
    fn it_wakes_a_sleeper() {
        let bell = Bell::new().unwrap();
        let (giver, taker) = baton().unwrap();
        let w = BatonWaiter::new(taker, &bell).unwrap();
        let sleeper = std::thread::spawn(move || w.wait().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        Baton::from_fd(giver).pass(0);
        assert_eq!(sleeper.join().unwrap(), BatonEvent::Here(Some(0)));
    }

    #[test]
    fn nobody_who_waits_is_no_fault_of_the_one_who_passes() {
        let (giver, taker) = baton().unwrap();
        drop(taker);
        Baton::from_fd(giver).pass(0);
    }
}
