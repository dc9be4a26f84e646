//! Operations of an app and of a service, honest or hostile, with what must
//! hold on the app's side after each.

use super::memory::*;
use vfun_ring::{Answer, Caller, Claim, Full, PollAnswer, Ticket};
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, FLAGS, Word0, Word1, in_header, out_header,
};
use vfun_wire::status::BreakReason;

/// One step. Cells and indexes are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Claim,
    Unclaim {
        nth: u16,
    },
    Post {
        nth: u16,
        len: u32,
        space: bool,
        rst: bool,
        fill: u64,
    },
    Look {
        nth: u16,
    },
    Take {
        nth: u16,
    },
    /// An answer's line as it should be, or with any field wrong.
    Answer {
        cell: u16,
        ahead: u32,
        state: u8,
        flags: u8,
        reserved: u16,
        len: u32,
        status: u32,
        fill: u64,
    },
    /// Any word of `datain`.
    PokeIn {
        index: u16,
        value: u64,
    },
    Sleep,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Free,
    Claimed,
    Posted,
}

/// The caller under test and what it must do.
pub struct CallerModel {
    pub out: Side,
    pub inn: Side,
    caller: Caller<Plain>,
    cell_bytes: u32,
    cells: Vec<(u32, Use)>,
    claims: Vec<Claim>,
    tickets: Vec<Ticket>,
}

impl CallerModel {
    pub fn new(depth: u16, cell_bytes: u32) -> Self {
        let (out, inn) = (side(depth), side(depth));
        let mem = Plain { mine: out.clone(), theirs: inn.clone() };
        let caller = Caller::new(mem, depth, cell_bytes);
        let cells = vec![(0, Use::Free); depth.into()];
        CallerModel { out, inn, caller, cell_bytes, cells, claims: vec![], tickets: vec![] }
    }

    pub fn step(&mut self, op: Op) {
        match op {
            Op::Claim => match self.caller.claim() {
                Ok(claim) => {
                    let cell = &mut self.cells[claim.cell()];
                    assert_eq!(cell.1, Use::Free, "a cell was claimed twice");
                    cell.1 = Use::Claimed;
                    self.claims.push(claim);
                }
                Err(Full) => assert!(self.cells.iter().all(|c| c.1 != Use::Free)),
            },
            Op::Unclaim { nth } => {
                if let Some(claim) = remove(&mut self.claims, nth) {
                    self.cells[claim.cell()].1 = Use::Free;
                    self.caller.unclaim(claim);
                }
            }
            Op::Post { nth, len, space, rst, fill } => self.post(nth, len, space, rst, fill),
            Op::Look { nth } => {
                if let Some(i) = index(self.tickets.len(), nth) {
                    self.look(i);
                }
            }
            Op::Take { nth } => {
                let Some(i) = index(self.tickets.len(), nth) else { return };
                if let PollAnswer::Done(_) = self.look(i) {
                    let ticket = self.tickets.swap_remove(i);
                    self.cells[ticket.cell()].1 = Use::Free;
                    self.caller.take(ticket);
                }
            }
            Op::Answer { cell, ahead, state, flags, reserved, len, status, fill } => {
                let cell = usize::from(cell) % self.cells.len();
                for w in 2..8 {
                    poke(&self.inn, at(cell, w), fill.rotate_left(8 * w as u32));
                }
                poke(&self.inn, at(cell, 1), Word1 { len, status }.pack());
                let seq = word0(&self.out, cell).seq.wrapping_add(ahead);
                poke(&self.inn, at(cell, 0), Word0 { seq, op: state, flags, reserved }.pack());
            }
            Op::PokeIn { index, value } => {
                poke(&self.inn, usize::from(index) % self.inn.len(), value);
            }
            Op::Sleep => {
                self.caller.declare_sleep();
                assert_eq!(peek(&self.out, out_header::SLEEPERS), 1);
                self.caller.declare_awake();
                assert_eq!(peek(&self.out, out_header::SLEEPERS), 0);
                let asleep = peek(&self.inn, in_header::SLEEPS) != 0;
                assert_eq!(self.caller.must_ring(), asleep);
            }
        }
    }

    fn post(&mut self, nth: u16, len: u32, space: bool, rst: bool, fill: u64) {
        let Some(claim) = remove(&mut self.claims, nth) else { return };
        let cell = claim.cell();
        let command = if rst { Command::Rst } else { Command::Set };
        let (ticket, len) = if space {
            let len = len.min(self.cell_bytes);
            (self.caller.post_space(claim, command, len), len)
        } else {
            let args: Vec<u8> = (0..len % 49).map(|i| fill.rotate_right(i) as u8).collect();
            let ticket = self.caller.post_inline(claim, command, &args);
            assert_eq!(inline(&self.out, cell)[..args.len()], args);
            (ticket, args.len() as u32)
        };
        let (lap, state) = &mut self.cells[cell];
        *lap = lap.wrapping_add(1);
        *state = Use::Posted;
        assert_eq!((ticket.cell(), ticket.seq()), (cell, *lap));
        let flags = if space { FLAG_DATA } else { 0 };
        let line = Word0 { seq: *lap, op: command.to_wire(), flags, reserved: 0 };
        assert_eq!(word0(&self.out, cell), line);
        assert_eq!(word1(&self.out, cell), Word1 { len, status: 0 });
        self.tickets.push(ticket);
    }

    /// Looks in every way; each must say what the line says.
    fn look(&self, i: usize) -> PollAnswer {
        let ticket = &self.tickets[i];
        let (w0, w1) = (word0(&self.inn, ticket.cell()), word1(&self.inn, ticket.cell()));
        let in_space = w0.flags & FLAG_DATA != 0;
        let room = if in_space { self.cell_bytes } else { 48 };
        let clean =
            w0.op == CellState::Done.to_wire() && w0.flags & !FLAGS == 0 && w0.reserved == 0;
        let found = self.caller.look(ticket);
        match found {
            PollAnswer::NotYet => assert_ne!(w0.seq, ticket.seq()),
            PollAnswer::Nonsense => assert!(w0.seq == ticket.seq() && !(clean && w1.len <= room)),
            PollAnswer::Done(Answer { status, len, in_space: space, inline: bytes }) => {
                assert!(w0.seq == ticket.seq() && clean && w1.len <= room);
                assert_eq!((status, len, space), (w1.status, w1.len, in_space));
                if !space {
                    let len = len as usize;
                    assert_eq!(bytes[..len], inline(&self.inn, ticket.cell())[..len]);
                }
            }
            PollAnswer::Broken(_) => panic!("look does not ask for that"),
        }
        let reason = peek(&self.inn, in_header::BROKEN) as u32;
        assert_eq!(self.caller.broken().is_some(), reason != 0);
        match self.caller.look_hard(ticket) {
            PollAnswer::Broken(why) => {
                assert_eq!(found, PollAnswer::NotYet);
                assert_ne!(reason, 0);
                assert!(BreakReason::from_wire(reason).is_none_or(|r| r == why));
            }
            other => {
                assert_eq!(other, found);
                assert!(found != PollAnswer::NotYet || reason == 0);
            }
        }
        let state = self.caller.state(ticket);
        assert_eq!(state == CellState::Done, found != PollAnswer::NotYet);
        found
    }
}

fn index(len: usize, nth: u16) -> Option<usize> {
    (len > 0).then(|| usize::from(nth) % len)
}

fn remove<T>(all: &mut Vec<T>, nth: u16) -> Option<T> {
    index(all.len(), nth).map(|i| all.swap_remove(i))
}
