//! The protocol by hand: requests and calls without the library, so that each
//! step can be left half done, repeated, or done wrong.

use crate::window::Window;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_wire::LINE;
use vfun_wire::channel::{FLAG_DATA, Word0, Word1, line_off, spaces_off};
use vfun_wire::control::{self, Posted, WORD_ANSWERED, WORD_CLAIM, WORD_POSTED, WORD_SESSION};
use vfun_wire::header::SESSIONS_OFF;
use vfun_wire::kind::{Calls, CallsShape};
use vfun_wire::limits::*;
use vfun_wire::message::{Hello, HelloAck, Kind, Negotiate};
use vfun_wire::place::ChannelPlace;
use vfun_wire::version::VERSION;
use vfun_wire::{Nack, names};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// How long an attacker waits for an answer before it goes on without: its own
/// scribbling may have spoiled it.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// Posts a request and does not wait: its sequence number.
pub fn post(w: &Window, cell: usize, kind: u16, session: u64, body: &[u8]) -> u32 {
    let seq = w.seqs[cell].fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    post_as(w, cell, Posted { seq, kind, len: body.len() as u16 }, session, body);
    seq
}

/// The same with any posted word.
pub fn post_as(w: &Window, cell: usize, posted: Posted, session: u64, body: &[u8]) {
    let at = control::request_off(cell) / 8;
    let room = body.len().min(control::REQUEST_BODY);
    w.span.write(control::request_off(cell) + LINE, &body[..room]).expect("inside the window");
    w.span.store(at + WORD_CLAIM, 0xbad, Ordering::Relaxed);
    w.span.store(at + WORD_SESSION, session, Ordering::Relaxed);
    w.span.store(at + WORD_POSTED, posted.pack(), Ordering::Release);
    w.posted();
}

/// The answer to it, if it came.
pub fn answer(w: &Window, cell: usize, seq: u32) -> Option<Result<Vec<u8>, Nack>> {
    let at = control::answer_off(cell);
    let got = Posted::unpack(w.span.load(at / 8 + WORD_ANSWERED, Ordering::Acquire));
    if got.seq != seq {
        return None;
    }
    let mut bytes = vec![0; usize::from(got.len).min(control::ANSWER_BODY)];
    w.span.read(at + LINE, &mut bytes).expect("inside the window");
    Some(if got.kind == control::ANSWER_ACK { Ok(bytes) } else { Err(Nack::decode(&bytes)) })
}

/// Asks and waits for a while. `None`: no answer, or none that makes sense.
pub fn ask(
    w: &Window,
    cell: usize,
    kind: Kind,
    session: u64,
    body: &[u8],
) -> Option<Result<Vec<u8>, Nack>> {
    let seq = post(w, cell, kind.to_wire(), session, body);
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = answer(w, cell, seq) {
            return Some(answer);
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// The body of a hello.
pub fn hello_body(app: &str) -> Hello {
    let mut h = Hello::new_zeroed();
    (h.version_min, h.version_max) = (U16::new(VERSION), U16::new(VERSION));
    h.pid = U32::new(std::process::id());
    h.app = names::encode(app).expect("a name");
    h
}

/// A session.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// Its handle.
    pub session: u64,
    /// Its line among the heartbeats.
    pub line: u16,
    /// The control cell it asks by.
    pub cell: usize,
}

/// The body of a negotiation.
pub fn negotiate_body(function: &str, depth: u16, cell_bytes: u32) -> Negotiate {
    let mut n = Negotiate::new_zeroed();
    n.function = names::encode(function).expect("a name");
    n.kind = U16::new(1);
    n.shape = CallsShape::new(depth, cell_bytes).shape();
    n
}

/// What an attacker gets, or why it does not.
pub type Got<T> = Option<Result<T, Nack>>;

impl App {
    /// Says hello.
    pub fn hello(w: &Window, cell: usize, name: &str) -> Got<Self> {
        // The first may be out of step with what others left in the cell.
        let mut got = None;
        for _ in 0..2 {
            got = ask(w, cell, Kind::Hello, 0, hello_body(name).as_bytes());
            if matches!(got, Some(Ok(_))) {
                break;
            }
        }
        Some(got?.map(|ack| match HelloAck::read_from_prefix(&ack) {
            Ok((ack, _)) => App { session: ack.session.get(), line: ack.session_line.get(), cell },
            Err(_) => App { session: 0, line: 0, cell },
        }))
    }

    /// Asks for a function: the grant's handle.
    pub fn negotiate(&self, w: &Window, function: &str, depth: u16, bytes: u32) -> Got<u64> {
        let body = negotiate_body(function, depth, bytes);
        let got = ask(w, self.cell, Kind::Negotiate, self.session, body.as_bytes())?;
        Some(got.map(|ack| handle(&ack)))
    }

    /// Activates a grant.
    pub fn activate(&self, w: &Window, grant: u64) -> Got<Channel> {
        let got = ask(w, self.cell, Kind::Activate, self.session, &grant.to_le_bytes())?;
        match got {
            Ok(ack) => {
                let (_, place) = ChannelPlace::read(&ack).ok()?;
                Channel::new(w, grant, &place).map(Ok)
            }
            Err(nack) => Some(Err(nack)),
        }
    }

    /// Both.
    pub fn function(&self, w: &Window, name: &str, depth: u16, bytes: u32) -> Got<Channel> {
        match self.negotiate(w, name, depth, bytes)? {
            Ok(grant) => self.activate(w, grant),
            Err(nack) => Some(Err(nack)),
        }
    }

    /// Gives a grant back.
    pub fn release(&self, w: &Window, grant: u64) -> Got<Vec<u8>> {
        ask(w, self.cell, Kind::Release, self.session, &grant.to_le_bytes())
    }

    /// Ends the session.
    pub fn goodbye(&self, w: &Window) -> Got<Vec<u8>> {
        ask(w, self.cell, Kind::Goodbye, self.session, &[0; 8])
    }

    /// Shows that it lives.
    pub fn beat(&self, w: &Window) {
        let line = usize::from(self.line) % SESSIONS;
        w.span.fetch_add((SESSIONS_OFF + line * LINE) / 8, 1, Ordering::Relaxed);
    }
}

fn handle(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// An active channel, its lines at hand.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The grant's handle.
    pub grant: u64,
    /// Where it lies.
    pub at: Calls,
    /// The vector that rings its service.
    pub vector_out: u16,
    /// Laps by cell.
    pub laps: Vec<u32>,
}

impl Channel {
    fn new(w: &Window, grant: u64, place: &ChannelPlace) -> Option<Self> {
        let at = Calls::of(place)?;
        let end = |off: u64| off.checked_add(at.side_bytes);
        let inside = |off: u64| end(off).is_some_and(|e| e <= w.span.len() as u64);
        let sound = inside(at.dataout) && inside(at.datain);
        // An attacker's own scribbling may have reached the answer.
        let laps = vec![0; at.depth.into()];
        sound.then(|| Channel { grant, at, vector_out: place.vector_out(), laps })
    }

    /// Cells.
    pub fn depth(&self) -> usize {
        self.laps.len()
    }
    /// First word of `dataout`.
    pub fn out(&self) -> usize {
        self.at.dataout as usize / 8
    }
    /// First word of `datain`.
    pub fn inn(&self) -> usize {
        self.at.datain as usize / 8
    }
    /// First word of a cell's line in `dataout`.
    pub fn out_line(&self, cell: usize) -> usize {
        self.out() + line_off(cell) / 8
    }
    /// First word of a cell's line in `datain`.
    pub fn in_line(&self, cell: usize) -> usize {
        self.inn() + line_off(cell) / 8
    }
    /// Words of one side.
    pub fn side_words(&self) -> usize {
        self.at.side_bytes as usize / 8
    }

    /// Whether the cell's last call is answered.
    pub fn free(&self, w: &Window, cell: usize) -> bool {
        let word = w.span.load(self.in_line(cell), Ordering::Acquire);
        Word0::unpack(word).seq == self.laps[cell]
    }

    /// Posts a right call, in line or in the data space.
    pub fn call(&mut self, w: &Window, cell: usize, args: &[u8]) {
        self.laps[cell] = self.laps[cell].wrapping_add(1);
        let line = self.out_line(cell);
        let in_space = args.len() > INLINE_BYTES;
        if in_space {
            let space =
                self.out() * 8 + spaces_off(self.at.depth) + cell * self.at.cell_bytes as usize;
            let room = args.len().min(self.at.cell_bytes as usize);
            let _ = w.span.write(space, &args[..room]);
        } else {
            let _ = w.span.write(line * 8 + 16, args);
        }
        let flags = if in_space { FLAG_DATA } else { 0 };
        let word1 = Word1 { len: args.len() as u32, status: 0 };
        let word0 = Word0 { seq: self.laps[cell], op: 1, flags, reserved: 0 };
        w.span.store(line + 1, word1.pack(), Ordering::Relaxed);
        w.span.store(line, word0.pack(), Ordering::Release);
        w.ring(self.vector_out);
    }
}
