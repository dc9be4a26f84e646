//! A window's memory, and the guest's side of its control cells.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_ring::{Caller, Server, WindowMemory};
use vfun_window::{Access, Mapping, WriteSpan, memfd};
use vfun_wire::LINE;
use vfun_wire::channel::{HANDED, in_header};
use vfun_wire::control::{
    ANSWER_BODY, Posted, REQUEST_BODY, WORD_ANSWERED, WORD_POSTED, WORD_SESSION, answer_off,
    request_off,
};
use vfun_wire::header::{HEAP_OFF, POSTED_OFF, SESSIONS_OFF};
use vfun_wire::kind::Calls;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::{Heap, Range};

/// Memory that guest, manager and services share: real, so that the real code
/// of all three works on it.
pub struct Memory {
    fd: OwnedFd,
    /// All of it, as a guest has it.
    pub span: WriteSpan,
    /// Its size.
    pub bytes: u64,
    /// Whose it is.
    pub guest: usize,
    /// Whether a hostile guest may have written anything anywhere in it.
    pub scribbled: Cell<bool>,
}

impl Memory {
    pub fn new(guest: usize, bytes: u64) -> Rc<Self> {
        let fd = memfd("sim", bytes).expect("memory");
        let map = Mapping::new(&fd, 0, bytes as usize, Access::ReadWrite).expect("mapped");
        let span = map.write().expect("for writing");
        Rc::new(Memory { fd, span, bytes, guest, scribbled: Cell::new(false) })
    }

    /// Its file, once more.
    pub fn file(&self) -> OwnedFd {
        self.fd.try_clone().expect("a descriptor")
    }

    /// Where its channels may lie.
    pub fn heap(&self) -> Heap {
        Heap { window: 0, from: HEAP_OFF as u64, to: self.bytes }
    }

    /// Its `dataout` and its `datain`, with what they are.
    fn sides(&self, place: &ChannelPlace) -> (Calls, WriteSpan, WriteSpan) {
        let c = Calls::of(place).expect("all are of calls here");
        let side = |off: u64| {
            self.span.part(off as usize, c.side_bytes as usize).expect("inside the window")
        };
        (c, side(c.dataout), side(c.datain))
    }

    pub fn caller(&self, place: &ChannelPlace) -> Caller<WindowMemory> {
        let (c, out, inn) = self.sides(place);
        let mem = WindowMemory::new(out, inn.reader()).expect("two sides as long");
        Caller::new(mem, c.depth, c.cell_bytes)
    }

    pub fn server(&self, place: &ChannelPlace) -> Server<WindowMemory> {
        let (c, out, inn) = self.sides(place);
        let mem = WindowMemory::new(inn, out.reader()).expect("two sides as long");
        Server::new(mem, c.depth, c.cell_bytes)
    }

    /// The first word of those that the host sets to zero which is not, if any.
    /// That its own service, which has served nothing, has handed it on already is no dirt.
    pub fn dirt(&self, place: &ChannelPlace) -> Option<u64> {
        place.ranges().iter().zip(place.wants().iter()).find_map(|(range, want)| {
            let off = range.offset.get();
            let span =
                self.span.part(off as usize, want.zeroed as usize).expect("inside the window");
            (0..want.zeroed as usize / 8)
                .find(|w| match span.reader().load(*w, Ordering::Relaxed) {
                    0 => false,
                    HANDED => *w != in_header::NEXT,
                    _ => true,
                })
                .map(|w| off + w as u64 * 8)
        })
    }

    /// The first word of a buffer that is not zero, if any.
    pub fn dirt_in(&self, range: &Range) -> Option<u64> {
        let span = self.part(range);
        let words = 0..range.bytes.get() as usize / 8;
        let dirty = |w: &usize| span.load(*w, Ordering::Relaxed) != 0;
        words.into_iter().find(dirty).map(|w| range.offset.get() + w as u64 * 8)
    }

    /// Writes all over a buffer, as its app may.
    pub fn soil_buffer(&self, range: &Range, with: u64) {
        let span = self.part(range);
        for word in [0, 100, range.bytes.get() as usize / 8 - 1] {
            span.store(word, with | 1, Ordering::Relaxed);
        }
    }

    fn part(&self, r: &Range) -> WriteSpan {
        self.span.part(r.offset.get() as usize, r.bytes.get() as usize).expect("inside the window")
    }

    /// Writes all over a channel's own side, as an app may.
    pub fn soil(&self, place: &ChannelPlace, with: u64) {
        let (_, side, _) = self.sides(place);
        for word in [1, 9, 64, 511, 512 + 5] {
            side.store(word, with | 1, Ordering::Relaxed);
        }
    }

    pub fn load(&self, word: usize) -> u64 {
        self.span.reader().load(word, Ordering::Acquire)
    }

    pub fn store(&self, word: usize, value: u64) {
        self.span.store(word, value, Ordering::Release);
    }

    /// Posts a request with this sequence number.
    pub fn post(&self, cell: usize, seq: u32, kind: u16, session: u64, body: &[u8]) {
        let at = request_off(cell);
        let len = body.len().min(REQUEST_BODY);
        self.span.write(at + LINE, &body[..len]).expect("inside the cell");
        self.store(at / 8 + WORD_SESSION, session);
        let word = Posted { seq, kind, len: body.len() as u16 }.pack();
        self.store(at / 8 + WORD_POSTED, word);
        self.store(POSTED_OFF / 8, self.load(POSTED_OFF / 8).wrapping_add(1));
    }

    /// The sequence number posted last in a cell.
    pub fn posted(&self, cell: usize) -> u32 {
        Posted::unpack(self.load(request_off(cell) / 8 + WORD_POSTED)).seq
    }

    /// A cell's last answer: its sequence number, kind and body.
    pub fn answered(&self, cell: usize) -> (u32, u16, Vec<u8>) {
        let at = answer_off(cell);
        let word = Posted::unpack(self.load(at / 8 + WORD_ANSWERED));
        let mut body = vec![0; usize::from(word.len).min(ANSWER_BODY)];
        self.span.reader().read(at + LINE, &mut body).expect("inside the cell");
        (word.seq, word.kind, body)
    }

    /// Moves a session line's heartbeat.
    pub fn beat(&self, line: u16, value: u64) {
        self.store((SESSIONS_OFF + usize::from(line) * LINE) / 8, value);
    }
}
