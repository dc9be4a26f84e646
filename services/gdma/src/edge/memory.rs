//! The memory of a node's pool.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

/// Memory that programs, engines and virtual machines read and write at the
/// same time: it is never seen as a slice.
pub struct PoolMemory {
    base: NonNull<u8>,
    bytes: u64,
    /// Whether it is our mapping, or memory of the program's.
    ours: bool,
}

// SAFETY: all accesses are by atomics, here and in the shim.
unsafe impl Send for PoolMemory {}
// SAFETY: as above.
unsafe impl Sync for PoolMemory {}

/// The part is not within the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfPool;

impl PoolMemory {
    /// New memory of zeros. The system gives pages when they are touched.
    pub fn new(bytes: u64) -> std::io::Result<Self> {
        let len = usize::try_from(bytes).map_err(std::io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| std::io::Error::other("no address"))?;
        Ok(PoolMemory { base, bytes, ours: true })
    }

    /// Memory that the program has.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `base` on can be read and written as long as the
    /// value is there, and nobody holds references to them.
    pub unsafe fn of_program(base: NonNull<u8>, bytes: u64) -> Self {
        PoolMemory { base, bytes, ours: false }
    }

    /// Where it begins: aligned to pages.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A byte of it, for who looks at single ones.
    fn byte(&self, offset: u64) -> Result<&AtomicU8, OutOfPool> {
        if offset >= self.bytes {
            return Err(OutOfPool);
        }
        // SAFETY: within the memory, which is there as long as `self`.
        Ok(unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset as usize)) })
    }

    /// Copies out of it.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), OutOfPool> {
        for (byte, at) in to.iter_mut().zip(offset..) {
            *byte = self.byte(at)?.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies into it.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), OutOfPool> {
        for (byte, at) in from.iter().zip(offset..) {
            self.byte(at)?.store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: our own mapping, and nobody uses it any more. It was
            // mapped with this length, so it fits.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes as usize) };
        }
    }
}
