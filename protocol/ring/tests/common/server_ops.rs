//! Operations of a caller, honest or hostile, and of the service loop, with
//! what must hold after each.

use super::memory::*;
use vfun_ring::{Next, Request, Server, Violation};
use vfun_wire::Status;
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, HELD_BEGUN, HELD_EVENT, Word0, Word1, in_header,
};
use vfun_wire::status::BreakReason;

/// One step. Cells and indexes are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A request's line as it should be, or with any field wrong.
    Post {
        cell: u16,
        ahead: u32,
        command: u8,
        flags: u8,
        reserved: u16,
        len: u32,
        status: u32,
        fill: u64,
    },
    /// Any word of `dataout`.
    PokeOut {
        index: u16,
        value: u64,
    },
    /// Any word of `datain`, which a guest's root can reach on some transports.
    PokeIn {
        index: u16,
        value: u64,
    },
    /// `next`, this often.
    Next(u8),
    NextAnywhere,
    /// Answers the `nth` open request.
    Answer {
        nth: u16,
        len: u32,
        space: bool,
        error: bool,
    },
    /// The service starts again, after `BROKEN` or not.
    Restart,
    /// Sleep handshake and statistics.
    Sleep,
    Begin {
        nth: u16,
    },
}

/// No state of a line: the server never writes this.
const MARK: u64 = u64::MAX;

struct Last {
    seq: u32,
    open: Option<Request>,
}

/// The server under test and what it must do.
pub struct ServerModel {
    pub out: Side,
    pub inn: Side,
    server: Server<Plain>,
    depth: u16,
    cell_bytes: u32,
    last: Vec<Last>,
    broken: Option<Violation>,
    datain_touched: bool,
}

impl ServerModel {
    pub fn new(depth: u16, cell_bytes: u32) -> Self {
        let (out, inn) = (side(depth), side(depth));
        let mem = Plain { mine: inn.clone(), theirs: out.clone() };
        let last = (0..depth).map(|_| Last { seq: 0, open: None }).collect();
        let server = Server::new(mem, depth, cell_bytes);
        ServerModel {
            out,
            inn,
            server,
            depth,
            cell_bytes,
            last,
            broken: None,
            datain_touched: false,
        }
    }

    pub fn open(&self) -> Vec<Request> {
        self.last.iter().filter_map(|l| l.open).collect()
    }

    /// What an honest reader makes of a cell's line.
    fn judge(&self, cell: usize) -> Judged {
        let (w0, w1, last) = (word0(&self.out, cell), word1(&self.out, cell), &self.last[cell]);
        if w0.seq == last.seq {
            return Judged::Nothing;
        }
        if last.open.is_some() || w0.seq != last.seq.wrapping_add(1) {
            return Judged::Breaks;
        }
        let room = if w0.flags & FLAG_DATA != 0 { self.cell_bytes } else { 48 };
        let status = if w0.flags & !FLAG_DATA != 0 || w0.reserved != 0 || w1.status != 0 {
            Status::BadFlags
        } else if w1.len > room {
            Status::BadLength
        } else if Command::from_wire(w0.op).is_none() {
            Status::BadCommand
        } else {
            return Judged::Call;
        };
        Judged::Refused(status)
    }

    pub fn step(&mut self, op: Op) {
        match op {
            Op::Post { cell, ahead, command, flags, reserved, len, status, fill } => {
                let cell = usize::from(cell % self.depth);
                for w in 2..8 {
                    poke(&self.out, at(cell, w), fill.rotate_left(8 * w as u32));
                }
                poke(&self.out, at(cell, 1), Word1 { len, status }.pack());
                let seq = self.last[cell].seq.wrapping_add(ahead);
                poke(&self.out, at(cell, 0), Word0 { seq, op: command, flags, reserved }.pack());
            }
            Op::PokeOut { index, value } => {
                poke(&self.out, usize::from(index) % self.out.len(), value);
            }
            Op::PokeIn { index, value } => {
                self.datain_touched = true;
                poke(&self.inn, usize::from(index) % self.inn.len(), value);
            }
            Op::Next(times) => {
                for _ in 0..times {
                    self.look(false);
                }
            }
            Op::NextAnywhere => self.look(true),
            Op::Answer { nth, len, space, error } => self.answer(nth, len, space, error),
            Op::Restart => self.restart(),
            Op::Sleep => {
                self.server.declare_sleep();
                assert_eq!(peek(&self.inn, in_header::SLEEPS), 1);
                let asleep = peek(&self.out, 0) != 0;
                assert_eq!(self.server.must_ring(), asleep);
                let news = peek(&self.inn, in_header::NEWS);
                self.server.about_to_ring();
                assert_eq!(peek(&self.inn, in_header::NEWS), news.wrapping_add(1));
                self.server.declare_awake();
                assert_eq!(peek(&self.inn, in_header::SLEEPS), 0);
            }
            Op::Begin { nth } => {
                if let Some(r) = pick(&self.open(), nth) {
                    self.server.begin(r.cell, r.seq);
                    let current = (r.cell as u64 + 1) << 32 | u64::from(r.seq);
                    assert_eq!(peek(&self.inn, in_header::CURRENT), current);
                    // And it is held open, with an answer as little as before.
                    let (begun, before) = (nth % 2 == 0, r.seq.wrapping_sub(1));
                    self.server.hold(r.cell, begun);
                    let op = if begun { HELD_BEGUN } else { HELD_EVENT };
                    let held = Word0 { seq: before, op, flags: 0, reserved: 0 };
                    assert_eq!(word0(&self.inn, r.cell), held);
                    assert_eq!(self.server.was_held(&r), Some(begun));
                }
                self.server.idle();
            }
        }
    }

    fn look(&mut self, anywhere: bool) {
        let judged: Vec<Judged> = (0..usize::from(self.depth)).map(|c| self.judge(c)).collect();
        // A hostile `datain` may hold the very answer that is to come, so the
        // lines of requests to be refused are marked meanwhile.
        let marked: Vec<u64> = (0..judged.len()).map(|c| peek(&self.inn, at(c, 0))).collect();
        for (cell, j) in judged.iter().enumerate() {
            if let Judged::Refused(_) = j {
                poke(&self.inn, at(cell, 0), MARK);
            }
        }
        let found = if anywhere { self.server.next_anywhere() } else { self.server.next() };
        if let Some(v) = self.broken {
            for (cell, j) in judged.iter().enumerate() {
                if let Judged::Refused(_) = j {
                    assert_eq!(peek(&self.inn, at(cell, 0)), MARK, "answered though broken");
                    poke(&self.inn, at(cell, 0), marked[cell]);
                }
            }
            assert_eq!(found, Next::Broken(v), "a broken channel must stay so");
            assert!(!self.server.refused());
            return;
        }
        // What was refused on the way: its answer stands in the line.
        let mut refused = 0;
        for (cell, j) in judged.iter().enumerate() {
            let Judged::Refused(status) = j else { continue };
            let seq = self.last[cell].seq.wrapping_add(1);
            let answered = Word0 { seq, op: CellState::Done.to_wire(), flags: 0, reserved: 0 };
            let with = Word1 { len: 0, status: status.to_wire() };
            if peek(&self.inn, at(cell, 0)) == MARK {
                poke(&self.inn, at(cell, 0), marked[cell]);
            } else {
                assert_eq!(word0(&self.inn, cell), answered);
                assert_eq!(word1(&self.inn, cell), with);
                self.last[cell].seq = seq;
                refused += 1;
            }
        }
        assert_eq!(self.server.refused(), refused > 0);
        assert!(anywhere || refused <= 2);
        match found {
            Next::Nothing => {
                let left = judged.iter().any(|j| matches!(j, Judged::Call | Judged::Breaks));
                let all = judged.iter().filter(|j| matches!(j, Judged::Refused(_))).count();
                assert!(!anywhere || !left, "next_anywhere passed over a cell");
                assert!(!anywhere || refused == all, "next_anywhere passed over a cell");
            }
            Next::Call(r) => {
                assert_eq!(judged[r.cell], Judged::Call);
                self.check(&r);
                self.last[r.cell].seq = r.seq;
                self.last[r.cell].open = Some(r);
            }
            Next::Broken(v) => {
                assert_eq!(judged[v.cell], Judged::Breaks);
                assert_eq!(word0(&self.out, v.cell).seq, v.found);
                assert_eq!(self.server.broken(), Some(v));
                let why = u64::from(BreakReason::BadSequence.to_wire());
                assert_eq!(peek(&self.inn, in_header::BROKEN), why);
                assert!(!v.to_string().is_empty());
                self.broken = Some(v);
            }
        }
    }

    fn check(&self, r: &Request) {
        let (w0, w1) = (word0(&self.out, r.cell), word1(&self.out, r.cell));
        let last = &self.last[r.cell];
        assert!(last.open.is_none(), "a second request in a cell that is not answered");
        assert_eq!(r.seq, last.seq.wrapping_add(1));
        assert_eq!((r.seq, r.command.to_wire()), (w0.seq, w0.op));
        assert_eq!((r.len, r.in_space), (w1.len, w0.flags == FLAG_DATA));
        assert!(r.len <= if r.in_space { self.cell_bytes } else { 48 });
        if !r.in_space {
            let len = r.len as usize;
            assert_eq!(r.inline[..len], inline(&self.out, r.cell)[..len]);
        }
    }

    fn answer(&mut self, nth: u16, len: u32, space: bool, error: bool) {
        let Some(r) = pick(&self.open(), nth) else { return };
        let status = if error { Status::DriverError } else { Status::Ok };
        let len = if space { len.min(self.cell_bytes) } else { len % 49 };
        if space {
            self.server.answer_space(r.cell, status, len);
        } else {
            let bytes: Vec<u8> = (0..len as u8).map(|i| i ^ r.seq as u8).collect();
            self.server.answer_inline(r.cell, status, &bytes);
            assert_eq!(inline(&self.inn, r.cell)[..len as usize], bytes);
        }
        let flags = if space { FLAG_DATA } else { 0 };
        let done = Word0 { seq: r.seq, op: CellState::Done.to_wire(), flags, reserved: 0 };
        assert_eq!(word0(&self.inn, r.cell), done);
        assert_eq!(word1(&self.inn, r.cell), Word1 { len, status: status.to_wire() });
        self.last[r.cell].open = None;
    }

    /// The next service believes the lines of `datain` for what was answered.
    fn restart(&mut self) {
        let mem = self.server.memory().clone();
        self.server = Server::new(mem, self.depth, self.cell_bytes);
        for (cell, last) in self.last.iter_mut().enumerate() {
            let answered = last.seq.wrapping_sub(u32::from(last.open.is_some()));
            let believed = word0(&self.inn, cell).seq;
            assert!(self.datain_touched || believed == answered, "an answer would be repeated");
            *last = Last { seq: word0(&self.inn, cell).seq, open: None };
        }
        self.broken = None;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judged {
    Nothing,
    Call,
    Refused(Status),
    Breaks,
}

fn pick<T: Copy>(all: &[T], nth: u16) -> Option<T> {
    if all.is_empty() { None } else { Some(all[usize::from(nth) % all.len()]) }
}
