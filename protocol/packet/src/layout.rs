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
    /// Which frames with a note it takes (R-PKT-9): bits of [`takes`](super::takes).
    pub const TAKES: usize = 18;
    /// The position at which it wants to be rung.
    pub const WAKE: usize = 24;

    // The words of direct links (R-LNK-2). The ends of a VM write these on its page:
    /// 1: this party knows direct links.
    pub const KNOWS: usize = 32;
    /// A link's number and the last turn that its sender has made; 0: none.
    pub const OUT: usize = 33;
    pub const ACK: usize = 34;
    /// The link whose memory the sender has; 0: none.
    pub const HAS_OUT: usize = 35;
    /// The last turn that the sender has begun to make.
    pub const MAKING: usize = 36;
    /// A link's number and the last turn that its receiver has made; 0: none.
    pub const IN: usize = 40;
    pub const OPEN: usize = 41;
    /// The link whose memory the receiver has; 0: none.
    pub const HAS_IN: usize = 42;
    /// In a link's memory: how often this end has taken it up.
    pub const STARTS: usize = 44;
    // The manager writes these on the host's page:
    /// The link that the VM is to send over, and the turn that it is to make; 0: none.
    pub const LINK_OUT: usize = 48;
    pub const TURN: usize = 49;
    /// The link that the VM is to receive from; 0: none.
    pub const LINK_IN: usize = 50;
    /// Where the memory of LINK_OUT is ([`LinkPlace`](crate::LinkPlace)), what rings its
    /// receiver (0: nothing), and where the memory of LINK_IN is.
    pub const OUT_PLACE: usize = 51;
    pub const OUT_BELL: usize = 52;
    pub const IN_PLACE: usize = 53;
    // And the switch's driver these:
    /// The link whose turns it sees here, and the last turn that it has seen; 0: none.
    pub const FENCED_LINK: usize = 56;
    pub const FENCED: usize = 57;
}

/// Bits of the word [`header::TAKES`].
pub mod takes {
    /// Frames whose checksum is not complete.
    pub const SUM: u64 = 1;
    /// Frames of TCP over IPv4, and over IPv6, that are to be cut into segments.
    pub const TCP4: u64 = 2;
    pub const TCP6: u64 = 4;
    /// All of them.
    pub const ALL: u64 = SUM | TCP4 | TCP6;
}

/// Words by which the two halves of a switch's driver know of each other. They are in its
/// private memory.
pub mod line {
    /// Of the half at the sender's port: the last frame before the last turn, and that turn.
    pub const STAMP: usize = 0;
    pub const LAST: usize = 1;
    /// How many halves at the sender's port have had this line.
    pub const ROUND: usize = 2;
    /// Of the half at the receiver's port: the last turn that it has passed on.
    pub const PASSED: usize = 0;
    /// Words of either half: a line, so that the two do not meet.
    pub const WORDS: usize = 8;
}

/// Values of the word [`header::STATE`].
pub const DOWN: u64 = 0;
pub const UP: u64 = 1;

/// In [`header::OPEN`]: no turn of this link is made any more. In [`line::PASSED`]: none is told.
pub const NO_MORE: u64 = u64::MAX;

/// In the upper half of a record's head: nothing but the end of the ring.
pub const KIND_SKIP: u64 = 0;
/// A frame.
pub const KIND_FRAME: u64 = 1;
/// Records of direct links (R-LNK-3): what comes after it comes over the link; what comes
/// after it comes through the switch.
pub const KIND_SWITCH: u64 = 2;
pub const KIND_RETURN: u64 = 3;
/// All that was sent before the SWITCH of this epoch, or before its RETURN, is in front.
pub const KIND_END: u64 = 4;
pub const KIND_BEGIN: u64 = 5;
/// Bytes of such a record behind its head: the epoch, and the link's number.
pub const CONTROL_BYTES: u64 = 16;
/// A note, and behind it a frame that it is about.
pub const KIND_NOTED: u64 = 6;
/// Bytes of a note.
pub const NOTE_BYTES: u32 = 16;

/// Bytes of the record of a frame.
pub const fn record(bytes: u32) -> u64 {
    (bytes as u64 + RECORD_HEAD).next_multiple_of(ALIGN)
}
