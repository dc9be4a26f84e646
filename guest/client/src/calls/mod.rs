//! How an active function's calls travel: through the window, or in frames.

mod abandoned;
mod life;
mod open;
mod peek;
mod raw;
mod results;
mod tcp;
mod window;

pub(crate) use peek::Place;
pub(crate) use raw::RawLines;
pub use results::Results;
pub(crate) use results::{Into, Sink, ToVec, With};
pub(crate) use tcp::TcpCalls;
pub(crate) use window::WindowCalls;

use crate::error::{Error, Result};
use std::time::Instant;
use vfun_ring::Ticket;
use vfun_wire::channel::{CellState, Command};

/// The way an active function's calls take.
pub(crate) enum Calls {
    /// Cells in the window.
    Window(Box<WindowCalls>),
    /// Frames.
    Tcp(TcpCalls),
    /// Raw lines: no calls at all.
    Floor(RawLines),
}

/// A call under way, to be waited for or abandoned.
#[derive(Debug)]
pub(crate) enum Flight {
    /// In a cell.
    Cell(Ticket),
    /// In a frame of this id.
    Frame(u64),
}

/// What waiting for a call came to.
pub(crate) enum Landed<T> {
    /// The call ended so.
    Done(Result<T>),
    /// The time limit passed; the call goes on.
    Flying(Flight),
}

impl Calls {
    /// The error of a call on a channel that carries none.
    #[cold]
    pub fn no_calls() -> Error {
        Error::Unsupported("this channel carries raw lines, not calls: negotiate the kind 'calls'")
    }

    /// Makes a call and waits for its results.
    #[inline(always)]
    pub fn call<S: Sink>(&self, command: Command, args: &[u8], sink: S) -> Result<S::Out> {
        match self {
            Calls::Window(w) => w.call(command, args, sink),
            Calls::Tcp(t) => t.call(command, args, sink),
            Calls::Floor(_) => Err(Self::no_calls()),
        }
    }

    /// Starts a call; fails if every cell is in use.
    #[inline(always)]
    pub fn submit(&self, command: Command, args: &[u8]) -> Result<Flight> {
        match self {
            Calls::Window(w) => w.submit(command, args).map(Flight::Cell),
            Calls::Tcp(t) => t.submit(command, args).map(Flight::Frame),
            Calls::Floor(_) => Err(Self::no_calls()),
        }
    }

    /// Waits for a call, at most until `until`.
    #[inline(always)]
    pub fn wait<S: Sink>(&self, flight: Flight, until: Option<Instant>, sink: S) -> Landed<S::Out> {
        match (self, flight) {
            (Calls::Window(w), Flight::Cell(ticket)) => w.wait(ticket, until, sink),
            (Calls::Tcp(t), Flight::Frame(id)) => t.wait(id, until, sink),
            _ => Landed::Done(Err(Self::no_calls())),
        }
    }

    /// Waits until a call is answered, at most until `until`; leaves the answer where it is.
    pub fn ready(&self, flight: &Flight, until: Option<Instant>) -> bool {
        match (self, flight) {
            (Calls::Window(w), Flight::Cell(ticket)) => w.ready(ticket, until),
            (Calls::Tcp(t), Flight::Frame(id)) => t.ready(*id, until),
            _ => false,
        }
    }

    /// The published state of a call.
    pub fn state(&self, flight: &Flight) -> CellState {
        match (self, flight) {
            (Calls::Window(w), Flight::Cell(ticket)) => w.state(ticket),
            (Calls::Tcp(t), Flight::Frame(id)) if t.poll(*id) => CellState::Done,
            _ => CellState::Wait,
        }
    }

    /// Whether a call is answered (or will never be).
    pub fn poll(&self, flight: &Flight) -> bool {
        match (self, flight) {
            (Calls::Window(w), Flight::Cell(ticket)) => w.poll(ticket),
            (Calls::Tcp(t), Flight::Frame(id)) => t.poll(*id),
            _ => false,
        }
    }

    /// Nobody will wait for this call: its cell frees itself once it is answered.
    pub fn abandon(&self, flight: Flight) {
        match (self, flight) {
            (Calls::Window(w), Flight::Cell(ticket)) => w.abandon(ticket),
            (Calls::Tcp(t), Flight::Frame(id)) => t.abandon(id),
            _ => {}
        }
    }
}
