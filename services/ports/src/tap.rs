//! A port's tap device: one frame a read, one frame a write, and neither waits.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a read gave.
pub(crate) enum TapRead {
    /// A frame of so many bytes. One that is longer than the buffer is cut off.
    Frame(usize),
    /// There is none now.
    Empty,
    /// There will be none any more; a sentence says why.
    Gone(&'static str),
}

/// What a write did.
pub(crate) enum TapWrite {
    Taken,
    /// The frame is dropped.
    Refused,
    /// So it is, and all that would follow; a sentence says why.
    Gone(&'static str),
}

/// The device.
pub(crate) struct Tap(OwnedFd);

/// What the kernel says of a descriptor whose device was removed.
const REMOVED: &str = "the tap device was removed";

impl Tap {
    pub fn new(device: OwnedFd) -> Self {
        Tap(device)
    }

    /// Takes the next frame.
    pub fn read(&self, to: &mut [u8]) -> TapRead {
        match rustix::io::read(&self.0, to) {
            Ok(0) => TapRead::Gone("the tap device has ended"),
            Ok(bytes) => TapRead::Frame(bytes),
            // These pass: the next look reads again.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => TapRead::Empty,
            Err(Errno::BADFD) => TapRead::Gone(REMOVED),
            // A device that stays readable and cannot be read would keep the thread awake.
            Err(_) => TapRead::Gone("the tap device cannot be read"),
        }
    }

    /// Gives it a frame. EIO (it is down), EINVAL (no Ethernet frame), EAGAIN and ENOBUFS (no
    /// room), and whatever else it may say of one frame lose that frame and no other.
    pub fn write(&self, frame: &[u8]) -> TapWrite {
        match rustix::io::write(&self.0, frame) {
            Ok(_) => TapWrite::Taken,
            Err(Errno::BADFD) => TapWrite::Gone(REMOVED),
            Err(_) => TapWrite::Refused,
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
