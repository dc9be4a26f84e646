//! The fake host's window: its header, its control cells, its channels' pages.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use vfun_window::{Access, Bell, Mapping, WriteSpan, memfd};
use vfun_wire::channel::{Word0, in_header, line_off};
use vfun_wire::control::{
    ANSWER_ACK, ANSWER_BODY, ANSWER_NACK, Posted, REQUEST_BODY, WORD_ANSWERED, WORD_GENERATION,
    WORD_POSTED, WORD_SESSION, answer_off, request_off,
};
use vfun_wire::header::{
    ANSWERS_OFF, HEAP_OFF, HOST_STATE_OFF, PORTS_OFF, PortEntry, REQUESTS_OFF, Role, SESSIONS_OFF,
    WINDOWS_OFF, WindowEntry, WindowHeader,
};
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS, VECTORS};
use vfun_wire::version::Features;
use vfun_wire::{LINE, Nack};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Size of the windows here.
pub const BYTES: u64 = 8 << 20;
/// The word of the header's state, and its value: serving.
const SERVING: u64 = 1;

/// A request, copied.
pub(super) struct Request {
    pub cell: usize,
    pub seq: u32,
    pub session: u64,
    pub kind: u16,
    pub body: Vec<u8>,
}

/// Memory and doorbells of one device.
pub(super) struct Memory {
    pub all: WriteSpan,
    pub to_host: Vec<Bell>,
    pub to_app: Vec<Bell>,
    /// Written by [`Memory::lay_out`], with the generation that is in force.
    header: WindowHeader,
}

/// A control window's header.
pub(super) fn control() -> WindowHeader {
    let name = vfun_wire::names::encode("vm1").expect("a name");
    WindowHeader::new(BYTES, 1, Features(Features::OFFERED.0 | Features::BUFFERS.0), 1, name)
}

/// A further window's header.
pub(super) fn further(role: Role, key: [u64; 2]) -> WindowHeader {
    WindowHeader::further(role, BYTES, 1, key)
}

impl Memory {
    pub fn new(header: WindowHeader) -> (Self, OwnedFd) {
        let fd = memfd("fake", BYTES).expect("memory");
        let map = Mapping::new(&fd, 0, BYTES as usize, Access::ReadWrite).expect("memory");
        let bells = || (0..VECTORS).map(|_| Bell::new().expect("an eventfd")).collect();
        let all = map.write().expect("for writing");
        let memory = Memory { all, to_host: bells(), to_app: bells(), header };
        memory.lay_out(header.generation.get());
        (memory, fd)
    }

    pub fn load(&self, off: usize) -> u64 {
        self.all.reader().load(off / 8, Ordering::Acquire)
    }

    pub fn store(&self, off: usize, value: u64) {
        self.all.store(off / 8, value, Ordering::Release);
    }

    /// Lays the window out: nothing of before stands, the magic comes last.
    pub fn lay_out(&self, generation: u64) {
        self.store(0, 0);
        if self.header.role.get() == Role::Control.to_wire() {
            let part = |from, to: usize| self.all.part(from, to - from).expect("inside");
            part(REQUESTS_OFF, ANSWERS_OFF).zero();
            part(ANSWERS_OFF, HEAP_OFF).zero();
        }
        self.write_header(generation);
    }

    /// The header as it should be.
    pub fn write_header(&self, generation: u64) {
        let mut header = self.header;
        header.generation.set(generation);
        let bytes = header.as_bytes();
        self.all.write(8, &bytes[8..]).expect("inside");
        self.store(HOST_STATE_OFF, SERVING);
        self.store(0, header.magic.get());
    }

    /// The entry of a further window in this control window's table; none without number.
    pub fn write_entry(&self, place: usize, index: u16, of: &WindowHeader) {
        let at = WINDOWS_OFF + place * size_of::<WindowEntry>();
        self.store(at, 0);
        let entry = WindowEntry {
            index: U16::new(index),
            role: of.role,
            reserved: U32::ZERO,
            bytes: U64::new(BYTES),
            key: of.key,
        };
        let bytes = entry.as_bytes();
        self.all.write(at + 8, &bytes[8..]).expect("inside");
        self.store(at, u64::from_le_bytes(bytes[..8].try_into().expect("eight")));
        self.to_app[0].ring();
    }

    /// An entry of the table of ports.
    pub fn write_port(&self, place: usize, entry: &PortEntry) {
        let at = PORTS_OFF + place * size_of::<PortEntry>();
        self.store(at, 0);
        self.all.write(at + 8, &entry.as_bytes()[8..]).expect("inside");
        self.store(at, entry.id.get());
        self.to_app[0].ring();
    }

    /// The header that it is laid out with.
    pub fn header(&self) -> &WindowHeader {
        &self.header
    }

    /// What is posted and not answered. Further windows have no cells.
    pub fn requests(&self) -> Vec<Request> {
        let is_control = self.header.role.get() == Role::Control.to_wire();
        let cells = if is_control { CONTROL_CELLS } else { 0 };
        (0..cells).filter_map(|cell| self.request(cell)).collect()
    }

    fn request(&self, cell: usize) -> Option<Request> {
        let at = request_off(cell);
        let posted = Posted::unpack(self.load(at + 8 * WORD_POSTED));
        let answered = Posted::unpack(self.load(answer_off(cell) + 8 * WORD_ANSWERED));
        if posted.seq == answered.seq {
            return None;
        }
        let mut body = vec![0; usize::from(posted.len).min(REQUEST_BODY)];
        self.all.reader().read(at + LINE, &mut body).expect("inside");
        let session = self.load(at + 8 * WORD_SESSION);
        Some(Request { cell, seq: posted.seq, session, kind: posted.kind, body })
    }

    pub fn answer(&self, r: &Request, generation: u64, answer: &Result<Vec<u8>, Nack>) {
        let (kind, body) = match answer {
            Ok(body) => (ANSWER_ACK, body.clone()),
            Err(nack) => (ANSWER_NACK, nack.encode().as_bytes().to_vec()),
        };
        assert!(body.len() <= ANSWER_BODY);
        let posted = Posted { seq: r.seq, kind, len: body.len() as u16 };
        self.answer_raw(r.cell, generation, &body, posted);
    }

    pub fn answer_raw(&self, cell: usize, generation: u64, body: &[u8], posted: Posted) {
        let at = answer_off(cell);
        self.all.write(at + LINE, body).expect("inside");
        self.store(at + 8 * WORD_GENERATION, generation);
        self.store(at + 8 * WORD_ANSWERED, posted.pack());
        self.to_app[0].ring();
    }

    /// The words of the session heartbeats, added up.
    pub fn heartbeats(&self) -> u64 {
        (0..SESSIONS).map(|i| self.load(SESSIONS_OFF + i * LINE)).fold(0, u64::wrapping_add)
    }

    /// How many words of the window have this value.
    pub fn count(&self, value: u64) -> usize {
        (0..BYTES as usize / 8).filter(|&i| self.load(8 * i) == value).count()
    }
}

/// A channel of calls.
pub(super) struct Channel {
    pub grant: u64,
    pub session: u64,
    pub dataout: usize,
    pub datain: usize,
    last: u32,
    calls: u64,
}

impl Channel {
    /// One whose pages are zero.
    pub fn new(grant: u64, session: u64, (dataout, datain): (usize, usize)) -> Self {
        Channel { grant, session, dataout, datain, last: 0, calls: 0 }
    }

    /// Answers what stands in the first cell; true: something did.
    pub fn serve(&mut self, memory: &Memory) -> bool {
        let asked = Word0::unpack(memory.load(self.dataout + line_off(0)));
        if asked.seq == self.last {
            return false;
        }
        self.last = asked.seq;
        self.calls += 1;
        let done = Word0 { seq: asked.seq, op: 2, flags: 0, reserved: 0 };
        memory.store(self.datain + line_off(0) + 8, 0);
        memory.store(self.datain + line_off(0), done.pack());
        memory.store(self.datain + 8 * in_header::CALLS, self.calls);
        memory.store(self.datain + 8 * in_header::NEWS, self.calls);
        true
    }
}
