//! Calls over memory that counts: the ring's caller and server in turn.

use crate::{Lines, Side, View};
use std::collections::VecDeque;
use vfun_ring::{Caller, Next, PollAnswer, Server, Ticket};
use vfun_wire::Status;
use vfun_wire::channel::{Command, side_bytes, spaces_off};
use vfun_wire::limits::INLINE_BYTES;

/// Calls after which nothing is new to either side's cache, and calls that count.
const WARM: u32 = 256;
const COUNTED: u32 = 1024;

/// What the calls are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of arguments, and as many of results.
    pub bytes: usize,
    /// Calls under way at once.
    pub in_flight: u16,
    /// Cells of the channel.
    pub depth: u16,
    /// The service looks in vain before each call, and the caller after each post.
    pub polled: bool,
}

struct Channel {
    shape: Shape,
    cell_bytes: u32,
    caller: Caller<View>,
    server: Server<View>,
    /// The service names a call as under way.
    current: bool,
    posted: VecDeque<Ticket>,
}

/// Lines that move in a call of this shape, once both sides know the channel.
pub fn moved(shape: Shape) -> f64 {
    let cell_bytes = if shape.bytes > INLINE_BYTES { shape.bytes as u32 } else { 0 };
    let side = side_bytes(shape.depth, cell_bytes).expect("a channel's shape");
    let lines = Lines::new(side as usize);
    let view = |side| View::new(&lines, side);
    let mut channel = Channel {
        shape,
        cell_bytes,
        caller: Caller::new(view(Side::Caller), shape.depth, cell_bytes),
        server: Server::new(view(Side::Server), shape.depth, cell_bytes),
        current: false,
        posted: VecDeque::new(),
    };
    (1..shape.in_flight).for_each(|_| channel.post());
    (0..WARM).for_each(|_| channel.turn());
    let before = lines.moved();
    (0..COUNTED).for_each(|_| channel.turn());
    (lines.moved() - before) as f64 / f64::from(COUNTED)
}

impl Channel {
    /// One more call, and the end of the oldest.
    fn turn(&mut self) {
        if self.shape.polled && self.shape.in_flight == 1 {
            assert_eq!(self.server.next(), Next::Nothing);
            self.rest();
        }
        self.post();
        if self.shape.polled {
            let newest = self.posted.back().expect("just posted");
            assert_eq!(self.caller.look(newest), PollAnswer::NotYet);
        }
        self.serve();
        self.take();
    }

    fn space(&self, cell: usize) -> usize {
        spaces_off(self.shape.depth) + cell * self.cell_bytes as usize
    }

    fn post(&mut self) {
        let claim = self.caller.claim().expect("a free cell");
        let ticket = if self.cell_bytes == 0 {
            self.caller.post_inline(claim, Command::Set, &[7; INLINE_BYTES][..self.shape.bytes])
        } else {
            self.caller.memory().write_bytes(self.space(claim.cell()), self.shape.bytes);
            self.caller.post_space(claim, Command::Set, self.cell_bytes)
        };
        assert!(!self.caller.seems_asleep());
        self.posted.push_back(ticket);
    }

    /// As the service's loop does it: the call is named before it is computed.
    fn serve(&mut self) {
        let Next::Call(r) = self.server.next() else { panic!("nothing was posted") };
        self.server.begin(r.cell, r.seq);
        self.current = true;
        if r.in_space {
            let at = self.space(r.cell);
            self.server.memory().read_bytes(at, r.len as usize);
            self.server.memory().write_bytes(at, r.len as usize);
            self.server.answer_space(r.cell, Status::Ok, r.len);
        } else {
            self.server.answer_inline(r.cell, Status::Ok, &r.inline[..r.len as usize]);
        }
        assert!(!self.server.seems_asleep());
    }

    fn rest(&mut self) {
        if std::mem::take(&mut self.current) {
            self.server.idle();
        }
    }

    fn take(&mut self) {
        let ticket = self.posted.pop_front().expect("a call under way");
        let PollAnswer::Done(answer) = self.caller.look(&ticket) else { panic!("not answered") };
        assert_eq!(answer.len as usize, self.shape.bytes);
        if answer.in_space {
            self.caller.memory().read_bytes(self.space(ticket.cell()), self.shape.bytes);
        }
        assert!(self.caller.stands(&ticket));
        self.caller.take(ticket);
    }
}
