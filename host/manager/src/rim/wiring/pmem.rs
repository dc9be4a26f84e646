//! Windows that a VMM maps as persistent memory (virtio-pmem, NVDIMM): a file, and no
//! bells.
//!
//! Before the window the file holds the block by which Linux makes a character device
//! of such memory (`/dev/daxN.M`) instead of a disk, by itself: programs map that
//! device as they map a BAR. Its layout is that of `struct nd_pfn_sb` in Linux's
//! drivers/nvdimm/pfn.h; only the guest's kernel reads it.

use super::file::InFile;
use rustix::io::pwrite;
use std::io;
use std::os::fd::BorrowedFd;
use vfun_admin::Transport;

/// The transport `pmem`.
pub(in crate::rim) struct Pmem;

impl InFile for Pmem {
    const TRANSPORT: Transport = Transport::Pmem;

    fn prefix(&self, file: BorrowedFd<'_>, window_bytes: u64) -> io::Result<()> {
        let origin = Self::TRANSPORT.row().origin;
        let block = info_block(origin, window_bytes);
        let written = pwrite(file, &block, INFO_OFF)?;
        match written == block.len() {
            true => Ok(()),
            false => Err(io::Error::other("its first pages were not written whole")),
        }
    }
}

/// Where the block lies in the file.
const INFO_OFF: u64 = 4096;
const INFO_BYTES: usize = 4096;
const SIGNATURE: &[u8; 16] = b"NVDIMM_DAX_INFO\0";
/// Any but zero will do.
const UUID: &[u8; 16] = b"VirtFun window 1";
/// Version of the block: 1.4.
const VERSION: [u16; 2] = [1, 4];
/// Where the guest's kernel keeps its records of the pages: in its own memory.
const RECORDS_IN_RAM: u32 = 1;
/// Programs map single pages.
const ALIGN: u32 = 4096;
/// Size of one of these records in the kernels that wrote this version of the block;
/// read only if they lie beside the pages.
const RECORD_BYTES: u16 = 64;

/// The block for a window at `origin` of its file.
fn info_block(origin: u64, window_bytes: u64) -> [u8; INFO_BYTES] {
    let mut block = [0; INFO_BYTES];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, SIGNATURE);
    put(16, UUID);
    // 32: the UUID of a parent, and 48: flags. None.
    put(52, &VERSION[0].to_le_bytes());
    put(54, &VERSION[1].to_le_bytes());
    put(56, &origin.to_le_bytes());
    put(64, &(window_bytes / u64::from(ALIGN)).to_le_bytes());
    put(72, &RECORDS_IN_RAM.to_le_bytes());
    // 76 and 80: bytes to leave out at both ends. None.
    put(84, &ALIGN.to_le_bytes());
    put(88, &ALIGN.to_le_bytes()); // size of a page
    put(92, &RECORD_BYTES.to_le_bytes());
    let sum = fletcher64(&block);
    block[INFO_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    block
}

/// Fletcher's checksum of 64 bits, over words of 32.
fn fletcher64(bytes: &[u8]) -> u64 {
    let (mut low, mut high) = (0u32, 0u64);
    for word in bytes.chunks_exact(4) {
        low = low.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        high = high.wrapping_add(low.into());
    }
    high << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_the_one_that_linux_takes() {
        let block = info_block(2 << 20, 16 << 20);
        let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().unwrap());
        assert_eq!((word(56), word(64)), (2 << 20, 4096));
        // Taken by Linux 6.1's dax_pmem when it was made by another program.
        assert_eq!(word(4088), SUM);
        let mut bare = block;
        bare[4088..].fill(0);
        assert_eq!(fletcher64(&bare), word(4088));
    }
    const SUM: u64 = 0x9858_84df_01e6_31ee;
}
