//! Send entries.
//!
//! | byte | what |
//! |---|---|
//! | 0 | the queue's stamp (4) |
//! | 4 | opcode (1), flags (1), scatter elements or inline bytes (2) |
//! | 8 | immediate value (4) |
//! | 12 | remote key (4); of a datagram the number of the address handle |
//! | 16 | remote address (8); of a datagram the receiver's QPN (4) and Q_Key (4) |
//! | 24 | `wr_id` (8) |
//! | 32 | two scatter elements, or 32 inline bytes, or an element and two operands |
//!
//! What does not fit stands beside the entry, in its extension.

use crate::bytes::{get16, get32, get64, put16, put32, put64};
use crate::flags::send::{ALL, INLINE};
use crate::limits::{ENTRY_BYTES, EXTENSION_MAX, INLINE_MAX, SGES_MAX};
use crate::numbers::SendOpcode;
use crate::sge::Sge;
use vfun_queue::layout::STAMP_BYTES;

/// Bytes of an entry after its stamp.
pub(crate) const PAYLOAD: usize = ENTRY_BYTES - STAMP_BYTES;
/// Where the elements begin in the payload.
const TAIL: usize = 28;
/// Bytes from there to the line's end.
const TAIL_BYTES: usize = PAYLOAD - TAIL;
/// Elements that lie in the line.
const NEAR: usize = TAIL_BYTES / Sge::BYTES;

/// What every send entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendHead {
    pub op: SendOpcode,
    /// [`crate::flags::send`]; whether it is inline is the body's to say.
    pub flags: u8,
    /// As it came: verbs do not look into it.
    pub imm: u32,
    /// Remote key; of a datagram the number of its address handle.
    pub key: u32,
    /// Remote address; of a datagram [`SendHead::datagram`].
    pub addr: u64,
    pub wr_id: u64,
}

impl SendHead {
    /// `addr` of a datagram to this queue pair with this Q_Key.
    pub const fn datagram(qpn: u32, qkey: u32) -> u64 {
        qpn as u64 | (qkey as u64) << 32
    }

    /// The receiver's number and Q_Key of a datagram.
    pub const fn receiver(&self) -> (u32, u32) {
        (self.addr as u32, (self.addr >> 32) as u32)
    }
}

/// The two numbers of an atomic operation: what is compared (or added), what is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    pub compare_add: u64,
    pub swap: u64,
}

/// The data of an entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub enum SendBody<'a> {
    Gather(&'a [Sge]),
    Inline(&'a [u8]),
    Atomic(Sge, Operands),
}

/// An entry that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEntry {
    /// No such opcode.
    Opcode(u8),
    /// A flag that is not known, or data in an entry that cannot have them.
    Flags(u8),
    /// More elements, or more inline bytes, than its queue was made for.
    Count(u16),
}

impl core::fmt::Display for BadEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadEntry::Opcode(n) => write!(f, "there is no opcode {n}"),
            BadEntry::Flags(n) => write!(f, "the flags {n:#x} are not possible here"),
            BadEntry::Count(n) => write!(f, "{n} elements or inline bytes are too many"),
        }
    }
}
impl std::error::Error for BadEntry {}

/// Writes an entry: its payload, and what stands beside it, of which it says how many bytes
/// are used. `beside` is the whole extension.
///
/// # Errors
/// [`BadEntry`]: the data do not fit the queue.
#[inline]
pub(crate) fn write(
    head: &SendHead,
    body: SendBody<'_>,
    line: &mut [u8],
    beside: &mut [u8],
) -> Result<usize, BadEntry> {
    let (count, inline) = match body {
        SendBody::Gather(list) => (list.len(), 0),
        SendBody::Inline(bytes) => (bytes.len(), INLINE),
        SendBody::Atomic(..) => (1, 0),
    };
    let wire_count = u16::try_from(count).map_err(|_| BadEntry::Count(u16::MAX))?;
    check(head.op, head.flags & !INLINE | inline, wire_count, beside.len())?;
    line[0] = head.op.to_wire();
    line[1] = head.flags & !INLINE | inline;
    put16(line, 2, wire_count);
    put32(line, 4, head.imm);
    put32(line, 8, head.key);
    put64(line, 12, head.addr);
    put64(line, 20, head.wr_id);
    Ok(match body {
        SendBody::Gather(list) => Sge::write_list(list, line, TAIL, beside),
        SendBody::Inline(bytes) => {
            let (near, far) = bytes.split_at(bytes.len().min(TAIL_BYTES));
            line[TAIL..TAIL + near.len()].copy_from_slice(near);
            beside[..far.len()].copy_from_slice(far);
            far.len()
        }
        SendBody::Atomic(sge, operands) => {
            sge.write(line, TAIL);
            put64(line, TAIL + 16, operands.compare_add);
            put64(line, TAIL + 24, operands.swap);
            0
        }
    })
}

/// Bytes that stand beside an entry, if it is possible in a queue with so large an extension.
#[inline]
fn check(op: SendOpcode, flags: u8, count: u16, extension: usize) -> Result<usize, BadEntry> {
    let n = usize::from(count);
    if flags & !ALL != 0 {
        return Err(BadEntry::Flags(flags));
    }
    let (most, far) = match flags & INLINE != 0 {
        true if op == SendOpcode::Read || op.is_atomic() => return Err(BadEntry::Flags(flags)),
        true => (INLINE_MAX, n.saturating_sub(TAIL_BYTES)),
        false if op.is_atomic() => (1, 0),
        false => (SGES_MAX, n.saturating_sub(NEAR) * Sge::BYTES),
    };
    match n <= most && far <= extension {
        true => Ok(far),
        false => Err(BadEntry::Count(count)),
    }
}

/// A send entry in private memory, taken from a queue.
#[derive(Clone, Debug)]
pub struct SendEntry {
    pub head: SendHead,
    count: u16,
    tail: [u8; TAIL_BYTES],
    beside: [u8; EXTENSION_MAX],
}

impl Default for SendEntry {
    fn default() -> Self {
        let head = SendHead { op: SendOpcode::Write, flags: 0, imm: 0, key: 0, addr: 0, wr_id: 0 };
        SendEntry { head, count: 0, tail: [0; TAIL_BYTES], beside: [0; EXTENSION_MAX] }
    }
}

impl SendEntry {
    /// Reads the payload of an entry; `extension` is what its queue has beside each. Says
    /// which bytes of it [`SendEntry::beside_mut`] still lacks. `wr_id` is read in any case.
    ///
    /// # Errors
    /// [`BadEntry`]: it makes no sense.
    #[inline]
    pub(crate) fn read(&mut self, line: &[u8], extension: usize) -> Result<usize, BadEntry> {
        self.head.wr_id = get64(line, 20);
        self.head.flags = line[1];
        self.count = 0;
        let op = SendOpcode::from_wire(line[0]).ok_or(BadEntry::Opcode(line[0]))?;
        self.head.op = op;
        self.head.imm = get32(line, 4);
        self.head.key = get32(line, 8);
        self.head.addr = get64(line, 12);
        let count = get16(line, 2);
        let far = check(op, line[1], count, extension)?;
        self.count = count;
        self.tail.copy_from_slice(&line[TAIL..]);
        Ok(far)
    }

    pub(crate) fn beside_mut(&mut self) -> &mut [u8; EXTENSION_MAX] {
        &mut self.beside
    }

    /// Whether its data stand in it.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.head.flags & INLINE != 0
    }

    /// Scatter elements; 0 of an inline one.
    #[inline]
    pub fn sges(&self) -> usize {
        if self.is_inline() { 0 } else { self.count.into() }
    }

    /// An element; `i` is below [`SendEntry::sges`].
    #[inline]
    pub fn sge(&self, i: usize) -> Sge {
        match i.checked_sub(NEAR) {
            None => Sge::read(&self.tail, i * Sge::BYTES),
            Some(i) => Sge::read(&self.beside, i * Sge::BYTES),
        }
    }

    /// Of an atomic operation.
    #[inline]
    pub fn operands(&self) -> Operands {
        Operands { compare_add: get64(&self.tail, 16), swap: get64(&self.tail, 24) }
    }

    /// Number of inline bytes; 0 if the entry has none.
    #[inline]
    pub fn inline_bytes(&self) -> usize {
        if self.is_inline() { self.count.into() } else { 0 }
    }

    /// Copies its inline bytes to the start of `to`.
    pub fn inline_to(&self, to: &mut [u8; INLINE_MAX]) -> usize {
        let all = self.inline_bytes();
        let near = all.min(TAIL_BYTES);
        to[..near].copy_from_slice(&self.tail[..near]);
        to[near..all].copy_from_slice(&self.beside[..all - near]);
        all
    }

    /// Bytes of all its data.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self.is_inline() {
            true => self.count.into(),
            false => (0..self.count.into()).map(|i| u64::from(self.sge(i).len)).sum(),
        }
    }
}
