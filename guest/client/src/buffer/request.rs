//! What an app asks for when it asks for a buffer.

use crate::error::{Error, Result};
use vfun_wire::PAGE;
use vfun_wire::limits::BUFFER_ALIGN_MAX;
use vfun_wire::message::{BUFFER_CONTIGUOUS, BufferGet};
use zerocopy::little_endian::{U32, U64};

/// What is wanted of a buffer. A number of bytes is one, with the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRequest {
    bytes: usize,
    align: usize,
    contiguous: bool,
}

impl From<usize> for BufferRequest {
    fn from(bytes: usize) -> Self {
        BufferRequest::new(bytes)
    }
}

impl BufferRequest {
    /// A buffer of so many bytes, at least 1. The host rounds them up to pages of 4096.
    pub fn new(bytes: usize) -> Self {
        BufferRequest { bytes, align: PAGE, contiguous: false }
    }
    /// Begins at a multiple of so many bytes of the window: a power of two from 4096 to
    /// 2 MiB (2097152). A page unless said otherwise.
    pub fn align(mut self, bytes: usize) -> Self {
        self.align = bytes;
        self
    }
    /// Lies in one piece in the host's memory too, as a device without an address table of
    /// its own needs it. The host refuses one that is longer than a page of the memory
    /// behind the window: 4 KiB, or 2 MiB where that is of huge pages.
    pub fn contiguous(mut self, contiguous: bool) -> Self {
        self.contiguous = contiguous;
        self
    }

    /// Bytes that the app asked for; the buffer's memory is whole pages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn encode(&self, grant: u64) -> Result<BufferGet> {
        let no = |what: String| Err(Error::BadOption(what));
        if self.bytes == 0 || self.bytes.checked_next_multiple_of(PAGE).is_none() {
            return no(format!("a buffer of {} bytes is not possible", self.bytes));
        }
        let aligned = PAGE..=BUFFER_ALIGN_MAX as usize;
        if !self.align.is_power_of_two() || !aligned.contains(&self.align) {
            return no(format!(
                "a buffer cannot be aligned to {} bytes: a power of two from {PAGE} to {BUFFER_ALIGN_MAX} can be",
                self.align
            ));
        }
        Ok(BufferGet {
            grant: U64::new(grant),
            bytes: U64::new(self.bytes as u64),
            align: U64::new(self.align as u64),
            flags: U32::new(if self.contiguous { BUFFER_CONTIGUOUS } else { 0 }),
            reserved: U32::ZERO,
        })
    }
}
