//! How the process ends, and what it leaves behind.
#![allow(unsafe_code)]

use vfun_supervise::EXIT_ABORTED;

unsafe extern "C" {
    safe fn _exit(code: std::ffi::c_int) -> !;
}

/// Ends the process at once: no destructors, no exit handlers, which a driver
/// that hangs could hold up.
pub fn now(code: i32) -> ! {
    _exit(code)
}

/// Writing to a log that may not grow fails; it does not end the service.
pub fn outlive_a_full_log() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The first process of a process namespace does not die of a signal that it
/// sends itself, so an abort ends it by its status.
pub fn tell_of_aborts() {
    extern "C" fn aborted(_: libc::c_int) {
        _exit(EXIT_ABORTED)
    }
    if std::process::id() != 1 {
        return;
    }
    // SAFETY: the handler only ends the process, which is allowed at any point;
    // the struct is all zeros but for what is set, as the call wants it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as *const () as usize;
        // After a stack overflow there is no other stack.
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

/// A bug in the service itself: say where, then die like any crash. (Drivers
/// in Rust have a panic hook of their own and are caught at their edge.)
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("vfun-service: bug: {info}\n"),
        );
        std::process::abort();
    }));
}

/// A session of its own: where no control group shares the processors, the
/// kernel shares them between sessions (`kernel.sched_autogroup_enabled`), and
/// not between threads, of which a driver may start many.
pub fn own_session() {
    // It leads no group of processes yet, so there is nothing to fail.
    let _ = rustix::process::setsid();
}

/// No core dumps: they would hold the client's data.
pub fn no_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Refused only where the limit is 0 already.
    let _ = setrlimit(Resource::Core, none);
}
