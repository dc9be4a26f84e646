//! Anonymous windows for callers on the host itself.

use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::OwnedFd;

/// A memory file of `bytes`, sealed so that nobody it is passed to can change
/// its size: a mapping of it never faults for lack of a page behind it.
pub fn memfd(name: &str, bytes: u64) -> std::io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}
