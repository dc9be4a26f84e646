//! Messages of OpenFlow as pieces of a stream of bytes.

use crate::limits::OPENFLOW_BYTES_MAX;

/// Bytes of a message's header.
pub const HEADER: usize = 8;

/// A length that no message has: the stream is no OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength {
    /// What the message says of itself.
    pub length: usize,
    pub kind: u8,
}

/// Bytes of a connection, of which whole messages are taken.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// Adds bytes as they were received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The header of the next message, once it is there.
    pub fn header(&self) -> Option<&[u8; HEADER]> {
        self.bytes[self.at..].first_chunk()
    }

    /// Takes the next message, if it is whole.
    ///
    /// # Errors
    /// It cannot be as long as it says.
    pub fn take(&mut self) -> Result<Option<&[u8]>, BadLength> {
        let Some(header) = self.header() else { return Ok(None) };
        let (length, kind) = (usize::from(u16::from_be_bytes([header[2], header[3]])), header[1]);
        const { assert!(u16::MAX as usize <= OPENFLOW_BYTES_MAX) };
        if length < HEADER {
            return Err(BadLength { length, kind });
        }
        let whole = self.at..self.at + length;
        if self.bytes.len() < whole.end {
            return Ok(None);
        }
        self.at = whole.end;
        Ok(Some(&self.bytes[whole]))
    }
}
