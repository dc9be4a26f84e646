//! What is said of a frame that is not whole: its checksum is to be completed, or it is to be cut into segments.

use crate::layout::{NOTE_BYTES, takes};

/// Bytes of a note that say something: those of `struct virtio_net_hdr` (virtio 1.2, 5.1.6), as the kernel reads
/// and writes them before a frame of a tap device.
pub const NOTE_HEADER: usize = 10;

/// The checksum is to be completed.
const NEEDS_SUM: u8 = 1;
/// The checksum was verified.
const SUM_IS_GOOD: u8 = 2;
/// Kinds of segments: none, and TCP over IPv4 and over IPv6.
const WHOLE: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;

/// The note of a frame.
///
/// | byte | what |
/// |---|---|
/// | 0 | 1: the checksum is to be completed; 2: it was verified |
/// | 1 | segments: 0 none, 1 of TCP over IPv4, 4 of TCP over IPv6 |
/// | 2, 3 | bytes of the headers, which each segment gets |
/// | 4, 5 | bytes of a segment behind them |
/// | 6, 7 | where the checksum begins, from the frame's start |
/// | 8, 9 | where it is stored, from there |
/// | 10 to 15 | zeros |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note([u8; NOTE_HEADER]);

impl Note {
    /// As the kernel has it.
    pub const fn new(header: [u8; NOTE_HEADER]) -> Self {
        Note(header)
    }

    /// For the kernel.
    pub const fn header(&self) -> &[u8; NOTE_HEADER] {
        &self.0
    }

    pub(crate) fn of_bytes(bytes: &[u8; NOTE_BYTES as usize]) -> Self {
        let mut header = [0; NOTE_HEADER];
        header.copy_from_slice(&bytes[..NOTE_HEADER]);
        Note(header)
    }

    pub(crate) fn to_bytes(self) -> [u8; NOTE_BYTES as usize] {
        let mut bytes = [0; NOTE_BYTES as usize];
        bytes[..NOTE_HEADER].copy_from_slice(&self.0);
        bytes
    }

    /// Whether it says nothing: the frame is whole.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; NOTE_HEADER]
    }

    /// What a receiver has to take for it: bits of [`takes`].
    pub const fn asks(&self) -> u64 {
        let sum = if self.0[0] & NEEDS_SUM != 0 { takes::SUM } else { 0 };
        let cut = match self.0[1] {
            WHOLE => 0,
            TCP4 => takes::TCP4,
            TCP6 => takes::TCP6,
            // A bit that no party's TAKES has.
            _ => u64::MAX,
        };
        sum | cut
    }

    /// Whether the frame is to be cut, so that it may be longer than others.
    pub const fn is_cut(&self) -> bool {
        self.0[1] != WHOLE
    }

    /// Bytes of a frame that it is cut into, at least: with the shortest headers that there are.
    pub const fn segment_frame(&self) -> usize {
        let ip = if self.0[1] == TCP6 { 40 } else { 20 };
        let payload = u16::from_le_bytes([self.0[4], self.0[5]]) as usize;
        14 + ip + 20 + payload
    }

    /// Whether it asks for nothing but what is defined. Where its numbers lead is for who uses them.
    pub const fn is_known(&self) -> bool {
        self.0[0] & !(NEEDS_SUM | SUM_IS_GOOD) == 0 && matches!(self.0[1], WHOLE | TCP4 | TCP6)
    }

    /// The same from a party that verifies nothing for others: without that bit.
    pub const fn unverified(mut self) -> Self {
        self.0[0] &= !SUM_IS_GOOD;
        self
    }
}
