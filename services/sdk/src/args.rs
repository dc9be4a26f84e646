//! A call's arguments, as a driver reads them.
#![allow(unsafe_code)]

use crate::{DriverError, abi};
use std::marker::PhantomData;

/// The arguments of one call.
///
/// Arguments of more than 48 bytes lie in memory that the caller can change
/// while they are read ([`Args::is_shared`]). So every method copies, and a
/// driver reads each byte **once**: what was checked and is then read again
/// may have changed in between.
pub struct Args<'a> {
    ptr: *const u8,
    len: usize,
    shared: bool,
    life: PhantomData<&'a [u8]>,
}

impl<'a> Args<'a> {
    /// # Safety
    /// `call` is what a service handed to `vfun_driver_function` and `'a` ends
    /// before that function returns.
    #[inline]
    pub(crate) unsafe fn from_call(call: &abi::Call) -> Args<'a> {
        Args {
            ptr: call.args.cast(),
            len: call.args_len as usize,
            shared: call.flags & abi::CALL_SHARED_ARGS != 0,
            life: PhantomData,
        }
    }

    /// Arguments in private memory: for a driver's own tests.
    pub fn private(bytes: &'a [u8]) -> Args<'a> {
        Args { ptr: bytes.as_ptr(), len: bytes.len(), shared: false, life: PhantomData }
    }

    /// How many bytes of arguments the call has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether the caller can change them meanwhile.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    #[inline]
    fn range(&self, off: usize, len: usize) -> Result<*const u8, DriverError> {
        match off.checked_add(len) {
            // SAFETY: off <= off + len <= self.len, so the result is inside the arguments.
            Some(end) if end <= self.len => Ok(unsafe { self.ptr.add(off) }),
            _ => Err(self.short(off, len)),
        }
    }

    #[cold]
    fn short(&self, off: usize, len: usize) -> DriverError {
        DriverError::bad_args(format!("arguments: {} bytes, want {len} at {off}", self.len))
    }

    /// Copies `to.len()` bytes from `off` on. Fails with "bad arguments" where they end earlier.
    #[inline]
    pub fn read_at(&self, off: usize, to: &mut [u8]) -> Result<(), DriverError> {
        let from = self.range(off, to.len())?;
        // SAFETY: `from` has `to.len()` readable bytes for 'a; `to` is private
        // memory and cannot overlap them. Should they change meanwhile, some
        // mix of old and new arrives; bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// `N` bytes from `off` on.
    #[inline]
    pub fn array_at<const N: usize>(&self, off: usize) -> Result<[u8; N], DriverError> {
        let mut bytes = [0; N];
        self.read_at(off, &mut bytes)?;
        Ok(bytes)
    }

    /// The little-endian number at byte `off`.
    #[inline]
    pub fn u32_at(&self, off: usize) -> Result<u32, DriverError> {
        self.array_at(off).map(u32::from_le_bytes)
    }

    /// The little-endian number at byte `off`.
    #[inline]
    pub fn u64_at(&self, off: usize) -> Result<u64, DriverError> {
        self.array_at(off).map(u64::from_le_bytes)
    }

    /// Copies all from `off` to the end through `block`, a piece at a time,
    /// and shows each piece. Every piece but the last fills the block.
    pub fn for_each_chunk(
        &self,
        off: usize,
        block: &mut [u8],
        mut show: impl FnMut(&[u8]) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        assert!(!block.is_empty(), "a block of no bytes holds no arguments");
        self.range(off, 0)?;
        let mut at = off;
        while at < self.len {
            let n = block.len().min(self.len - at);
            self.read_at(at, &mut block[..n])?;
            show(&block[..n])?;
            at += n;
        }
        Ok(())
    }

    /// A private copy of all; refused beyond `most` bytes, so that a caller
    /// cannot make the driver allocate what it likes.
    pub fn to_vec(&self, most: usize) -> Result<Vec<u8>, DriverError> {
        if self.len > most {
            return Err(DriverError::bad_args(format!(
                "arguments: {} bytes, at most {most}",
                self.len
            )));
        }
        let mut bytes = vec![0; self.len];
        self.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Where the arguments lie. Reading through it is the driver's own unsafe
    /// code, and racy where they are shared: once, and volatile or by copy.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_bounded() {
        let bytes: Vec<u8> = (0..100).collect();
        let a = Args::private(&bytes);
        assert_eq!(a.u64_at(0).unwrap(), 0x0706_0504_0302_0100);
        assert_eq!(a.u32_at(96).unwrap(), 0x6362_6160);
        assert_eq!(a.u32_at(97).unwrap_err().code, abi::BAD_ARGS);
        assert!(a.read_at(usize::MAX, &mut [0]).is_err());
        assert!(a.read_at(100, &mut []).is_ok());
        assert_eq!(a.to_vec(100).unwrap(), bytes);
        assert!(a.to_vec(99).is_err());
    }

    #[test]
    fn chunks_cover_all_once() {
        let bytes: Vec<u8> = (0..100).collect();
        let a = Args::private(&bytes);
        for block in [1, 7, 92, 93, 200] {
            let mut seen = Vec::new();
            a.for_each_chunk(8, &mut vec![0; block], |c| {
                seen.extend_from_slice(c);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, bytes[8..]);
        }
        a.for_each_chunk(100, &mut [0], |_| panic!("nothing there")).unwrap();
        assert!(a.for_each_chunk(101, &mut [0], |_| Ok(())).is_err());
    }
}
