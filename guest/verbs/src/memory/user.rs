//! Memory is moved by the library itself, where there is no kernel module: on the host, and in a guest by its PCI
//! device. Only if the program's user asks for it, because it breaks what a program may
//! expect: what another thread writes in the moment of registering may be lost, a child
//! of `fork` has the parent's memory and not a copy, so that a program must not fork, and memory stays in the window
//! until the program ends.
#![allow(unsafe_code)]

use super::PAGE;
use super::maps::{Mapping, Maps};
use super::moving::{Mover, Pages};
use crate::limits::MOVED_AT_ONCE;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use vfun::{MemoryPlace, Unmovable};
use vfun_remoting_guest::{Lent, Link};

/// This library, by system calls.
pub struct ByHand(pub &'static Link);

/// Where a buffer begins in the file that is mapped.
fn file_offset(maps: &mut Maps, buffer: &Lent) -> Option<(Mapping, u64)> {
    let start = buffer.start().expose_provenance();
    let mapping = maps.at(start)?;
    let offset = mapping.offset + (start - mapping.from) as u64;
    Some((mapping, offset))
}

fn last_error() -> Unmovable {
    Unmovable::System(crate::errno::last().0)
}

impl Mover for ByHand {
    type Buffer = Lent;
    // Their memory is the program's, by a mapping that nobody takes away.
    const GIVES_BACK: bool = false;

    fn lend(&self, bytes: usize) -> Option<Lent> {
        self.0.lend(bytes).ok()
    }

    fn handle(buffer: &Lent) -> u64 {
        buffer.handle()
    }

    fn bytes(buffer: &Lent) -> usize {
        buffer.len()
    }

    fn find(
        &self,
        held: &HashMap<u64, Arc<Lent>>,
        Pages { addr, bytes, written }: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        let mut maps = Maps::open().ok_or(Unmovable::NotThere)?;
        let mapping = maps.at(addr).ok_or(Unmovable::NotThere)?;
        let bytes = bytes.min(mapping.to - addr);
        if written && !mapping.is_writable {
            return Err(Unmovable::ReadOnly);
        }
        if mapping.is_shared {
            let at = mapping.offset + (addr - mapping.from) as u64;
            for (handle, buffer) in held {
                let Some((of, begin)) = file_offset(&mut maps, buffer) else { continue };
                let inside = at.checked_sub(begin).filter(|off| *off < buffer.len() as u64);
                if let Some(offset) = inside.filter(|_| of.file == mapping.file) {
                    let bytes = bytes.min(buffer.len() - offset as usize);
                    return Ok(MemoryPlace { buffer: *handle, offset, bytes });
                }
            }
            return Err(Unmovable::Shared);
        }
        if !mapping.is_readable {
            return Err(Unmovable::NotThere);
        }
        if mapping.is_executable {
            return Err(Unmovable::Executable);
        }
        Ok(MemoryPlace { buffer: 0, offset: 0, bytes })
    }

    fn take(
        &self,
        buffer: &Lent,
        offset: usize,
        Pages { addr, bytes, .. }: Pages,
    ) -> Result<MemoryPlace, Unmovable> {
        let here = 0u8;
        let sp = (&raw const here).addr();
        let mapping = Maps::open().and_then(|mut maps| maps.at(addr)).ok_or(Unmovable::NotThere)?;
        // The stack that this runs on cannot be taken away from under it.
        if (mapping.from..mapping.to).contains(&sp) {
            return Err(Unmovable::Special);
        }
        let bytes = bytes.min(mapping.to - addr);
        let mut moved = 0;
        while moved < bytes {
            let part = Part {
                buffer,
                offset: offset + moved,
                addr: addr + moved,
                bytes: MOVED_AT_ONCE.min(bytes - moved),
            };
            match part.fill().and_then(|()| part.replace(mapping.is_writable)) {
                Ok(()) => moved += part.bytes,
                Err(why) if moved == 0 => return Err(why),
                // What has moved stays; who asks for the rest is told why it does not move.
                Err(_) => break,
            }
        }
        // The last page is another mapping for the kernel, so that mremap cannot make the memory longer
        // into the next buffer.
        let last = std::ptr::with_exposed_provenance_mut::<u8>(addr + moved - PAGE);
        // SAFETY: a page of the mapping that was just made.
        unsafe { libc::madvise(last.cast(), PAGE, libc::MADV_DONTDUMP) };
        Ok(MemoryPlace { buffer: buffer.handle(), offset: offset as u64, bytes: moved })
    }
}

/// Some of the program's pages, and where they go in a buffer.
struct Part<'a> {
    buffer: &'a Lent,
    offset: usize,
    addr: usize,
    bytes: usize,
}

impl Part<'_> {
    fn from(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr)
    }

    fn to(&self) -> *mut u8 {
        self.buffer.start().wrapping_add(self.offset)
    }

    /// Copies the bytes into the buffer.
    fn fill(&self) -> Result<(), Unmovable> {
        let mut done = 0;
        while done < self.bytes {
            match self.buffer.in_file(|file, begin| self.write(&file, begin, done)).flatten() {
                None => return self.copy(),
                Some(Ok(0)) => return Err(Unmovable::System(libc::EIO)),
                Some(Ok(more)) => done += more,
                Some(Err(libc::EINTR)) => {}
                // Files of huge pages can only be mapped.
                Some(Err(libc::EINVAL)) => return self.copy(),
                Some(Err(number)) => return Err(Unmovable::System(number)),
            }
        }
        Ok(())
    }

    /// By a write to the window's file, in which the buffer begins at `begin`: the kernel makes the pages and copies in
    /// one go. A page that is first touched by the mapping is filled with zeros before.
    /// `None`: this process may not write so far into a file (`ulimit -f`); the kernel would send it a signal.
    fn write(&self, file: &BorrowedFd<'_>, begin: u64, done: usize) -> Option<Result<usize, i32>> {
        let at = begin + (self.offset + done) as u64;
        let left = self.bytes - done;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the struct is ours.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        if !known || limit.rlim_cur < at + left as u64 {
            return None;
        }
        let from = self.from().wrapping_add(done);
        // SAFETY: the kernel reads the program's memory, of so many bytes, and says so where it cannot.
        let wrote = unsafe { libc::pwrite(file.as_raw_fd(), from.cast(), left, at as libc::off_t) };
        Some(usize::try_from(wrote).map_err(|_| crate::errno::last().0))
    }

    /// By the mapping.
    fn copy(&self) -> Result<(), Unmovable> {
        // All pages at once, where the kernel can (Linux 5.14): a fault for each costs more than the copy.
        // SAFETY: this library's memory, of so many bytes; it changes nothing of what is in it.
        unsafe { libc::madvise(self.to().cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        // SAFETY: the program's memory, which is readable, and this library's, of so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.from(), self.to(), self.bytes) };
        Ok(())
    }

    /// Puts the buffer's pages where the program's memory is.
    fn replace(&self, writable: bool) -> Result<(), Unmovable> {
        let (at, bytes) = (self.from().cast(), self.bytes);
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let by_file = self.buffer.in_file(|file, begin| {
            let (kind, from) = (libc::MAP_SHARED | libc::MAP_FIXED, begin + self.offset as u64);
            // SAFETY: the program's memory, which the pages take the place of, has the same bytes.
            unsafe { libc::mmap(at, bytes, rights, kind, file.as_raw_fd(), from as libc::off_t) }
        });
        if let Some(mapped) = by_file {
            return if mapped == libc::MAP_FAILED { Err(last_error()) } else { Ok(()) };
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: an old length of 0 maps the same pages once more; the program's memory, which they take the
        // place of, has the same bytes.
        if unsafe { libc::mremap(self.to().cast(), 0, bytes, flags, at) } == libc::MAP_FAILED {
            return Err(last_error());
        }
        if !writable {
            // SAFETY: it was so before. It cannot fail for a mapping of this process.
            unsafe { libc::mprotect(at, bytes, rights) };
        }
        // The buffer's own mapping does not go on to children; the program's memory must.
        // SAFETY: the mapping that was just made.
        unsafe { libc::madvise(at, bytes, libc::MADV_DOFORK) };
        Ok(())
    }
}
