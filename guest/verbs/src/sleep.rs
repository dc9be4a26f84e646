//! Sleep until a descriptor is readable, with signals as in a `read`: one whose handler asks for calls to be
//! restarted (`SA_RESTART`) ends nothing. `poll` ends at each handler, and nobody says afterwards which one it was.
//!
//! So those signals are blocked meanwhile, and a `signalfd` tells that one has come. Its handler runs when it is
//! blocked no longer.
#![allow(unsafe_code)]

use crate::errno::{self, Errno};
use libc::{pollfd, sigset_t, timespec};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How long signals wait at first, ns. What comes in this time costs no look at 64 handlers.
const FIRST_NS: i64 = 20_000;

/// Waits for at most `ms`: whether it is readable. If not, the time is over or a signal's handler has run.
///
/// # Errors
/// `EINTR`: a handler has run that asks for no restart. The system's others.
pub fn readable(descriptor: c_int, ms: c_int) -> Result<bool, Errno> {
    let mut it = [polled(descriptor)];
    let soon = timespec { tv_sec: 0, tv_nsec: FIRST_NS };
    // SAFETY: the structs are ours.
    let ready = unsafe { libc::ppoll(it.as_mut_ptr(), 1, &soon, &all()) };
    if ready != 0 {
        return answer(ready, &it);
    }
    let restarting = restarting();
    let mut before = none();
    // SAFETY: the sets are ours.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &restarting, &mut before) };
    let answer = told_of(&without(&restarting, &before)).map_or_else(
        // No such descriptor: then each handler ends it.
        || {
            // SAFETY: the sets are ours.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
            poll(&mut [polled(descriptor)], ms)
        },
        |told| poll(&mut [polled(descriptor), polled(told.as_raw_fd())], ms),
    );
    // SAFETY: the set is ours. Handlers run here; nothing is held.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    answer
}

const fn polled(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Whether the first is readable.
fn poll(all: &mut [pollfd], ms: c_int) -> Result<bool, Errno> {
    // SAFETY: the structs are ours.
    let ready = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, ms) };
    answer(ready, all)
}

fn answer(ready: c_int, all: &[pollfd]) -> Result<bool, Errno> {
    match ready {
        ..0 => Err(errno::last()),
        _ => Ok(all[0].revents != 0),
    }
}

/// A descriptor that is readable while one of these signals waits for this thread.
fn told_of(signals: &sigset_t) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor; the set is ours.
    let made = unsafe { libc::signalfd(-1, signals, libc::SFD_CLOEXEC) };
    // SAFETY: it is new, and nobody else's.
    (made >= 0).then(|| unsafe { OwnedFd::from_raw_fd(made) })
}

/// Signals whose handlers ask for calls to be restarted.
fn restarting() -> sigset_t {
    let mut set = none();
    for signal in 1..=libc::SIGRTMAX() {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: asks only; the place is ours, and zeros are a struct of this kind.
        let (got, now) = unsafe {
            let got = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
            (got, now.assume_init())
        };
        let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&now.sa_sigaction);
        if got == 0 && has_handler && now.sa_flags & libc::SA_RESTART != 0 {
            // SAFETY: the set is ours.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
    }
    set
}

/// Those of a set that are not in another one.
fn without(set: &sigset_t, other: &sigset_t) -> sigset_t {
    let mut left = *set;
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the sets are ours.
        unsafe {
            if libc::sigismember(other, signal) == 1 {
                libc::sigdelset(&mut left, signal);
            }
        }
    }
    left
}

fn none() -> sigset_t {
    made(libc::sigemptyset)
}

fn all() -> sigset_t {
    made(libc::sigfillset)
}

fn made(fill: unsafe extern "C" fn(*mut sigset_t) -> c_int) -> sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: the place is ours, and the C library fills it.
    unsafe {
        fill(set.as_mut_ptr());
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use crate::told::Told;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::JoinHandle;
    use std::time::Duration;

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handle(_: c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }

    fn install(signal: c_int, flags: c_int) {
        let handler: extern "C" fn(c_int) = handle;
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the struct is ours; the handler only counts.
        let done = unsafe {
            let action = action.as_mut_ptr();
            (*action).sa_sigaction = handler as usize;
            (*action).sa_flags = flags;
            libc::sigaction(signal, action, std::ptr::null_mut())
        };
        assert_eq!(done, 0);
    }

    fn signal<T>(thread: &JoinHandle<T>, signal: c_int) {
        // SAFETY: the thread was not joined.
        unsafe { libc::pthread_kill(thread.as_pthread_t(), signal) };
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Sleeps until there is something, or until it may not sleep on.
    fn sleeper(told: &'static Told<u32>) -> JoinHandle<Result<(), Errno>> {
        std::thread::spawn(|| {
            while !readable(told.descriptor(), 1000)? {}
            Ok(())
        })
    }

    #[test]
    fn only_handlers_that_ask_for_no_restart_end_a_sleep() {
        install(libc::SIGUSR1, libc::SA_RESTART);
        install(libc::SIGUSR2, 0);
        let told: &Told<u32> = Box::leak(Box::new(Told::new().unwrap()));
        let thread = sleeper(told);
        let mut sent = 0;
        while HANDLED.load(Ordering::SeqCst) < 50 {
            assert!(!thread.is_finished(), "after {sent} signals: {:?}", thread.join());
            signal(&thread, libc::SIGUSR1);
            sent += 1;
        }
        told.push(7, 8);
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!(told.take(|n| n), Ok(7));

        let thread = sleeper(told);
        while !thread.is_finished() {
            signal(&thread, libc::SIGUSR2);
        }
        assert_eq!(thread.join().unwrap(), Err(Errno(libc::EINTR)));
    }
}
