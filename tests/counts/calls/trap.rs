//! A page whose first look runs the service: so that a call which waits for its
//! answer finds it there at once, on one thread, by the code that ships.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;

thread_local! {
    static STEP: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}
/// The page that is watched; 0: none.
static WATCHED: AtomicUsize = AtomicUsize::new(0);

/// Runs in the middle of the instruction that looks.
extern "C" fn looked(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo over, for a fault with an address.
    let at = unsafe { (*info).si_addr() } as usize;
    let page = WATCHED.swap(0, Ordering::Relaxed);
    if page == 0 || at & !(PAGE - 1) != page {
        // Somebody else's fault: it comes again, and ends the program.
        // SAFETY: a call without preconditions.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    protect(page, libc::PROT_READ);
    STEP.with_borrow_mut(|step| step.as_mut().expect("set with the page")());
}

fn protect(page: usize, to: libc::c_int) {
    // SAFETY: the page is part of a mapping of this program's window for reading, of
    // which nothing but the client's calls on this thread makes use.
    let done = unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, to) };
    assert_eq!(done, 0, "mprotect: {}", std::io::Error::last_os_error());
}

/// From now on [`arm`] is for this.
pub fn set(step: impl FnMut() + 'static) {
    // SAFETY: an all-zero sigaction is one without flags and mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = looked as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler looks at nothing that the interrupted code changes: a load
    // by the client, which holds nothing of the service's.
    let done = unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) };
    assert_eq!(done, 0);
    STEP.set(Some(Box::new(step)));
}

/// The next look at this page runs the step first.
pub fn arm(page: usize) {
    WATCHED.store(page, Ordering::Relaxed);
    protect(page, libc::PROT_NONE);
}
