//! Where a driver puts a call's results.
#![allow(unsafe_code)]

use crate::{Args, DriverError, abi};
use std::marker::PhantomData;

/// The results of one call: a private buffer, or the cell's data space in
/// place. Write-only: what was written may not be there when read back.
pub struct Out<'a> {
    ptr: *mut u8,
    capacity: usize,
    len: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Out<'a> {
    /// # Safety
    /// `call` is what a service handed to `vfun_driver_function` and `'a` ends
    /// before that function returns.
    #[inline]
    pub(crate) unsafe fn from_call(call: &abi::Call) -> Out<'a> {
        let (ptr, capacity) = (call.out.cast(), call.out_capacity as usize);
        Out { ptr, capacity, len: 0, life: PhantomData }
    }

    /// Results in private memory: for a driver's own tests.
    pub fn private(bytes: &'a mut [u8]) -> Out<'a> {
        Out { ptr: bytes.as_mut_ptr(), capacity: bytes.len(), len: 0, life: PhantomData }
    }

    /// Most bytes that fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Bytes of results so far: the end of what was written or set.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no results so far.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn range(&self, off: usize, len: usize) -> Result<*mut u8, DriverError> {
        match off.checked_add(len) {
            // SAFETY: off <= off + len <= capacity, so the result is inside the room.
            Some(end) if end <= self.capacity => Ok(unsafe { self.ptr.add(off) }),
            _ => Err(DriverError::too_large(off.saturating_add(len), self.capacity)),
        }
    }

    /// Writes `bytes` at `off`; the results reach at least that far.
    #[inline]
    pub fn write_at(&mut self, off: usize, bytes: &[u8]) -> Result<(), DriverError> {
        let to = self.range(off, bytes.len())?;
        // SAFETY: `to` has `bytes.len()` writable bytes for 'a; `bytes` is
        // private memory and cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.len = self.len.max(off + bytes.len());
        Ok(())
    }

    /// Makes `bytes` the results.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        self.len = 0;
        self.write_at(0, bytes)
    }

    /// Makes one little-endian number the results.
    #[inline]
    pub fn put_u64(&mut self, value: u64) -> Result<(), DriverError> {
        self.put(&value.to_le_bytes())
    }

    /// Makes the arguments the results, with one copy.
    #[inline]
    pub fn put_args(&mut self, args: &Args<'_>) -> Result<(), DriverError> {
        let to = self.range(0, args.len())?;
        // SAFETY: both are valid for `args.len()` bytes; the pages of
        // arguments and those of results are never the same.
        unsafe { std::ptr::copy_nonoverlapping(args.as_ptr(), to, args.len()) };
        self.len = args.len();
        Ok(())
    }

    /// Says how many bytes were written through [`Out::as_mut_ptr`].
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), DriverError> {
        self.range(0, len)?;
        self.len = len;
        Ok(())
    }

    /// Where the results go, for a driver's own unsafe code (a C library that
    /// fills a buffer). Tell [`Out::set_len`] afterwards.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_bounded_and_counted() {
        let mut room = [0; 16];
        let mut o = Out::private(&mut room);
        o.write_at(4, b"abcd").unwrap();
        assert_eq!(o.len(), 8);
        o.put_u64(5).unwrap();
        assert_eq!((o.len(), o.capacity()), (8, 16));
        assert_eq!(o.put(&[0; 17]).unwrap_err().code, abi::RESULT_TOO_LARGE);
        assert!(o.write_at(usize::MAX, &[1]).is_err());
        assert!(o.set_len(17).is_err());
        o.put_args(&Args::private(b"xyz")).unwrap();
        assert_eq!(o.len(), 3);
        assert!(o.put_args(&Args::private(&[0; 17])).is_err());
        assert_eq!(&room[..8], b"xyz\0\0\0\0\0");
    }
}
