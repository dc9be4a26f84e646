//! Memory that an app and its driver both write, as a driver reaches it.
#![allow(unsafe_code)]

use crate::{DriverError, abi};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// What keeps the buffers of a call where they are.
pub(crate) type Pins = Arc<dyn Any + Send + Sync>;

/// Why a call is not lent a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferRefused {
    /// Its app has none with this handle.
    Unknown,
    /// It is not mapped here, or its memory is gone.
    #[cfg_attr(not(feature = "service"), allow(dead_code))]
    Unmapped,
}

/// Where a channel's calls find buffers.
pub(crate) trait LendBuffers: Send + Sync {
    /// Where a buffer lies, and its bytes, for the call under way; none of another app's.
    fn lend(&self, handle: u64) -> Result<(*mut u8, usize), BufferRefused>;
    /// The same for a table of pages.
    fn lend_pages(&self, _: u64) -> Result<abi::PagesPlace, BufferRefused> {
        Err(BufferRefused::Unknown)
    }
    /// Keeps what the call under way was lent, and what it will be lent.
    fn pins(&self) -> Option<Pins>;
}

/// Where there are none.
impl LendBuffers for () {
    fn lend(&self, _: u64) -> Result<(*mut u8, usize), BufferRefused> {
        Err(BufferRefused::Unknown)
    }
    fn pins(&self) -> Option<Pins> {
        None
    }
}

/// A buffer of the app that makes the call: memory that app and driver both write, at
/// any moment. It may change between any two reads, so every method copies: read each
/// byte **once**, check the copy, use the copy.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    ptr: *mut u8,
    len: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> Buffer<'a> {
    /// # Safety
    /// There are `len` bytes of shared memory at `ptr`, for reading and writing, while
    /// `'a` lasts. No reference to them exists.
    pub(crate) unsafe fn from_raw(ptr: *mut u8, len: usize) -> Buffer<'a> {
        Buffer { ptr, len, life: PhantomData }
    }

    /// Bytes of it: whole pages.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Never: it has a page at least.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn range(&self, off: usize, len: usize) -> Result<*mut u8, DriverError> {
        match off.checked_add(len) {
            // SAFETY: off <= off + len <= self.len, so the result is inside the buffer.
            Some(end) if end <= self.len => Ok(unsafe { self.ptr.add(off) }),
            _ => Err(DriverError::bad_args(format!(
                "the buffer has {} bytes, not {len} at {off}",
                self.len
            ))),
        }
    }

    /// Copies `to.len()` bytes from `off` on. Fails with "bad arguments" where it ends earlier.
    pub fn read_at(&self, off: usize, to: &mut [u8]) -> Result<(), DriverError> {
        let from = self.range(off, to.len())?;
        // SAFETY: `from` has `to.len()` bytes for 'a; `to` is private memory and cannot
        // overlap them. Should they change meanwhile, some mix of old and new arrives;
        // bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Writes `bytes` at `off`. Fails as [`Buffer::read_at`]; then nothing is written.
    pub fn write_at(&self, off: usize, bytes: &[u8]) -> Result<(), DriverError> {
        let to = self.range(off, bytes.len())?;
        // SAFETY: `to` has `bytes.len()` writable bytes for 'a; `bytes` is private memory
        // and cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies `len` bytes from `off` on through `block`, a piece at a time, and shows each
    /// piece. Every piece but the last fills the block.
    pub fn for_each_chunk(
        &self,
        off: usize,
        len: usize,
        block: &mut [u8],
        mut show: impl FnMut(&[u8]) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        assert!(!block.is_empty(), "a block of no bytes holds nothing");
        self.range(off, len)?;
        let mut done = 0;
        while done < len {
            let n = block.len().min(len - done);
            self.read_at(off + done, &mut block[..n])?;
            show(&block[..n])?;
            done += n;
        }
        Ok(())
    }

    /// Where it lies, for a device or a driver's own unsafe code. The memory changes under
    /// whoever reads it: no reference to it may be made. Good until the call is answered.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.ptr
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    #[test]
    fn reads_and_writes_are_bounded() {
        let mut bytes: Vec<u8> = (0..100).collect();
        // SAFETY: they live until the end of this test, and nobody else uses them.
        let b = unsafe { Buffer::from_raw(bytes.as_mut_ptr(), bytes.len()) };
        let mut got = [0; 4];
        b.read_at(96, &mut got).unwrap();
        assert_eq!(got, [96, 97, 98, 99]);
        assert_eq!(b.read_at(97, &mut got).unwrap_err().code, abi::BAD_ARGS);
        assert!(b.read_at(usize::MAX, &mut got).is_err() && b.write_at(usize::MAX, &[1]).is_err());
        assert!(b.write_at(100, &[1]).is_err() && b.write_at(100, &[]).is_ok());
        b.write_at(98, b"xy").unwrap();
        let mut seen = vec![];
        b.for_each_chunk(95, 5, &mut [0; 2], |piece| {
            seen.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [95, 96, 97, b'x', b'y']);
        assert!(b.for_each_chunk(95, 6, &mut [0], |_| panic!("nothing is shown")).is_err());
    }
}
