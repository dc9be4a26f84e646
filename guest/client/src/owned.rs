//! For those who serve others' calls, such as the gateway, and for other
//! languages: calls, cells and results that keep their function alive, and
//! ends that do not wait for them.

use crate::calls::{CallEnd, Calls, Flight, ReadWith, Results, Sink, ToVec, Way};
use crate::error::{Error, Result};
use crate::function::{Active, Function};
use crate::grant::Stats;
use crate::session::Session;
use crate::slot::BorrowedCell;
use crate::waiter::InFlight;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfun_ring::{Claim, Ticket};
use vfun_window::{ReadSpan, Space};
use vfun_wire::channel::Command;
use vfun_wire::limits::INLINE_BYTES;

/// A call under way that may outlive its [`Function`] and change threads.
/// Dropping it does not stop the call.
#[must_use = "a pending call is waited for, or abandoned when dropped"]
pub struct OwnedPending {
    function: Arc<Active>,
    flight: Option<Flight>,
}

impl Function {
    /// As [`Function::submit`] (or, for [`Command::Rst`], [`Function::rst`]), without a borrow.
    #[doc(hidden)]
    pub fn submit_owned(&self, command: Command, args: &[u8]) -> Result<OwnedPending> {
        let flight = self.inner.calls.submit(command, args, |flight| flight)?;
        Ok(OwnedPending { function: self.inner.clone(), flight: Some(flight) })
    }

    /// As [`Function::submit_owned`], with arguments in several parts that are
    /// copied once, to where the service reads them.
    #[doc(hidden)]
    pub fn submit_parts(&self, parts: &[&[u8]]) -> Result<OwnedPending> {
        let len = parts.iter().map(|p| p.len()).sum();
        let mut held = BorrowedCell::borrow(&self.inner)?;
        let mut at = 0;
        for part in parts {
            if let Some(to) = held.bytes_mut().get_mut(at..at + part.len()) {
                to.copy_from_slice(part);
            }
            at += part.len();
        }
        // Too long for the cell: refused here, nothing was sent.
        let flight = held.submit(&self.inner, len)?;
        Ok(OwnedPending { function: self.inner.clone(), flight: Some(flight) })
    }

    /// Another handle of the same function: it is released with the last.
    #[doc(hidden)]
    pub fn shared(&self) -> Function {
        Function { inner: self.inner.clone() }
    }

    /// As [`Function::release`], while others still hold or call it: their calls
    /// end with [`crate::Error::Released`], and what they post goes nowhere.
    #[doc(hidden)]
    pub fn release_shared(&self) -> Result<Stats> {
        self.inner.end()
    }
}

impl<'a> From<&'a OwnedPending> for InFlight<'a> {
    fn from(p: &'a OwnedPending) -> Self {
        InFlight::new(&p.function, p.flight.as_ref())
    }
}

impl<'a> From<&'a OwnedCell> for InFlight<'a> {
    fn from(cell: &'a OwnedCell) -> Self {
        let flight = match &cell.now {
            CellUse::Flying(flight) => Some(flight),
            _ => None,
        };
        InFlight::new(&cell.function, flight)
    }
}

impl OwnedPending {
    /// Whether the call is answered, so that waiting ends at once.
    #[inline]
    pub fn poll(&self) -> bool {
        self.flight.as_ref().is_none_or(|f| self.function.calls.poll(f))
    }

    /// Waits at most this long until the call is answered; whether it is.
    pub fn ready_within(&self, timeout: Duration) -> bool {
        let until = Instant::now().checked_add(timeout);
        self.flight.as_ref().is_none_or(|f| self.function.calls.ready(f, until))
    }

    /// Waits for the results and appends them: their length.
    pub fn append_to(mut self, out: &mut Vec<u8>) -> Result<usize> {
        let Some(flight) = self.flight.take() else {
            return Err(Error::Unsupported("the call's results were taken already"));
        };
        match self.function.calls.wait(flight, None, Append(out)) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(flight) => {
                self.flight = Some(flight);
                Err(Error::Unsupported("the wait ended without an answer"))
            }
        }
    }
}

/// Results that stay where they are, with their cell, until this is dropped.
/// In-line results and those that came over TCP are private bytes.
#[doc(hidden)]
pub struct KeptResults {
    function: Arc<Active>,
    cell: Option<Ticket>,
    bytes: Bytes,
}

enum Bytes {
    Private(Vec<u8>),
    Shared(ReadSpan),
}

/// To bytes that outlive the sink: private, or still in the window.
struct KeepSink;

impl Sink for KeepSink {
    type Out = Bytes;
    fn private(self, bytes: &[u8]) -> Result<Bytes> {
        Ok(Bytes::Private(bytes.to_vec()))
    }
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<Bytes> {
        let outside = |_| Error::HostNonsense("results lie outside their cell".into());
        span.part(off, len).map(Bytes::Shared).map_err(outside)
    }
}

impl KeptResults {
    /// Where they lie, for as long as this lives, and how many there are. The
    /// host may change what lies in the window at any time.
    pub fn place(&self) -> (*const u8, usize) {
        match &self.bytes {
            Bytes::Private(v) => (v.as_ptr(), v.len()),
            Bytes::Shared(span) => (span.as_ptr(), span.len()),
        }
    }

    /// Whether they are in the window and hold a cell.
    pub fn holds_cell(&self) -> bool {
        self.cell.is_some()
    }

    /// A private copy; the cell is free after it.
    pub fn to_private(self) -> Result<Vec<u8>> {
        self.function.calls.way()?;
        match &self.bytes {
            Bytes::Private(v) => Ok(v.clone()),
            Bytes::Shared(span) => ToVec.shared(span, 0, span.len()),
        }
    }
}

impl Drop for KeptResults {
    fn drop(&mut self) {
        if let (Ok(Way::Window(w)), Some(ticket)) = (self.function.calls.way(), self.cell.take()) {
            w.take(ticket);
        }
    }
}

impl OwnedPending {
    /// Waits for the results, which are read where they lie; the cell is free then.
    #[inline]
    pub fn wait_with<T>(mut self, read: impl FnOnce(Results<'_>) -> T) -> Result<T> {
        match self.flight.take() {
            None => Err(taken()),
            Some(flight) => match self.function.calls.wait(flight, None, ReadWith(read)) {
                CallEnd::Done(result) => result,
                CallEnd::Flying(flight) => {
                    self.flight = Some(flight);
                    Err(Error::Unsupported("the wait ended without an answer"))
                }
            },
        }
    }

    /// Waits for the results and leaves them where they are.
    pub fn wait_kept(mut self) -> Result<KeptResults> {
        let function = self.function.clone();
        match (function.calls.way()?, self.flight.take()) {
            (Way::Window(w), Some(Flight::Cell(ticket))) => {
                let (ticket, outcome) = w.wait_kept(ticket)?;
                // From here on the cell is freed, whatever happens.
                let mut kept = KeptResults {
                    function: function.clone(),
                    cell: Some(ticket),
                    bytes: Bytes::Private(vec![]),
                };
                let Some(ticket) = &kept.cell else { return Err(taken()) };
                kept.bytes = w.read_kept(ticket, outcome, KeepSink)?;
                if let (Bytes::Private(_), Some(ticket)) =
                    (&kept.bytes, kept.cell.take_if(|_| !outcome.in_space))
                {
                    w.take(ticket);
                }
                Ok(kept)
            }
            (_, Some(flight)) => match function.calls.wait(flight, None, ToVec) {
                CallEnd::Done(Ok(bytes)) => Ok(KeptResults {
                    function: function.clone(),
                    cell: None,
                    bytes: Bytes::Private(bytes),
                }),
                CallEnd::Done(Err(e)) => Err(e),
                CallEnd::Flying(_) => Err(Error::Unsupported("the wait ended without an answer")),
            },
            (_, None) => Err(taken()),
        }
    }
}

#[cold]
fn taken() -> Error {
    Error::Unsupported("the call's results were taken already")
}

/// A cell kept for any number of calls, one after the other, with memory for
/// arguments that the service reads where they lie (over TCP: private memory).
#[doc(hidden)]
pub struct OwnedCell {
    function: Arc<Active>,
    now: CellUse,
    room: Room,
}

enum CellUse {
    Idle(Claim),
    Flying(Flight),
    /// Over TCP, or a cell that was lost with its channel.
    Nothing,
}

enum Room {
    Space(Space),
    Private(Vec<u8>),
}

impl Function {
    /// Takes a cell for good; fails with [`crate::Error::Full`] if all are in use.
    #[doc(hidden)]
    pub fn keep_cell(&self) -> Result<OwnedCell> {
        let function = self.inner.clone();
        let (now, room) = match function.calls.way()? {
            Way::Window(w) => {
                w.check_open()?;
                let claim = w.claim()?;
                let room = match w.space(&claim) {
                    Some(space) => Room::Space(space),
                    None => Room::Private(vec![0; INLINE_BYTES]),
                };
                (CellUse::Idle(claim), room)
            }
            Way::Tcp(t) => {
                t.check_open()?;
                (CellUse::Nothing, Room::Private(vec![0; t.max_args()]))
            }
            Way::Floor(_) | Way::Queues(_) => return Err(Calls::no_calls()),
        };
        Ok(OwnedCell { function, now, room })
    }

    /// Longest arguments of a call, bytes.
    #[doc(hidden)]
    pub fn room(&self) -> usize {
        match self.inner.calls.way() {
            Ok(Way::Tcp(t)) => t.max_args(),
            _ => self.info().max_args(),
        }
    }
}

impl OwnedCell {
    /// Memory for arguments. It stays where it is for as long as this lives.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.room {
            Room::Space(space) => space,
            Room::Private(bytes) => bytes,
        }
    }

    /// Whether a call is under way in it.
    pub fn busy(&self) -> bool {
        matches!(self.now, CellUse::Flying(_))
    }

    /// Starts a call with the first `len` bytes as arguments.
    pub fn post(&mut self, len: usize) -> Result<()> {
        let room = self.bytes_mut().len();
        if len > room {
            return Err(Error::ArgumentsTooLong { len, max: room });
        }
        let bytes: &[u8] = match &self.room {
            Room::Space(space) => space,
            Room::Private(bytes) => bytes,
        };
        let way = self.function.calls.way()?;
        let flight = match (way, std::mem::replace(&mut self.now, CellUse::Nothing)) {
            (_, CellUse::Flying(flight)) => {
                self.now = CellUse::Flying(flight);
                return Err(Error::Unsupported(
                    "a call is under way in this cell: wait for it first",
                ));
            }
            (Way::Window(w), CellUse::Idle(claim)) => {
                if let Err(e) = w.check_open() {
                    self.now = CellUse::Idle(claim);
                    return Err(e);
                }
                let posted = match len <= INLINE_BYTES {
                    true => w.post(claim, Command::Set, &bytes[..len]),
                    false => w.post_written(claim, Command::Set, len),
                };
                Flight::Cell(posted?)
            }
            (Way::Tcp(t), CellUse::Nothing) => {
                t.submit(Command::Set, &bytes[..len]).map(Flight::Frame)?
            }
            _ => {
                return Err(Error::Unsupported("the cell was lost with its channel: take another"));
            }
        };
        self.now = CellUse::Flying(flight);
        Ok(())
    }

    /// Whether the call is answered, so that waiting ends at once.
    pub fn poll(&self) -> bool {
        match &self.now {
            CellUse::Flying(flight) => self.function.calls.poll(flight),
            _ => true,
        }
    }

    /// Waits at most this long until the call is answered; whether it is.
    pub fn ready_within(&self, timeout: Duration) -> bool {
        let until = Instant::now().checked_add(timeout);
        match &self.now {
            CellUse::Flying(flight) => self.function.calls.ready(flight, until),
            _ => true,
        }
    }

    /// Waits for the results and reads them where they lie. They stay there
    /// until the next call in this cell.
    pub fn finish<T>(&mut self, read: impl FnOnce(Results<'_>) -> T) -> Result<T> {
        let calls = &self.function.calls;
        match (calls.way()?, std::mem::replace(&mut self.now, CellUse::Nothing)) {
            (Way::Window(w), CellUse::Flying(Flight::Cell(ticket))) => {
                let (ticket, outcome) = w.wait_kept(ticket)?;
                let done = w.read_kept(&ticket, outcome, ReadWith(read));
                self.now = CellUse::Idle(w.keep(ticket));
                done
            }
            (_, CellUse::Flying(flight)) => match calls.wait(flight, None, ReadWith(read)) {
                CallEnd::Done(done) => done,
                CallEnd::Flying(_) => Err(Error::Unsupported("the wait ended without an answer")),
            },
            (_, now) => {
                self.now = now;
                Err(taken())
            }
        }
    }
}

impl Drop for OwnedCell {
    fn drop(&mut self) {
        // First: whoever claims the cell next borrows this space.
        self.room = Room::Private(vec![]);
        let calls = &self.function.calls;
        match (calls.way(), std::mem::replace(&mut self.now, CellUse::Nothing)) {
            (Ok(Way::Window(w)), CellUse::Idle(claim)) => w.unclaim(claim),
            (_, CellUse::Flying(flight)) => calls.abandon(flight),
            _ => {}
        }
    }
}

impl Session {
    /// As [`Session::close`], but while calls, cells or results of it are
    /// held the goodbye waits for the last of them, so that their memory is
    /// not given to anybody else. Whether it was said now.
    #[doc(hidden)]
    pub fn close_when_free(self) -> Result<bool> {
        match self.is_alone() {
            true => self.close().map(|()| true),
            false => Ok(false),
        }
    }
}

/// To the end of a vector.
struct Append<'a>(&'a mut Vec<u8>);

impl Sink for Append<'_> {
    type Out = usize;
    fn private(self, bytes: &[u8]) -> Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn shared(self, span: &ReadSpan, off: usize, len: usize) -> Result<usize> {
        let from = self.0.len();
        self.0.resize(from + len, 0);
        let outside = |_| Error::HostNonsense("results lie outside their cell".into());
        span.read(off, &mut self.0[from..]).map_err(outside)?;
        Ok(len)
    }
}

impl Drop for OwnedPending {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.function.calls.abandon(flight);
        }
    }
}
