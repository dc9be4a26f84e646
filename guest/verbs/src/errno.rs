//! How functions of C say what went wrong.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Once;
use vfun_remoting_guest::{Failure, say_once};

/// A number of `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

pub const EINVAL: Errno = Errno(libc::EINVAL);
pub const ENOMEM: Errno = Errno(libc::ENOMEM);
pub const ENODEV: Errno = Errno(libc::ENODEV);
pub const EBUSY: Errno = Errno(libc::EBUSY);
pub const EIO: Errno = Errno(libc::EIO);
pub const EAGAIN: Errno = Errno(libc::EAGAIN);
pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Errno {
        // The statuses of the control calls are numbers of errno.h.
        Errno(crate::generated::status_of(failure))
    }
}

/// What a control call returned.
pub fn checked(status: i32) -> Result<(), Errno> {
    static SAID: Once = Once::new();
    if status == libc::EDQUOT {
        say_once(&SAID, || {
            let sentence = "the host gives no more RDMA programs, queue pairs or memory here: ";
            vec![format!("{sentence}its operator bounds them by [rdma] of the client's manifest")]
        });
    }
    if status == 0 { Ok(()) } else { Err(Errno(status)) }
}

/// Sets the program's `errno`.
pub fn set(errno: Errno) {
    // SAFETY: the C library gives each thread a place for it.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// The number that a failed system call left.
pub fn last() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// For functions that return 0 or the number.
pub fn number(done: Result<(), Errno>) -> c_int {
    done.err().map_or(0, |errno| errno.0)
}

/// For functions that return a pointer, or null and set `errno`.
pub fn pointer<T>(made: Result<*mut T, Errno>) -> *mut T {
    made.unwrap_or_else(|errno| {
        set(errno);
        std::ptr::null_mut()
    })
}

/// For functions that return 0, or -1 and set `errno`.
pub fn minus_one(done: Result<(), Errno>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(errno) => {
            set(errno);
            -1
        }
    }
}
