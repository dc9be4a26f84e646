//! How an active function's calls travel: through the window, or in frames.

mod abandoned;
mod end;
mod life;
mod open;
mod peek;
mod queues;
mod raw;
mod results;
mod tcp;
mod window;

pub(crate) use open::GrantedChannel;
pub(crate) use peek::Place;
pub(crate) use queues::QueueSides;
pub(crate) use raw::RawLines;
pub use results::Results;
pub(crate) use results::{IntoBuffer, ReadWith, Sink, ToVec};
pub(crate) use tcp::TcpCalls;
pub(crate) use window::WindowCalls;

use crate::error::{Error, Result};
use std::time::Instant;
use vfun_ring::Ticket;
use vfun_window::Process;
use vfun_wire::channel::{CellState, Command};

/// An active function's calls.
pub(crate) struct Calls {
    /// Whose they are: a child of fork has no part in them.
    of: Process,
    way: Way,
}

/// The way that calls take.
pub(crate) enum Way {
    /// Cells in the window.
    Window(Box<WindowCalls>),
    /// As frames over a connection to a gateway.
    Tcp(TcpCalls),
    /// Raw lines: no calls at all.
    Floor(RawLines),
    /// Queues: no calls either.
    Queues(Box<QueueSides>),
}

/// A call under way, to be waited for or abandoned.
#[derive(Debug)]
pub(crate) enum Flight {
    /// In a cell of the channel.
    Cell(Ticket),
    /// In a frame of this id.
    Frame(u64),
}

/// What waiting for a call came to.
pub(crate) enum CallEnd<T> {
    /// The call ended so.
    Done(Result<T>),
    /// The time limit passed; the call goes on.
    Flying(Flight),
}

impl Calls {
    /// Calls of this process.
    pub fn new(way: Way) -> Self {
        Calls { of: Process::current(), way }
    }

    /// The way they take, unless this is a child of the process whose they are.
    #[inline(always)]
    pub fn way(&self) -> Result<&Way> {
        if self.of.is_current() { Ok(&self.way) } else { Err(Error::Forked) }
    }

    /// Lets go of the channel, so that the host may give its memory to others: from
    /// here on nothing of this process reaches it, whoever holds cells of it still.
    pub fn cut_off(&self) -> Result<()> {
        match self.way()? {
            Way::Window(w) => w.cut_off(),
            Way::Tcp(t) => {
                t.end();
                Ok(())
            }
            Way::Floor(lines) => lines.cut_off(),
            Way::Queues(sides) => sides.cut_off(),
        }
    }

    /// Whether its function was released, as far as the channel says.
    pub fn is_released(&self) -> bool {
        self.window().is_some_and(WindowCalls::is_released)
    }

    /// The error of a call on a channel that carries none.
    #[cold]
    pub fn no_calls() -> Error {
        Error::Unsupported(
            "this channel carries raw lines or queues, not calls: negotiate the kind 'calls'",
        )
    }

    /// The window's calls, if that is the way they take.
    #[inline(always)]
    fn window(&self) -> Option<&WindowCalls> {
        match &self.way {
            Way::Window(w) if self.of.is_current() => Some(w),
            _ => None,
        }
    }

    /// Makes a call and waits for its results.
    #[inline(always)]
    pub fn call<S: Sink>(&self, command: Command, args: &[u8], sink: S) -> Result<S::Out> {
        match self.window() {
            Some(w) => w.call(command, args, sink),
            None => self.call_elsewhere(command, args, sink),
        }
    }

    #[inline(never)]
    fn call_elsewhere<S: Sink>(&self, command: Command, args: &[u8], sink: S) -> Result<S::Out> {
        match self.way()? {
            Way::Tcp(t) => t.call(command, args, sink),
            _ => Err(Self::no_calls()),
        }
    }

    /// Starts a call; fails if every cell is in use. Gives what is `made` of it.
    #[inline(always)]
    pub fn submit<T>(
        &self,
        command: Command,
        args: &[u8],
        made: impl FnOnce(Flight) -> T,
    ) -> Result<T> {
        match self.window() {
            Some(w) => w.submit(command, args, |ticket| made(Flight::Cell(ticket))),
            None => self.submit_elsewhere(command, args).map(made),
        }
    }

    #[inline(never)]
    fn submit_elsewhere(&self, command: Command, args: &[u8]) -> Result<Flight> {
        match self.way()? {
            Way::Tcp(t) => t.submit(command, args).map(Flight::Frame),
            _ => Err(Self::no_calls()),
        }
    }

    /// Waits for a call, however long it takes.
    #[inline(always)]
    pub fn land<S: Sink>(&self, flight: Flight, sink: S) -> Result<S::Out> {
        match (self.window(), flight) {
            (Some(w), Flight::Cell(ticket)) => w.land(ticket, sink),
            (_, flight) => self.land_elsewhere(flight, sink),
        }
    }

    #[inline(never)]
    fn land_elsewhere<S: Sink>(&self, flight: Flight, sink: S) -> Result<S::Out> {
        match self.wait_elsewhere(flight, None, sink) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(_) => Err(Error::TimedOut(std::time::Duration::ZERO)),
        }
    }

    /// Waits for a call, at most until `until`.
    #[inline(always)]
    pub fn wait<S: Sink>(
        &self,
        flight: Flight,
        until: Option<Instant>,
        sink: S,
    ) -> CallEnd<S::Out> {
        match (self.window(), flight) {
            (Some(w), Flight::Cell(ticket)) => w.wait(ticket, until, sink),
            (_, flight) => self.wait_elsewhere(flight, until, sink),
        }
    }

    #[inline(never)]
    fn wait_elsewhere<S: Sink>(
        &self,
        flight: Flight,
        until: Option<Instant>,
        sink: S,
    ) -> CallEnd<S::Out> {
        match (self.way(), flight) {
            (Ok(Way::Tcp(t)), Flight::Frame(id)) => t.wait(id, until, sink),
            (Ok(_), _) => CallEnd::Done(Err(Self::no_calls())),
            (Err(e), _) => CallEnd::Done(Err(e)),
        }
    }

    /// Waits until a call is answered (or will never be), at most until `until`;
    /// leaves the answer where it is.
    pub fn ready(&self, flight: &Flight, until: Option<Instant>) -> bool {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.ready(ticket, until),
            (Ok(Way::Tcp(t)), Flight::Frame(id)) => t.ready(*id, until),
            (ok, _) => ok.is_err(),
        }
    }

    /// The published state of a call.
    pub fn state(&self, flight: &Flight) -> CellState {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.state(ticket),
            (Ok(Way::Tcp(t)), Flight::Frame(id)) if t.poll(*id) => CellState::Done,
            (Ok(_), _) => CellState::Wait,
            (Err(_), _) => CellState::Done,
        }
    }

    /// Whether a call is answered (or will never be).
    pub fn poll(&self, flight: &Flight) -> bool {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.poll(ticket),
            (Ok(Way::Tcp(t)), Flight::Frame(id)) => t.poll(*id),
            (ok, _) => ok.is_err(),
        }
    }

    /// Nobody will wait for this call: its cell frees itself once it is answered.
    pub fn abandon(&self, flight: Flight) {
        match (self.way(), flight) {
            (Ok(Way::Window(w)), Flight::Cell(ticket)) => w.abandon(ticket),
            (Ok(Way::Tcp(t)), Flight::Frame(id)) => t.abandon(id),
            _ => {}
        }
    }
}
