//! Waiters in C.

use super::edge::{Edge, Failure, edge, given, put, taken};
use super::pending::vfun_pending;
use super::status::vfun_status;
use crate::error::Error;
use crate::waiter::Waiter;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// As a limit in nanoseconds: wait without one.
pub const VFUN_NO_LIMIT: u64 = u64::MAX;

/// Waits for any of several calls, also by a descriptor. One thread at a time
/// may use it.
pub struct vfun_waiter {
    waiter: Waiter,
}

/// A time limit of C's; `None` for none.
pub(super) fn limit(ns: u64) -> Option<Duration> {
    (ns != VFUN_NO_LIMIT).then(|| Duration::from_nanos(ns))
}

/// # Safety
/// `calls` points to `count` pointers to pending calls that are under way.
unsafe fn all<'a>(calls: *const *const vfun_pending, count: usize) -> Edge<Vec<&'a vfun_pending>> {
    if count > 0 && calls.is_null() {
        return Err(Failure::Argument("calls is null but count is not 0"));
    }
    if count > isize::MAX as usize / size_of::<*const vfun_pending>() {
        return Err(Failure::Argument("count is more than any array has"));
    }
    let mut all = Vec::with_capacity(count.min(1024));
    for i in 0..count {
        // SAFETY: the caller's promise: `count` pointers, each null or valid.
        all.push(unsafe { given(*calls.add(i), "one of calls is null")? });
    }
    Ok(all)
}

/// Makes a waiter, for one thread or event loop. *waiter is the caller's, to be
/// ended by vfun_waiter_close.
///
/// # Safety
/// waiter points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_waiter_open(waiter: *mut *mut vfun_waiter) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(waiter, std::ptr::null_mut(), "waiter is null")?;
            let made = Box::new(vfun_waiter { waiter: Waiter::new()? });
            put(waiter, Box::into_raw(made), "waiter is null")
        }
    })
}

/// The waiter's descriptor, for poll, epoll or an event loop: after vfun_arm it
/// is readable once one of the calls may be answered. It is the waiter's: not to
/// be read and not to be closed.
///
/// # Safety
/// waiter is open; fd points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_fd(waiter: *const vfun_waiter, fd: *mut c_int) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let waiter = unsafe { given(waiter, "waiter is null")? };
        if !waiter.waiter.is_ours() {
            return Err(Error::Forked.into());
        }
        // SAFETY: the caller's promise.
        unsafe { put(fd, waiter.waiter.as_raw_fd(), "fd is null") }
    })
}

/// Looks for an answered call among count: *first is the place of the first, and
/// count if there is none. If there is none the descriptor becomes readable as
/// soon as one may be: sleep on it, then arm again, as it may wake in vain. Calls
/// may be of several functions and sessions. count 0 disarms.
///
/// While a waiter is armed the functions' services ring at each answer, which
/// takes them a system call; calls that nobody waits for so pay nothing.
///
/// # Safety
/// waiter is open; calls points to count pending calls that are under way; first
/// points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_arm(
    waiter: *mut vfun_waiter,
    calls: *const *const vfun_pending,
    count: usize,
    first: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise; one thread at a time has the waiter.
        unsafe {
            put(first, count, "first is null")?;
            let waiter = waiter.as_mut().ok_or(Failure::Argument("waiter is null"))?;
            let calls = all(calls, count)?;
            let found = waiter.waiter.arm(calls.iter().map(|p| p.in_flight()))?;
            put(first, found.first().copied().unwrap_or(count), "first is null")
        }
    })
}

/// Waits until one of count calls is answered: *first is its place. After
/// timeout_ns (VFUN_NO_LIMIT: none) VFUN_STATUS_TIMED_OUT. The results stay for
/// vfun_wait.
///
/// # Safety
/// As vfun_arm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_wait_any(
    waiter: *mut vfun_waiter,
    calls: *const *const vfun_pending,
    count: usize,
    timeout_ns: u64,
    first: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise; one thread at a time has the waiter.
        unsafe {
            put(first, count, "first is null")?;
            let waiter = waiter.as_mut().ok_or(Failure::Argument("waiter is null"))?;
            if count == 0 {
                return Err(Failure::Argument("count is 0: there is no call to wait for"));
            }
            let calls = all(calls, count)?;
            let limit = limit(timeout_ns);
            match waiter.waiter.wait(calls.iter().map(|p| p.in_flight()), limit)? {
                Some(found) => put(first, found, "first is null"),
                None => Err(Error::TimedOut(limit.unwrap_or_default()).into()),
            }
        }
    })
}

/// Ends a waiter. Calls that it was armed for go on.
///
/// # Safety
/// waiter came from vfun_waiter_open and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_waiter_close(waiter: *mut vfun_waiter) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let waiter = unsafe { taken(waiter, "waiter is null")? };
        match waiter.waiter.is_ours() {
            true => Ok(()),
            false => Err(Error::Forked.into()),
        }
    })
}
