//! Completion entries.
//!
//! | byte | what |
//! |---|---|
//! | 0 | the queue's stamp (4) |
//! | 4 | status (1), opcode (1), flags (2) |
//! | 8 | `wr_id` (8) |
//! | 16 | number of the queue pair (4), of the sender of a datagram (4) |
//! | 24 | bytes received, read or changed (4), immediate value (4) |
//! | 32 | position of the entry that completed, its lower half (4) |
//! | 36 | sender's LID (2), zero (26) |

use crate::bytes::{get16, get32, get64, put16, put32, put64};
use crate::limits::ENTRY_BYTES;
use crate::numbers::{CompletionOpcode, Status};
use vfun_queue::Entry;

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub status: Status,
    /// Means nothing unless the status is success, but for a receive's highest bit.
    pub opcode: CompletionOpcode,
    /// [`crate::flags::completion`].
    pub flags: u16,
    pub wr_id: u64,
    /// The queue pair to which the entry was given, or which used it.
    pub qpn: u32,
    /// The sender of a datagram.
    pub src_qp: u32,
    pub byte_len: u32,
    pub imm: u32,
    /// The entry's position in its queue, modulo 2^32: a send's tells that the entries
    /// before it are done as well.
    pub position: u32,
    /// The sender of a datagram.
    pub slid: u16,
}

impl Completion {
    /// As an entry of a completion queue.
    #[inline]
    pub fn entry(&self) -> Entry<ENTRY_BYTES> {
        let mut entry = Entry::default();
        let to = entry.payload_mut();
        to[0] = self.status.to_wire();
        to[1] = self.opcode.to_wire();
        put16(to, 2, self.flags);
        put64(to, 4, self.wr_id);
        put32(to, 12, self.qpn);
        put32(to, 16, self.src_qp);
        put32(to, 20, self.byte_len);
        put32(to, 24, self.imm);
        put32(to, 28, self.position);
        put16(to, 32, self.slid);
        entry
    }

    /// Decodes an entry; `None` if the entry is not a completion.
    #[inline]
    pub fn of(entry: &Entry<ENTRY_BYTES>) -> Option<Self> {
        let from = entry.payload();
        Some(Completion {
            status: Status::from_wire(from[0])?,
            opcode: CompletionOpcode::from_wire(from[1])?,
            flags: get16(from, 2),
            wr_id: get64(from, 4),
            qpn: get32(from, 12),
            src_qp: get32(from, 16),
            byte_len: get32(from, 20),
            imm: get32(from, 24),
            position: get32(from, 28),
            slid: get16(from, 32),
        })
    }
}
