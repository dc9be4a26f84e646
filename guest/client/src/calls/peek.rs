//! Results that are looked at and stay where they are, and calls with a time limit.

use super::results::Sink;
use super::window::LookOutcome;
use super::{CallEnd, Calls, Flight, TcpCalls, Way, WindowCalls};
use crate::error::{Error, Result};
use std::time::{Duration, Instant};
use vfun_ring::Ticket;
use vfun_window::ReadSpan;
use vfun_wire::channel::Command;
use vfun_wire::limits::INLINE_BYTES;

impl Calls {
    /// The results of a call that is answered; `None` if it is not. They stay, to be
    /// looked at again or taken by a wait.
    pub fn peek<S: Sink>(&self, flight: &Flight, sink: S) -> Option<Result<S::Out>> {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.peek(ticket, sink),
            (Ok(Way::Tcp(t)), Flight::Frame(id)) => t.peek(*id, sink),
            (Ok(_), _) => Some(Err(Self::no_calls())),
            (Err(e), _) => Some(Err(e)),
        }
    }

    /// Whether a call is answered, or nobody is left who would answer it.
    pub fn poll_hard(&self, flight: &Flight) -> bool {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.poll_hard(ticket),
            _ => self.poll(flight),
        }
    }

    /// Makes a call that may take so long in all: waiting for a cell, and for the
    /// answer. One that is not answered in time goes on, and nobody gets its results.
    pub fn call_for<S: Sink>(
        &self,
        command: Command,
        args: &[u8],
        limit: Duration,
        sink: S,
    ) -> Result<S::Out> {
        // A limit beyond what a clock can tell is none.
        let until = Instant::now().checked_add(limit);
        let flight = self.submit_until(command, args, until).map_err(|e| match e {
            Error::Full { .. } if until.is_some_and(|u| Instant::now() >= u) => {
                Error::TimedOut(limit)
            }
            e => e,
        })?;
        match self.wait(flight, until, sink) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(flight) => {
                self.abandon(flight);
                Err(Error::TimedOut(limit))
            }
        }
    }

    fn submit_until(
        &self,
        command: Command,
        args: &[u8],
        until: Option<Instant>,
    ) -> Result<Flight> {
        match (self.submit(command, args, |flight| flight), self.way()) {
            (Err(Error::Full { .. }), Ok(Way::Window(w))) => {
                w.post(w.wait_for_cell(until)?, command, args).map(Flight::Cell)
            }
            (Err(Error::Full { .. }), Ok(Way::Tcp(t))) => {
                t.submit_until(command, args, until).map(Flight::Frame)
            }
            (other, _) => other,
        }
    }
}

impl WindowCalls {
    fn peek<S: Sink>(&self, ticket: &Ticket, sink: S) -> Option<Result<S::Out>> {
        Some(match self.see(ticket, true) {
            None => Err(self.nobody_left()?),
            Some(LookOutcome::Answer(outcome)) => self.read_kept(ticket, outcome, sink),
            Some(LookOutcome::Lost(e)) => Err(e),
        })
    }
}

impl TcpCalls {
    fn peek<S: Sink>(&self, id: u64, sink: S) -> Option<Result<S::Out>> {
        let read = |frame: &_| super::tcp::read(frame, sink);
        self.connection().peek(id, read).map(|seen| seen.and_then(|read| read))
    }
}

/// Where results lie. In-line ones are copied into the room: they are as many at most.
pub(crate) struct Place<'a>(pub &'a mut [u8; INLINE_BYTES]);

impl Sink for Place<'_> {
    type Out = (*const u8, usize);
    fn private(self, bytes: &[u8]) -> Result<Self::Out> {
        match self.0.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Ok((room.as_ptr(), bytes.len()))
            }
            // A frame's, which stays until its answer is taken.
            None => Ok((bytes.as_ptr(), bytes.len())),
        }
    }
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<Self::Out> {
        let outside = |_| Error::HostNonsense("results lie outside their cell".into());
        span.part(off, len).map(|part| (part.as_ptr(), len)).map_err(outside)
    }
}
