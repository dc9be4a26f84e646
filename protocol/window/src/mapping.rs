//! A mapped range of a window's file or device.

use crate::guard::Guard;
use crate::process::{KeptEmpty, Process};
use crate::span::{ReadSpan, WriteSpan};
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// What this side may do with a mapping. Enforced by the page tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads only; a store would fault, so no [`WriteSpan`] is given out.
    Read,
    /// Pages that this side may read and write.
    ReadWrite,
}

/// Why a mapping failed.
#[derive(Debug)]
pub enum MapError {
    /// Zero bytes, or an offset that is not a multiple of a page.
    Shape,
    /// The file ends before the range does: touching it would fault.
    Beyond {
        /// Bytes the file has.
        file: u64,
        /// Where the range would end.
        end: u64,
    },
    /// The system refused to map it.
    Os(std::io::Error),
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            MapError::Shape => f.write_str("a mapping must be whole pages and not empty"),
            MapError::Beyond { file, end } => {
                write!(f, "the window's file has {file} bytes, the range ends at {end}")
            }
            MapError::Os(e) => write!(f, "cannot map the window: {e}"),
        }
    }
}
impl std::error::Error for MapError {}

/// A range of a window in this process's address space; unmapped when the
/// last span of it goes.
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    access: Access,
    /// Whose it is: a child of `fork` has none of it.
    of: Process,
    /// If it may lose its pages; see [`crate::guard`].
    guard: Option<Guard>,
    /// None of memory that a child has, too.
    empty: Option<KeptEmpty>,
    /// Who mapped it unmaps it.
    borrowed: bool,
}

// SAFETY: a mapping is plain shared memory; every access through it is an
// atomic word or a raw-pointer copy, which may happen on any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method needs exclusive access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`, shared. Regular files are checked
    /// to be long enough first; devices (a PCI BAR) check by themselves.
    pub fn new(
        fd: impl AsFd,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<Arc<Self>, MapError> {
        let end = offset.checked_add(len as u64).ok_or(MapError::Shape)?;
        if len == 0 || !offset.is_multiple_of(4096) || !len.is_multiple_of(4096) {
            return Err(MapError::Shape);
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| MapError::Os(e.into()))?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile
            && (stat.st_size as u64) < end
        {
            return Err(MapError::Beyond { file: stat.st_size as u64, end });
        }
        Self::of_device(fd, offset, len, access)
    }

    /// As [`Mapping::new`], of a file that somebody else may truncate, or whose
    /// file system may run full: pages that go away read as zeros, and the
    /// mapping is [lost](Mapping::is_lost), where this process would end by
    /// SIGBUS otherwise. The first one puts up this process's handler of SIGBUS.
    pub fn guarded(
        fd: impl AsFd,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<Arc<Self>, MapError> {
        let map = Self::new(fd, offset, len, access)?;
        let mut map = Arc::into_inner(map).expect("made just now");
        let writable = access == Access::ReadWrite;
        let guard = Guard::new(map.base.as_ptr() as usize, len, writable).map_err(MapError::Os)?;
        map.guard = Some(guard);
        Ok(Arc::new(map))
    }

    /// Whether pages of it went away (see [`Mapping::guarded`]). What is read
    /// from it since is zero or what this side wrote, and nobody else sees what
    /// this side writes.
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::lost)
    }

    /// As [`Mapping::new`] with a range that was checked, of a file that checks
    /// its own length or of a device.
    pub(crate) fn of_device(
        fd: impl AsFd,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<Arc<Self>, MapError> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // Whoever maps a window will wait on it.
        crate::cpu::calibrate_pause();
        // SAFETY: a fresh shared mapping at an address the kernel picks
        // overlaps nothing of ours; the fd is open.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &fd, offset)
        }
        .map_err(|e| MapError::Os(e.into()))?;
        let base: NonNull<u8> = NonNull::new(base.cast()).expect("mmap does not return null");
        // A forked child would share the cells but not the account of which are
        // taken: two processes would use one cell. So it has no window at all, and
        // nothing else at these addresses; who asks for [`Process`] first does not
        // crash there.
        let of = Process::current();
        // Before the advice: a fork in between finds the place taken, and leaves it.
        let empty = Some(KeptEmpty::new(base.as_ptr() as usize, len));
        // SAFETY: advice about our own fresh mapping; it changes nothing in this process.
        let _ = unsafe {
            rustix::mm::madvise(base.as_ptr().cast(), len, rustix::mm::Advice::LinuxDontFork)
        };
        Ok(Arc::new(Mapping { base, len, access, of, guard: None, empty, borrowed: false }))
    }

    /// Memory that somebody else in this process has mapped, and will unmap; none of a null
    /// pointer.
    ///
    /// # Safety
    /// `len` bytes from `start` on, both multiples of 8, can be read and written until the last
    /// span of this is gone.
    pub unsafe fn borrowed(start: *mut u8, len: usize) -> Option<Arc<Self>> {
        let (base, of) = (NonNull::new(start)?, Process::current());
        let access = Access::ReadWrite;
        Some(Arc::new(Mapping { base, len, access, of, guard: None, empty: None, borrowed: true }))
    }

    /// Puts private memory where the window was, for everybody in this process
    /// who has a span of this mapping, at once: from then on nothing that this
    /// process does reaches the window there, and nothing that anybody else does
    /// to the window is seen. `fill` writes what the private memory is to hold; it
    /// is zero elsewhere. A write that another thread makes meanwhile to this
    /// mapping may be lost.
    pub fn cut_off(&self, fill: impl FnOnce(&WriteSpan)) -> Result<(), MapError> {
        let failed = |e: rustix::io::Errno| MapError::Os(e.into());
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: fresh memory at an address that the kernel picks.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), self.len, prot, flags) };
        let base: NonNull<u8> =
            NonNull::new(base.map_err(failed)?.cast()).expect("mmap does not return null");
        let access = Access::ReadWrite;
        let of = Process::current();
        let (len, borrowed) = (self.len, false);
        let private =
            Arc::new(Mapping { base, len, access, of, guard: None, empty: None, borrowed });
        fill(&WriteSpan::whole(private.clone()));
        // Whoever kept a span of it would have none of it after the move.
        let private = Arc::into_inner(private).ok_or(MapError::Shape)?;
        if self.access == Access::Read {
            // SAFETY: the whole of a mapping that nobody else knows of.
            unsafe { rustix::mm::mprotect(base.as_ptr().cast(), self.len, MprotectFlags::READ) }
                .map_err(failed)?;
        }
        // SAFETY: both ranges are whole mappings of ours and equally long, the one
        // that moves is nobody else's, and the one that it replaces is reached by
        // atomic words and raw copies only, which any bytes satisfy. The kernel
        // replaces it under the lock that a fault takes, so that no access of
        // another thread finds nothing there.
        unsafe {
            let to = self.base.as_ptr().cast();
            rustix::mm::mremap_fixed(
                base.as_ptr().cast(),
                self.len,
                self.len,
                MremapFlags::MAYMOVE,
                to,
            )
        }
        .map_err(failed)?;
        // It lies elsewhere now, as a part of this mapping.
        std::mem::forget(private);
        Ok(())
    }

    /// Bytes of the mapping, whole pages.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Never: a mapping has at least a page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Makes its first `bytes` ready to be used without a fault, as far as the
    /// kernel can; nothing that is read or written changes.
    pub fn populate(&self, bytes: usize) {
        let advice = match self.access {
            Access::Read => rustix::mm::Advice::LinuxPopulateRead,
            Access::ReadWrite => rustix::mm::Advice::LinuxPopulateWrite,
        };
        // SAFETY: advice about a part of our own mapping, which changes no byte of it.
        let _ =
            unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), bytes.min(self.len), advice) };
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The whole mapping, for loads.
    pub fn read(self: &Arc<Self>) -> ReadSpan {
        ReadSpan::whole(self.clone())
    }

    /// The whole mapping, for stores too; `None` if it was mapped for reading.
    pub fn write(self: &Arc<Self>) -> Option<WriteSpan> {
        (self.access == Access::ReadWrite).then(|| WriteSpan::whole(self.clone()))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // What a child has at these addresses is something of its own.
        if self.borrowed || !self.of.is_current() {
            return;
        }
        // Before its addresses can be another mapping's.
        (self.guard, self.empty) = (None, None);
        // SAFETY: base and len are those of our own mmap, and the last span is
        // gone: every span holds an Arc of this mapping.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd;
    use std::sync::atomic::{AtomicBool, Ordering::*};

    #[test]
    fn what_is_cut_off_is_private_and_holds_what_it_was_given() {
        let fd = memfd("t", 8192).unwrap();
        let window = Mapping::new(&fd, 0, 8192, Access::ReadWrite).unwrap().write().unwrap();
        window.store(1, 11, Relaxed);
        window.store(2, 22, Relaxed);
        let written = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        let read = Mapping::new(&fd, 0, 4096, Access::Read).unwrap().read();
        for span in [&read, &written.reader()] {
            span.cut_off(|private| private.copy(span, 8, 8).unwrap()).unwrap();
            assert_eq!((span.load(1, Relaxed), span.load(2, Relaxed)), (11, 0));
        }
        written.store(1, 33, Relaxed);
        window.store(2, 44, Relaxed);
        assert_eq!((written.load(1, Relaxed), window.load(1, Relaxed)), (33, 11));
        assert_eq!((read.load(1, Relaxed), read.load(2, Relaxed)), (11, 0));
        // Once more changes nothing but what it holds, and it is unmapped as ever.
        written.cut_off(|_| ()).unwrap();
        assert_eq!(written.load(1, Relaxed), 0);
        let kept = std::cell::Cell::new(None);
        let done = read.cut_off(|private| kept.set(Some(private.clone())));
        assert!(matches!(done, Err(MapError::Shape)), "a span of it would be left in the air");
    }

    #[test]
    fn what_is_borrowed_is_left_as_it_is() {
        let fd = memfd("t", 4096).unwrap();
        let own = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        // SAFETY: `own` outlives it.
        let borrowed = unsafe { Mapping::borrowed(own.as_mut_ptr(), own.len()) }.unwrap();
        borrowed.write().unwrap().store(3, 7, Relaxed);
        drop(borrowed);
        assert_eq!(own.load(3, Relaxed), 7, "mapped still");
        // SAFETY: nothing is there, and nothing is made of it.
        assert!(unsafe { Mapping::borrowed(std::ptr::null_mut(), 8) }.is_none());
    }

    #[test]
    fn threads_that_use_a_mapping_do_not_see_it_go() {
        let fd = memfd("t", 1 << 20).unwrap();
        let window = Mapping::new(&fd, 0, 1 << 20, Access::ReadWrite).unwrap().write().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        for word in (0..window.len() / 8).step_by(512) {
                            window.fetch_add(word, 1, Relaxed);
                        }
                    }
                });
            }
            for _ in 0..500 {
                window.cut_off(|private| private.store(0, 1, Relaxed)).unwrap();
            }
            stop.store(true, Relaxed);
        });
    }
}
