//! Where things are in a side: a header page, and behind it the ring.

/// Where the ring begins, in bytes from the side's start.
pub const RING_OFF: usize = 4096;
/// Records begin at multiples of this.
pub const ALIGN: u64 = 64;
/// Bytes before a frame in its record.
pub const RECORD_HEAD: u64 = 8;

/// How far ahead a receiver asks for memory, in bytes: as many as four small frames have.
pub const AHEAD: u64 = 512;

/// Words of a header page. Those a sender stores with each burst share a line, and so do
/// those of a receiver.
pub mod header {
    /// Bytes of the ring that were filled, since the side was made.
    pub const HEAD: usize = 0;
    /// Frames that were put into it, and their bytes.
    pub const SENT: usize = 1;
    pub const SENT_BYTES: usize = 2;
    /// Frames that had no room in the ring.
    pub const FULL: usize = 3;
    /// Frames that were too long, or empty.
    pub const LONG: usize = 4;
    /// Bytes of the other side's ring that are free again.
    pub const TAIL: usize = 8;
    /// Frames that were taken out of it, and their bytes.
    pub const TAKEN: usize = 9;
    pub const TAKEN_BYTES: usize = 10;
    /// Frames for which there was no place here.
    pub const REFUSED: usize = 11;
    /// How often what came made no sense.
    pub const BAD: usize = 12;
    /// Whether this party is there: one of [`DOWN`](super::DOWN) and [`UP`](super::UP).
    pub const STATE: usize = 16;
    /// Bytes of the longest frame that it takes; 0: it does not say.
    pub const FRAME: usize = 17;
    /// The position at which it wants to be rung.
    pub const WAKE: usize = 24;
}

/// Values of the word [`header::STATE`].
pub const DOWN: u64 = 0;
pub const UP: u64 = 1;

/// In the upper half of a record's head: nothing but the end of the ring.
pub const KIND_SKIP: u64 = 0;
/// A frame.
pub const KIND_FRAME: u64 = 1;

/// Bytes of the record of a frame.
pub const fn record(bytes: u32) -> u64 {
    (bytes as u64 + RECORD_HEAD).next_multiple_of(ALIGN)
}
