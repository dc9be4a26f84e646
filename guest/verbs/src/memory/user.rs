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
use std::os::fd::AsRawFd;
use std::sync::Arc;
use vfun::{BufferFile, FileKind, MemoryPlace, Unmovable};
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
            match part.move_in(mapping.is_writable) {
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

/// A buffer as a move needs it.
trait Target {
    /// Does something with the buffer's place in the window's file, while it cannot end.
    fn in_file<T>(&self, f: impl FnOnce(BufferFile<'_>) -> T) -> Result<T, Unmovable>;
    /// Where it lies in this process.
    fn start(&self) -> *mut u8;
}

impl Target for Lent {
    fn in_file<T>(&self, f: impl FnOnce(BufferFile<'_>) -> T) -> Result<T, Unmovable> {
        Lent::in_file(self, f)
    }

    fn start(&self) -> *mut u8 {
        Lent::start(self)
    }
}

/// Some of the program's pages, and where they go in a buffer.
struct Part<'a, B> {
    buffer: &'a B,
    offset: usize,
    addr: usize,
    bytes: usize,
}

impl<B: Target> Part<'_, B> {
    fn from(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr)
    }

    fn to(&self) -> *mut u8 {
        self.buffer.start().wrapping_add(self.offset)
    }

    /// Copies the bytes into the buffer, and puts its pages where the program's memory is.
    fn move_in(&self, writable: bool) -> Result<(), Unmovable> {
        self.fill()?;
        self.replace(writable)
    }

    /// Copies the bytes into the buffer.
    fn fill(&self) -> Result<(), Unmovable> {
        let mut done = 0;
        while done < self.bytes {
            match self.buffer.in_file(|file| self.write(&file, done))? {
                None => {
                    self.copy();
                    return Ok(());
                }
                Some(Ok(0)) => return Err(Unmovable::System(libc::EIO)),
                Some(Ok(more)) => done += more,
                Some(Err(libc::EINTR)) => {}
                Some(Err(number)) => return Err(Unmovable::System(number)),
            }
        }
        Ok(())
    }

    /// By a write to the window's file: the kernel makes the pages and copies in one go. A page that is first touched
    /// by the mapping is filled with zeros before.
    /// `None`: the file takes no writes, or this process may not write so far into a file (`ulimit -f`); the kernel
    /// would send it a signal.
    fn write(&self, file: &BufferFile<'_>, done: usize) -> Option<Result<usize, i32>> {
        let at = file.begin + (self.offset + done) as u64;
        let left = self.bytes - done;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the struct is ours.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        if file.kind != FileKind::Memory || !known || limit.rlim_cur < at + left as u64 {
            return None;
        }
        let (from, to) = (self.from().wrapping_add(done), file.file.as_raw_fd());
        // SAFETY: the kernel reads the program's memory, of so many bytes, and says so where it cannot.
        let wrote = unsafe { libc::pwrite(to, from.cast(), left, at as libc::off_t) };
        Some(usize::try_from(wrote).map_err(|_| crate::errno::last().0))
    }

    /// By the mapping.
    fn copy(&self) {
        // All pages at once, where the kernel can (Linux 5.14): a fault for each costs more than the copy.
        // SAFETY: this library's memory, of so many bytes; it changes nothing of what is in it.
        unsafe { libc::madvise(self.to().cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        // SAFETY: the program's memory, which is readable, and this library's, of so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.from(), self.to(), self.bytes) };
    }

    /// Puts the buffer's pages where the program's memory is.
    fn replace(&self, writable: bool) -> Result<(), Unmovable> {
        let rights = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        self.buffer.in_file(|file| match file.kind {
            FileKind::Memory => {
                self.map(&file, (self.from(), rights, libc::MAP_FIXED))?;
                Ok(())
            }
            FileKind::Mapped => self.map_aside(&file, rights),
        })?
    }

    /// Maps the buffer's pages.
    fn map(
        &self,
        file: &BufferFile<'_>,
        (at, rights, how): (*mut u8, i32, i32),
    ) -> Result<*mut u8, Unmovable> {
        let (fd, from) = (file.file.as_raw_fd(), (file.begin + self.offset as u64) as libc::off_t);
        let how = libc::MAP_SHARED | how;
        // SAFETY: a new place, or the program's memory, which has the same bytes as the pages that take its place.
        match unsafe { libc::mmap(at.cast(), self.bytes, rights, how, fd, from) } {
            libc::MAP_FAILED => Err(last_error()),
            mapped => Ok(mapped.cast()),
        }
    }

    /// Somewhere else first, and then moves the mapping to the program's memory: the kernel takes away what was there
    /// before it asks a driver, so that memory would be lost where the driver refuses.
    fn map_aside(&self, file: &BufferFile<'_>, rights: i32) -> Result<(), Unmovable> {
        let aside = self.map(file, (std::ptr::null_mut(), rights, 0))?.cast();
        let (at, how) = (self.from(), libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        // SAFETY: the mapping that was just made, all of it, and the program's memory, which has the same bytes.
        let moved = unsafe { libc::mremap(aside, self.bytes, self.bytes, how, at) };
        if moved != libc::MAP_FAILED {
            return Ok(());
        }
        let why = last_error();
        // SAFETY: it is nobody else's.
        unsafe { libc::munmap(aside, self.bytes) };
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    const PAGES: usize = 4;
    /// Where the buffer begins in its file.
    const BEGIN: usize = 2 * PAGE;

    /// A buffer in a file of this process.
    struct Own {
        file: File,
        start: *mut u8,
        /// What it answers who asks for its file.
        kind: Result<FileKind, Unmovable>,
    }

    impl Target for Own {
        fn in_file<T>(&self, f: impl FnOnce(BufferFile<'_>) -> T) -> Result<T, Unmovable> {
            let (file, begin) = (self.file.as_fd(), BEGIN as u64);
            self.kind.map(|kind| f(BufferFile { file, begin, kind }))
        }

        fn start(&self) -> *mut u8 {
            self.start
        }
    }

    fn mapped(fd: i32, from: usize) -> *mut u8 {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = if fd < 0 { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS } else { libc::MAP_SHARED };
        let (nowhere, bytes) = (std::ptr::null_mut(), PAGES * PAGE);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(nowhere, bytes, rights, kind, fd, from as libc::off_t) };
        assert_ne!(at, libc::MAP_FAILED);
        at.cast()
    }

    /// A buffer; one that is over has private memory in its place ([`vfun::Buffer`]).
    fn buffer(kind: Result<FileKind, Unmovable>) -> Own {
        // SAFETY: a new descriptor, which is nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"window".as_ptr(), 0)) };
        file.set_len((BEGIN + PAGES * PAGE) as u64).expect("room");
        let start = mapped(if kind.is_ok() { file.as_raw_fd() } else { -1 }, BEGIN);
        Own { file, start, kind }
    }

    fn memory_of_a_program() -> *mut u8 {
        let at = mapped(-1, 0);
        for n in 0..PAGES * PAGE {
            // SAFETY: in the mapping that was just made.
            unsafe { at.add(n).write(n as u8 ^ (n / PAGE) as u8) };
        }
        at
    }

    /// What the kernel finds at an address of this process; an error where nothing is mapped.
    fn bytes_at(at: *mut u8) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; PAGES * PAGE];
        let memory = File::open("/proc/self/mem")?;
        memory.read_exact_at(&mut bytes, at.expose_provenance() as u64).map(|()| bytes)
    }

    fn moved(buffer: &Own, at: *mut u8) -> Result<(), Unmovable> {
        let addr = at.expose_provenance();
        Part { buffer, offset: 0, addr, bytes: PAGES * PAGE }.move_in(true)
    }

    #[test]
    fn memory_moves_into_each_kind_of_file() {
        for kind in [FileKind::Memory, FileKind::Mapped] {
            let (buffer, at) = (buffer(Ok(kind)), memory_of_a_program());
            let before = bytes_at(at).expect("it is there");
            assert_eq!(moved(&buffer, at), Ok(()));
            assert_eq!(bytes_at(at).expect("it is there"), before, "{kind:?}");
            // What the other side writes is what the program sees.
            buffer.file.write_all_at(b"peer", (BEGIN + PAGE) as u64).expect("room");
            assert_eq!(&bytes_at(at).expect("it is there")[PAGE..PAGE + 4], b"peer", "{kind:?}");
        }
    }

    #[test]
    fn memory_that_does_not_move_stays_as_it_is() {
        for why in [Unmovable::BufferOver, Unmovable::NoFile] {
            let (buffer, at) = (buffer(Err(why)), memory_of_a_program());
            let before = bytes_at(at).expect("it is there");
            assert_eq!(moved(&buffer, at), Err(why));
            assert_eq!(bytes_at(at).expect("nothing was unmapped"), before);
            let part = Part { buffer: &buffer, offset: 0, addr: at.addr(), bytes: PAGES * PAGE };
            assert_eq!(part.replace(true), Err(why), "it ended after the bytes were copied");
            assert_eq!(bytes_at(at).expect("nothing was unmapped"), before);
        }
    }

    /// A file that cannot be mapped is found out before anything of the program's goes.
    #[test]
    fn a_driver_that_refuses_a_mapping_costs_no_memory() {
        let (mut buffer, at) = (buffer(Ok(FileKind::Mapped)), memory_of_a_program());
        let before = bytes_at(at).expect("it is there");
        // Its file system asks it late, as a device's does.
        buffer.file = File::open("/proc/meminfo").expect("there is /proc");
        let part = Part { buffer: &buffer, offset: 0, addr: at.addr(), bytes: PAGES * PAGE };
        assert_eq!(part.move_in(false), Err(Unmovable::System(libc::EIO)));
        assert_eq!(bytes_at(at).expect("nothing was unmapped"), before);
    }
}
