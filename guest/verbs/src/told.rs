//! Events that a program takes, and the descriptor by which it waits for them.
#![allow(unsafe_code)]

use crate::errno::{self, Errno};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

const COUNT_BYTES: usize = size_of::<u64>();

/// Events in their order. Any thread may push and take.
pub struct Told<T> {
    /// Counts the events.
    descriptor: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

impl<T> Told<T> {
    /// # Errors
    /// The system's: there is no descriptor.
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: makes a descriptor.
        let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if made < 0 {
            return Err(errno::last());
        }
        // SAFETY: it is new, and nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Told { descriptor, events: Mutex::default() })
    }

    /// What the program polls. The program may say that it does not block.
    pub fn descriptor(&self) -> c_int {
        self.descriptor.as_raw_fd()
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, unless there are `most` already.
    pub fn push(&self, event: T, most: usize) {
        let mut events = self.events();
        if events.len() < most {
            events.push_back(event);
            let one = 1u64.to_ne_bytes();
            // SAFETY: the bytes are ours. It cannot fail: the count is far below its limit.
            unsafe { libc::write(self.descriptor(), one.as_ptr().cast(), COUNT_BYTES) };
        }
    }

    /// Waits for an event, unless the descriptor does not block, and makes something of it before
    /// [`Told::remove`] can go on in another thread.
    ///
    /// # Errors
    /// The system's: `EAGAIN`, `EINTR`.
    pub fn take<R>(&self, with: impl FnOnce(T) -> R) -> Result<R, Errno> {
        loop {
            let mut count = [0u8; COUNT_BYTES];
            // SAFETY: the bytes are ours.
            let got =
                unsafe { libc::read(self.descriptor(), count.as_mut_ptr().cast(), COUNT_BYTES) };
            if got != COUNT_BYTES as isize {
                return Err(errno::last());
            }
            let mut events = self.events();
            // There is none if it was removed after its count was read.
            if let Some(event) = events.pop_front() {
                return Ok(with(event));
            }
        }
    }

    /// Removes the events that `keep` refuses, and returns them.
    pub fn remove(&self, keep: impl Fn(&T) -> bool) -> VecDeque<T> {
        let mut events = self.events();
        let (kept, gone) = events.drain(..).partition(|event| keep(event));
        *events = kept;
        (0..gone.len()).for_each(|_| self.uncount());
        gone
    }

    /// Takes one from the count, unless another thread has done so, which then finds no event.
    fn uncount(&self) {
        let mut count = [0u8; COUNT_BYTES];
        let place = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: COUNT_BYTES };
        // SAFETY: the bytes are ours. It does not wait, whatever the program has said.
        unsafe { libc::preadv2(self.descriptor(), &place, 1, -1, libc::RWF_NOWAIT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable<T>(told: &Told<T>) -> bool {
        let mut poll = libc::pollfd { fd: told.descriptor(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the struct is ours.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_is_readable_while_there_are_events() {
        let told = Told::new().unwrap();
        assert!(!is_readable(&told));
        (0..3).for_each(|n| told.push(n, 8));
        assert_eq!(told.take(|n| n), Ok(0));
        assert!(is_readable(&told));
        assert_eq!(told.remove(|_| false), [1, 2]);
        assert!(!is_readable(&told), "a read would wait for ever");
    }

    #[test]
    fn events_that_are_kept_stay_in_their_order_and_are_bounded() {
        let told = Told::new().unwrap();
        (0..9).for_each(|n| told.push(n, 4));
        assert_eq!(told.remove(|n| n % 2 == 0), [1, 3]);
        assert_eq!([told.take(|n| n), told.take(|n| n)], [Ok(0), Ok(2)]);
        assert!(!is_readable(&told));
    }
}
