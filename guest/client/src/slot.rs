//! A cell lent out: arguments written where the service reads them.

use crate::calls::{Calls, Flight, IntoBuffer, Way};
use crate::error::{Error, Result};
use crate::function::Active;
use crate::pending::Pending;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use vfun_ring::Claim;
use vfun_window::Space;
use vfun_wire::channel::Command;
use vfun_wire::limits::INLINE_BYTES;

/// A cell's data space, to write arguments into. Dropping it gives the cell
/// back. At first it contains bytes of an earlier call.
///
/// A session may be closed while cells are borrowed. Their memory is then this
/// process's own, and submitting them fails with [`Error::Released`].
pub struct Slot<'a> {
    function: &'a Arc<Active>,
    held: Option<BorrowedCell>,
}

/// A borrowed cell without its borrower, for handles of the C interface.
pub(crate) enum BorrowedCell {
    /// Memory that the service reads.
    Space(Claim, Space),
    /// A channel without data spaces: at most what fits the line.
    Line(Claim, [u8; INLINE_BYTES]),
    /// A frame to be sent.
    Frame(Vec<u8>),
}

impl BorrowedCell {
    pub fn borrow(function: &Active) -> Result<BorrowedCell> {
        match function.calls.way()? {
            Way::Window(w) => {
                w.check_open()?;
                let claim = w.claim()?;
                Ok(match w.space(&claim) {
                    Some(space) => BorrowedCell::Space(claim, space),
                    None => BorrowedCell::Line(claim, [0; INLINE_BYTES]),
                })
            }
            Way::Tcp(t) => {
                t.check_open()?;
                Ok(BorrowedCell::Frame(vec![0; t.max_args()]))
            }
            Way::Floor(_) | Way::Queues(_) => Err(Calls::no_calls()),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            BorrowedCell::Space(_, space) => space,
            BorrowedCell::Line(_, line) => line,
            BorrowedCell::Frame(frame) => frame,
        }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            BorrowedCell::Space(_, space) => space,
            BorrowedCell::Line(_, line) => line,
            BorrowedCell::Frame(frame) => frame,
        }
    }

    /// Posts the first `len` bytes.
    pub fn submit(self, function: &Active, len: usize) -> Result<Flight> {
        let max = self.bytes().len();
        if len > max {
            self.give_back(function);
            return Err(Error::ArgumentsTooLong { len, max });
        }
        let way = function.calls.way()?;
        if let Way::Window(w) = way
            && let Err(e) = w.check_open()
        {
            self.give_back(function);
            return Err(e);
        }
        match (way, self) {
            (Way::Window(w), BorrowedCell::Space(claim, space)) => {
                if len <= INLINE_BYTES {
                    // One line less to fetch for the service.
                    let mut line = [0; INLINE_BYTES];
                    line[..len].copy_from_slice(&space[..len]);
                    drop(space);
                    return w.post(claim, Command::Set, &line[..len]).map(Flight::Cell);
                }
                // Lent no longer, but the cell is this call's until its answer is taken.
                drop(space);
                w.post_written(claim, Command::Set, len).map(Flight::Cell)
            }
            (Way::Window(w), BorrowedCell::Line(claim, line)) => {
                w.post(claim, Command::Set, &line[..len]).map(Flight::Cell)
            }
            (Way::Tcp(t), BorrowedCell::Frame(frame)) => {
                t.submit(Command::Set, &frame[..len]).map(Flight::Frame)
            }
            _ => Err(Calls::no_calls()),
        }
    }

    pub fn give_back(self, function: &Active) {
        let claim = match self {
            BorrowedCell::Space(claim, space) => {
                // First: whoever claims the cell next borrows this space.
                drop(space);
                claim
            }
            BorrowedCell::Line(claim, _) => claim,
            BorrowedCell::Frame(_) => return,
        };
        if let Ok(Way::Window(w)) = function.calls.way() {
            w.unclaim(claim);
        }
    }
}

impl<'a> Slot<'a> {
    pub(crate) fn borrow(function: &'a Arc<Active>) -> Result<Self> {
        Ok(Slot { function, held: Some(BorrowedCell::borrow(function)?) })
    }

    /// Starts the call with the first `len` bytes as its arguments.
    pub fn submit(mut self, len: usize) -> Result<Pending<'a>> {
        let function = self.function;
        let held = self.held.take().ok_or(Calls::no_calls())?;
        Ok(Pending::new(function, held.submit(function, len)?))
    }

    /// Calls with the first `len` bytes as arguments and waits for the
    /// results, into a buffer: their length.
    pub fn call_into(mut self, len: usize, results: &mut [u8]) -> Result<usize> {
        let function = self.function;
        let held = self.held.take().ok_or(Calls::no_calls())?;
        let flight = held.submit(function, len)?;
        match function.calls.wait(flight, None, IntoBuffer(results)) {
            crate::calls::CallEnd::Done(result) => result,
            crate::calls::CallEnd::Flying(flight) => {
                function.calls.abandon(flight);
                Err(Error::TimedOut(std::time::Duration::ZERO))
            }
        }
    }
}

impl Deref for Slot<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], BorrowedCell::bytes)
    }
}

impl DerefMut for Slot<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.held.as_mut().map_or(&mut [], BorrowedCell::bytes_mut)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back(self.function);
        }
    }
}
