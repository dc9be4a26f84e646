//! Where the fake host puts channels and buffers.

use super::{BYTES, CELL, DEPTH, RING_BYTES, ring_of};
use vfun_wire::PAGE;
use vfun_wire::channel::side_bytes;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::message::{BUFFER_PAGES, BufferGet};
use vfun_wire::packets::RING_OFF;
use vfun_wire::range::{Access, Range};

/// There is room for so many channels at a time, each place used in turn.
pub(super) const CHANNELS: u64 = 8;
/// There is room for so many ports.
pub(super) const PORTS: u64 = 4;
/// Where ports begin: behind the buffers of most tests.
const PORTS_OFF: usize = 3 << 20;
/// Where buffers begin.
const BUFFERS_OFF: u64 = 1 << 20;

/// Offsets of the two sides of the `n`th channel.
pub(super) fn channel_at(n: u64) -> (usize, usize) {
    let side = side_bytes(DEPTH, CELL).expect("possible") as usize;
    let dataout = HEAP_OFF + (n % CHANNELS) as usize * 2 * side;
    (dataout, dataout + side)
}

/// Offsets of the two sides of the channel of the `n`th port.
pub(super) fn port_at(n: u64) -> (usize, usize) {
    let n = n % PORTS;
    // The last one is larger.
    let program = PORTS_OFF + n as usize * 2 * (RING_OFF + RING_BYTES as usize);
    (program, program + RING_OFF + ring_of(n) as usize)
}

pub(super) struct Buffer {
    pub handle: u64,
    pub session: u64,
    pub grant: u64,
    /// A table of pages.
    pub pages: bool,
    pub offset: u64,
    bytes: u64,
}

/// Buffers that programs have.
#[derive(Default)]
pub(super) struct Buffers(Vec<Buffer>);

impl Buffers {
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The handle of the one that was given last.
    pub fn last(&self) -> Option<u64> {
        self.0.last().map(|b| b.handle)
    }

    /// The first place where it fits.
    pub fn get(&mut self, handle: u64, session: u64, asked: &BufferGet) -> Option<Range> {
        let bytes = asked.bytes.get().checked_next_multiple_of(PAGE as u64)?.max(PAGE as u64);
        let align = asked.align.get().max(PAGE as u64);
        let mut offset = BUFFERS_OFF;
        self.0.sort_by_key(|b| b.offset);
        for b in &self.0 {
            if offset.checked_add(bytes)? <= b.offset {
                break;
            }
            offset = (b.offset + b.bytes).checked_next_multiple_of(align)?;
        }
        if offset.checked_add(bytes)? > BYTES {
            return None;
        }
        let (grant, pages) = (asked.grant.get(), asked.flags.get() & BUFFER_PAGES != 0);
        self.0.push(Buffer { handle, session, grant, pages, offset, bytes });
        Some(Range::new(0, Access::Both, offset, bytes))
    }

    /// Whether a session has, or had, a table of pages by this name.
    pub fn is_table(&self, session: u64, handle: u64) -> bool {
        self.0.iter().any(|b| b.pages && (b.session, b.handle) == (session, handle))
    }

    /// Frees some; how many they were.
    pub fn end(&mut self, which: impl Fn(&Buffer) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|b| !which(b));
        before - self.0.len()
    }
}
