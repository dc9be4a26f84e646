//! A window's memory, and the guest's side of its control cells.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_ring::{Caller, Server, WindowMemory};
use vfun_window::{Access, Mapping, WriteSpan, memfd};
use vfun_wire::LINE;
use vfun_wire::channel::{Geometry, HANDED, in_header, spaces_off};
use vfun_wire::control::{
    ANSWER_BODY, Posted, REQUEST_BODY, WORD_ANSWERED, WORD_POSTED, WORD_SESSION, answer_off,
    request_off,
};
use vfun_wire::header::{POSTED_OFF, SESSIONS_OFF};

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

    fn side(&self, off: u64, g: &Geometry) -> WriteSpan {
        self.span.part(off as usize, g.side_bytes.get() as usize).expect("inside the window")
    }

    pub fn caller(&self, g: &Geometry) -> Caller<WindowMemory> {
        let (out, inn) =
            (self.side(g.dataout_off.get(), g), self.side(g.datain_off.get(), g).reader());
        let mem = WindowMemory::new(out, inn).expect("two sides as long");
        Caller::new(mem, g.depth.get(), g.cell_bytes.get())
    }

    pub fn server(&self, g: &Geometry) -> Server<WindowMemory> {
        let (out, inn) =
            (self.side(g.dataout_off.get(), g).reader(), self.side(g.datain_off.get(), g));
        let mem = WindowMemory::new(inn, out).expect("two sides as long");
        Server::new(mem, g.depth.get(), g.cell_bytes.get())
    }

    /// The first word of a channel's headers and lines that is not zero, if any.
    /// That its own service, which has served nothing, has handed it on already is no dirt.
    pub fn dirt(&self, g: &Geometry) -> Option<u64> {
        let words = spaces_off(g.depth.get()) / 8;
        [g.dataout_off.get(), g.datain_off.get()].into_iter().find_map(|off| {
            let side = self.side(off, g);
            (0..words)
                .find(|w| match side.reader().load(*w, Ordering::Relaxed) {
                    0 => false,
                    HANDED => *w != in_header::NEXT,
                    _ => true,
                })
                .map(|w| off + w as u64 * 8)
        })
    }

    /// Writes all over a channel's own side, as an app may.
    pub fn soil(&self, g: &Geometry, with: u64) {
        let side = self.side(g.dataout_off.get(), g);
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
