//! A port's tap device: one frame a read, one frame a write, and neither waits. Where the manager has opened it so,
//! a note is before each frame (R-PKT-9), and the kernel completes and cuts frames only where it must.

use crate::tun;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vfun_packet::layout::takes;
use vfun_packet::{NOTE_HEADER, Note};

/// Where a frame lies in the buffer: behind its note.
pub(crate) const FRAME_AT: usize = NOTE_HEADER;

/// What a read gave.
pub(crate) enum TapRead {
    /// A frame of so many bytes. One that is longer than the buffer is cut off.
    Frame(Note, usize),
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
pub(crate) struct Tap {
    device: OwnedFd,
    has_notes: bool,
    /// Which frames with notes it may give; none: not known.
    gives: Option<u64>,
}

/// What the kernel says of a descriptor whose device was removed.
const REMOVED: &str = "the tap device was removed";

impl Tap {
    pub fn new(device: OwnedFd) -> Self {
        let has_notes = tun::has_notes(&device);
        Tap { device, has_notes, gives: None }
    }

    /// Which frames with notes it takes: bits of [`takes`].
    pub fn takes(&self) -> u64 {
        if self.has_notes { takes::ALL } else { 0 }
    }

    /// Whether another word of [`Tap::let_give`] would change something.
    pub fn gives_other_than(&self, wanted: u64) -> bool {
        self.has_notes && self.gives != Some(offered(wanted))
    }

    /// Says which frames with notes the device may give from now on. Frames that wait in it may still have other notes.
    ///
    /// # Errors
    /// The kernel's. It gives none then, as far as is known.
    pub fn let_give(&mut self, wanted: u64) -> Result<(), Errno> {
        self.gives = Some(offered(wanted));
        tun::set_offloads(&self.device, offered(wanted))
    }

    /// Takes the next frame, which is at [`FRAME_AT`] of the buffer then.
    pub fn read(&self, to: &mut [u8]) -> TapRead {
        let before = if self.has_notes { FRAME_AT } else { 0 };
        match rustix::io::read(&self.device, &mut to[FRAME_AT - before..]) {
            Ok(0) => TapRead::Gone("the tap device has ended"),
            Ok(bytes) => TapRead::Frame(self.note(to), bytes.saturating_sub(before)),
            // These pass: the next look reads again.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => TapRead::Empty,
            Err(Errno::BADFD) => TapRead::Gone(REMOVED),
            // A device that stays readable and cannot be read would keep the thread awake.
            Err(_) => TapRead::Gone("the tap device cannot be read"),
        }
    }

    fn note(&self, buffer: &[u8]) -> Note {
        match buffer.first_chunk() {
            Some(header) if self.has_notes => Note::new(*header),
            _ => Note::default(),
        }
    }

    /// Gives it a frame that is at [`FRAME_AT`] of the buffer, up to its end; the note is written before it. EIO (it is
    /// down), EINVAL (no Ethernet frame, or a note that leads nowhere), EAGAIN and ENOBUFS (no room), and whatever else it
    /// may say of one frame lose that frame and no other.
    pub fn write(&self, note: &Note, buffer: &mut [u8]) -> TapWrite {
        let mut at = FRAME_AT;
        if self.has_notes {
            at = 0;
            buffer[..FRAME_AT].copy_from_slice(note.header());
        }
        match rustix::io::write(&self.device, &buffer[at..]) {
            Ok(_) => TapWrite::Taken,
            Err(Errno::BADFD) => TapWrite::Gone(REMOVED),
            Err(_) => TapWrite::Refused,
        }
    }
}

/// What the kernel can be asked for: who does not take sums takes nothing that is cut either.
const fn offered(wanted: u64) -> u64 {
    if wanted & takes::SUM == 0 { 0 } else { wanted & takes::ALL }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
