//! Scatter elements: where data lie.

use crate::bytes::{get32, get64, put64};

/// One part of an entry's memory: 16 bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address in the program, or from zero on where its region is so.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// Key of the region.
    pub lkey: u32,
}

impl Sge {
    /// Bytes of one on the wire.
    pub const BYTES: usize = 16;

    #[inline(always)]
    pub(crate) fn read(bytes: &[u8], at: usize) -> Self {
        Sge { addr: get64(bytes, at), len: get32(bytes, at + 8), lkey: get32(bytes, at + 12) }
    }

    #[inline(always)]
    pub(crate) fn write(self, bytes: &mut [u8], at: usize) {
        put64(bytes, at, self.addr);
        // One store, as it is loaded later: a processor waits for words that were stored in parts.
        put64(bytes, at + 8, u64::from(self.len) | u64::from(self.lkey) << 32);
    }

    /// Reads a list whose first elements lie in the line at `at`, the others in `beside`.
    /// `to` is as long as the list.
    #[inline]
    pub(crate) fn read_list(line: &[u8], at: usize, beside: &[u8], to: &mut [Sge]) {
        let near = (line.len() - at) / Sge::BYTES;
        for (i, sge) in to.iter_mut().enumerate() {
            *sge = match i.checked_sub(near) {
                None => Sge::read(line, at + i * Sge::BYTES),
                Some(i) => Sge::read(beside, i * Sge::BYTES),
            };
        }
    }

    /// The other way round; says how many bytes of `beside` are used.
    #[inline]
    pub(crate) fn write_list(list: &[Sge], line: &mut [u8], at: usize, beside: &mut [u8]) -> usize {
        let near = (line.len() - at) / Sge::BYTES;
        for (i, sge) in list.iter().enumerate() {
            match i.checked_sub(near) {
                None => sge.write(line, at + i * Sge::BYTES),
                Some(i) => sge.write(beside, i * Sge::BYTES),
            }
        }
        list.len().saturating_sub(near) * Sge::BYTES
    }
}
