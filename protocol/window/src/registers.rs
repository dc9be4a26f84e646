//! Registers of a device, such as the doorbell of an ivshmem device or an FPGA's.

use crate::mapping::{Access, MapError, Mapping};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

const PAGE: usize = 4096;

/// A device's registers: 32-bit words, each read and written whole and in
/// order. May be used by any number of threads at once.
pub struct Registers {
    map: Arc<Mapping>,
    /// Where the registers begin in their page.
    from: usize,
    len: usize,
}

impl Registers {
    /// Maps the registers behind `fd`: `len` bytes that begin at byte `from` of
    /// its first page (a BAR smaller than a page may begin inside one), and end
    /// in it.
    pub fn new(fd: impl AsFd, from: usize, len: usize) -> Result<Self, MapError> {
        let inside = from.checked_add(len).is_some_and(|end| end <= PAGE);
        if !inside || len == 0 || !from.is_multiple_of(4) {
            return Err(MapError::Shape);
        }
        // A BAR file says how many bytes it has (256), yet is mapped by whole pages.
        Ok(Registers { map: Mapping::of_device(fd, 0, PAGE, Access::ReadWrite)?, from, len })
    }

    /// Maps the registers in the page that begins at byte `offset` of `fd`'s
    /// file: `len` bytes from that page's start, within it. A regular file (one
    /// that stands in for a device) is checked to have that page.
    pub fn page(fd: impl AsFd, offset: u64, len: usize) -> Result<Self, MapError> {
        if len == 0 || len > PAGE {
            return Err(MapError::Shape);
        }
        Ok(Registers { map: Mapping::new(fd, offset, PAGE, Access::ReadWrite)?, from: 0, len })
    }

    /// Reads the register at byte `off`. Panics if there is no such register.
    #[inline]
    pub fn load32(&self, off: usize) -> u32 {
        assert!(off.is_multiple_of(4) && off + 4 <= self.len, "no such register");
        let base = self.map.base().as_ptr();
        // SAFETY: from + off + 4 <= from + len <= a page, which is mapped for
        // reading as long as `map` lives; 4-aligned, as both offsets are. A
        // register is nobody's memory: the load cannot race with a reference.
        let value = unsafe { base.add(self.from + off).cast::<u32>().read_volatile() };
        // Where the register is memory, what its other side stored before is seen after.
        fence(Ordering::Acquire);
        u32::from_le(value)
    }

    /// Writes the register at byte `off`. All that this thread stored before is
    /// there for the device's other side to see first. Panics if there is no
    /// such register: offsets are this side's own, never a peer's.
    #[inline]
    pub fn store32(&self, off: usize, value: u32) {
        assert!(off.is_multiple_of(4) && off + 4 <= self.len, "no such register");
        fence(Ordering::SeqCst);
        let base = self.map.base().as_ptr();
        // SAFETY: from + off + 4 <= from + len <= a page, which is mapped for
        // writing as long as `map` lives; 4-aligned, as both offsets are. A
        // register is nobody's memory: the store cannot race with a reference.
        unsafe { base.add(self.from + off).cast::<u32>().write_volatile(value.to_le()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_where_they_belong() {
        let fd = crate::memfd("registers", 4096).unwrap();
        let seen = Mapping::new(&fd, 0, 4096, Access::Read).unwrap().read();
        let registers = Registers::new(&fd, 256, 256).unwrap();
        registers.store32(12, 0x0003_0007);
        let mut bytes = [0; 12];
        seen.read(256 + 8, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 7, 0, 3, 0, 0, 0, 0, 0]);
        for (from, len) in [(0, 0), (2, 4), (4000, 256), (usize::MAX, 2)] {
            assert!(matches!(Registers::new(&fd, from, len), Err(MapError::Shape)));
        }
    }

    #[test]
    fn a_page_of_registers_is_read_back() {
        let fd = crate::memfd("registers", 8192).unwrap();
        let registers = Registers::page(&fd, 4096, 4096).unwrap();
        registers.store32(4092, 0x0102_0304);
        assert_eq!((registers.load32(4092), registers.load32(4088)), (0x0102_0304, 0));
        assert_eq!(Registers::page(&fd, 0, 4096).unwrap().load32(4092), 0);
        assert!(matches!(Registers::page(&fd, 8192, 4096), Err(MapError::Beyond { .. })));
        assert!(matches!(Registers::page(&fd, 4, 16), Err(MapError::Shape)));
        assert!(matches!(Registers::page(&fd, 0, 4097), Err(MapError::Shape)));
    }

    #[test]
    #[should_panic(expected = "no such register")]
    fn a_register_beyond_the_end_is_refused() {
        let fd = crate::memfd("registers", 4096).unwrap();
        Registers::new(&fd, 0, 16).unwrap().store32(16, 1);
    }
}
