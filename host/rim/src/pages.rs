//! Memory that the host shares with one VM or program, and nothing of what is in it: all
//! windows have this. What control is, [`crate::window`] knows; what a further window
//! is, [`crate::further`].

use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags, fallocate, fcntl_get_seals, fstat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vfun_window::{Access, MapError, Mapping, WriteSpan};
use vfun_wire::PAGE;
use vfun_wire::range::Range;

/// The memory of a window: a file, and where in it the window begins.
pub struct Memory {
    pub file: OwnedFd,
    /// Bytes before the window.
    pub origin: u64,
}

impl From<OwnedFd> for Memory {
    fn from(file: OwnedFd) -> Self {
        Memory { file, origin: 0 }
    }
}

/// The same, mapped.
pub struct Pages {
    memory: Memory,
    span: WriteSpan,
    bytes: u64,
}

impl Pages {
    /// Maps `bytes` of it for reading and writing. Pages that go away later end nobody.
    ///
    /// # Errors
    /// Of the system.
    pub fn map(memory: Memory, bytes: u64) -> Result<Self, MapError> {
        let map = Mapping::guarded(&memory.file, memory.origin, bytes as usize, Access::ReadWrite)?;
        let span = map.write().expect("mapped for writing");
        Ok(Pages { memory, span, bytes })
    }

    /// All of it, for words and copies.
    pub fn span(&self) -> &WriteSpan {
        &self.span
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn fd(&self) -> impl AsFd + '_ {
        &self.memory.file
    }
    /// Where in its file it begins.
    pub fn origin(&self) -> u64 {
        self.memory.origin
    }
    /// Bytes that its file has at least.
    pub fn file_bytes(&self) -> u64 {
        self.memory.origin + self.bytes
    }

    /// Whether pages of it went away: nobody else sees what is written here.
    pub fn is_lost(&self) -> bool {
        self.span.is_lost()
    }

    /// Its file, opened for reading alone: what is mapped from this can never be made
    /// writable.
    ///
    /// # Errors
    /// Of the system.
    pub fn for_reading(&self) -> io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.memory.file.as_raw_fd());
        Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// The bytes of a range, which the core laid out inside.
    pub fn range(&self, r: &Range) -> WriteSpan {
        self.span
            .part(r.offset.get() as usize, r.bytes.get() as usize)
            .expect("laid out by the core inside this window")
    }

    /// Sets all of a buffer to zero before anybody has it: an app, or another app of its
    /// client, left it as it is.
    pub fn zero(&self, range: &Range) {
        if !self.punch(range) {
            self.range(range).zero();
        }
    }

    /// Gives the pages of a range back to the system, if its file lets that be done: they
    /// come again as zeros. Not those of a file in a directory: they were reserved, so that
    /// a writer needs no room that the file system may not have any more.
    pub fn punch(&self, range: &Range) -> bool {
        // Only a memfd is sealed.
        let seals = fcntl_get_seals(&self.memory.file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return false;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (at, bytes) = (self.memory.origin + range.offset.get(), range.bytes.get());
        // Of a file of huge pages a part of one may be left as it is.
        let page = fstat(&self.memory.file).map_or(0, |s| s.st_blksize as u64);
        page == PAGE as u64 && fallocate(&self.memory.file, hole, at, bytes).is_ok()
    }
}
