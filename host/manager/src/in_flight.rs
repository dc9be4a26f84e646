//! Descriptors on their way: sent in a UNIX socket and not received yet. The kernel
//! lets a user have no more of them than a process may have open, but for processes
//! with `CAP_SYS_RESOURCE` or `CAP_SYS_ADMIN`. What another program of the manager's
//! user has on its way counts, too, so that the manager may find no room for its own:
//! it tries again.

use rustix::io::Errno;
use std::io;

/// An error in words that name this cause.
pub fn words(e: &io::Error) -> String {
    match Errno::from_io_error(e) == Some(Errno::TOOMANYREFS) {
        true => format!(
            "too many descriptors of user {} are on their way in UNIX sockets: a program of this user sends many that nobody receives",
            rustix::process::getuid().as_raw()
        ),
        false => e.to_string(),
    }
}
