//! Interrupts as UIO gives them: a file that becomes readable.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A device's interrupt: each one makes `file` readable with 4 bytes, their
/// count so far; writing the 4 bytes of the number 1 asks for the next.
pub struct Interrupts {
    file: OwnedFd,
    /// The device cannot be asked for the next one by writing: its driver
    /// masks nothing (`uio_pdrv_genirq` without its control).
    unasked: bool,
}

impl Interrupts {
    /// Of an open UIO device.
    pub fn new(file: OwnedFd) -> Self {
        Interrupts { file, unasked: false }
    }

    /// Waits for the next interrupt, or until `limit` has passed.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        if !self.unasked {
            match rustix::io::write(&self.file, &1u32.to_ne_bytes()) {
                Ok(_) => {}
                Err(rustix::io::Errno::NOSYS) => self.unasked = true,
                Err(e) => return Err(e.into()),
            }
        }
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut count = [0; 4];
        match rustix::io::read(&self.file, &mut count) {
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
