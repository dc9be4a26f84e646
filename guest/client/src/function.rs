//! An active function.

use crate::calls::{Calls, IntoBuffer, ReadWith, Results, ToVec, Way};
use crate::error::{Error, Result};
use crate::grant::{GrantInfo, HeldGrant, Stats};
use crate::pending::Pending;
use crate::slot::Slot;
use crate::wait::Sleeper;
use std::sync::Arc;
use std::time::Duration;
use vfun_ring::WindowMemory;
use vfun_wire::channel::Command;

/// An active function, to be called by any number of threads at once.
/// Dropping it releases the grant.
pub struct Function {
    pub(crate) inner: Arc<Active>,
}

/// What a function, its pending calls and its C handles share.
pub(crate) struct Active {
    /// First, so that the channel is unmapped before the grant goes back.
    pub calls: Calls,
    pub hold: HeldGrant,
}

impl Active {
    /// Lets go of the channel, then gives the grant back and says what it did.
    pub fn end(&self) -> Result<Stats> {
        self.calls.cut_off()?;
        self.hold.release()
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        // Somebody may still have a span of the channel's memory.
        let _ = self.calls.cut_off();
    }
}

impl Function {
    pub(crate) fn new(hold: HeldGrant, calls: Calls) -> Self {
        let inner = Arc::new(Active { calls, hold });
        inner.hold.session.adopt(&inner);
        Function { inner }
    }

    /// Calls the function and waits for its results. Waits for a free cell if
    /// all are in use.
    pub fn call(&self, args: &[u8]) -> Result<Vec<u8>> {
        self.inner.calls.call(Command::Set, args, ToVec)
    }

    /// As [`Function::call`], into a buffer: the length of the results. Allocates nothing.
    #[inline]
    pub fn call_into(&self, args: &[u8], results: &mut [u8]) -> Result<usize> {
        self.inner.calls.call(Command::Set, args, IntoBuffer(results))
    }

    /// As [`Function::call`], but reads the results in place, without copying them.
    pub fn call_with<T>(&self, args: &[u8], read: impl FnOnce(Results<'_>) -> T) -> Result<T> {
        self.inner.calls.call(Command::Set, args, ReadWith(read))
    }

    /// As [`Function::call`], but waits at most `limit`, the wait for a free cell included.
    /// Then it ends with [`crate::Error::TimedOut`]. A call that was posted goes on; its
    /// results are dropped.
    pub fn call_for(&self, args: &[u8], limit: Duration) -> Result<Vec<u8>> {
        self.inner.calls.call_for(Command::Set, args, limit, ToVec)
    }

    /// As [`Function::call_for`], into a buffer: the length of the results.
    pub fn call_into_for(&self, args: &[u8], results: &mut [u8], limit: Duration) -> Result<usize> {
        self.inner.calls.call_for(Command::Set, args, limit, IntoBuffer(results))
    }

    /// Clears what the function keeps between calls of this channel.
    pub fn rst(&self) -> Result<()> {
        self.inner.calls.call(Command::Rst, &[], ReadWith(|_: Results<'_>| ()))
    }

    /// Starts a call and returns at once. Fails with [`crate::Error::Full`] if
    /// every cell is in use.
    #[inline]
    pub fn submit(&self, args: &[u8]) -> Result<Pending<'_>> {
        self.inner.calls.submit(Command::Set, args, |flight| Pending::new(&self.inner, flight))
    }

    /// Borrows a cell, so that you can write the arguments where the service
    /// reads them. Fails with [`crate::Error::Full`] if every cell is in use.
    pub fn borrow(&self) -> Result<Slot<'_>> {
        Slot::borrow(&self.inner)
    }

    /// The grant as the host recorded it.
    pub fn info(&self) -> &GrantInfo {
        &self.inner.hold.info
    }

    /// What the grant has done so far, as the host counts it. Asks the manager.
    pub fn stats(&self) -> Result<Stats> {
        self.inner.hold.stats()
    }

    /// The raw lines of a channel of kind [`crate::ChannelKind::Floor`]. While you wait for
    /// answers to lines, call [`Function::wake_floor`] now and then.
    pub fn floor(&self) -> Option<&WindowMemory> {
        match self.inner.calls.way() {
            Ok(Way::Floor(lines)) => Some(lines.memory()),
            _ => None,
        }
    }

    /// Whether raw lines are still answered. If not, the error says why, as for a call:
    /// [`crate::Error::Released`] if the function was released or its session closed.
    /// Sending a line does not show this, so call this now and then if no answer comes.
    /// The word `BROKEN` of the channel's header says it too (R-CHN-3).
    pub fn check_floor(&self) -> Result<()> {
        match self.inner.calls.way()? {
            Way::Floor(lines) => lines.check(),
            _ => Err(Error::Unsupported(
                "this channel carries calls, not raw lines: negotiate the kind 'floor'",
            )),
        }
    }

    /// Wakes the service of raw lines if it sleeps. It sleeps if no line came for
    /// a while, and sending a line does not ring. Returns whether it was rung: `false` also
    /// if nothing can ring, if the service looks by itself every few milliseconds,
    /// and for functions with calls.
    pub fn wake_floor(&self) -> bool {
        match self.inner.calls.way() {
            Ok(Way::Floor(lines)) => lines.wake(),
            _ => false,
        }
    }

    /// The memory of a channel of calls without data space, for another caller than this
    /// one, such as code in a virtual machine that has this program's memory. Only one of
    /// the two may call, from the first call on.
    #[doc(hidden)]
    pub fn cells(&self) -> Option<&WindowMemory> {
        match self.inner.calls.way() {
            Ok(Way::Window(w)) => w.memory_without_spaces(),
            _ => None,
        }
    }

    /// Rings the service if it has declared that it sleeps (R-SLP-2), for a caller that
    /// cannot.
    #[doc(hidden)]
    pub fn nudge(&self) {
        if let Ok(Way::Window(w)) = self.inner.calls.way() {
            w.nudge();
        }
    }

    /// Gives the grant back and returns what it did; all zeros if the session was
    /// closed before.
    pub fn release(self) -> Result<Stats> {
        self.inner.end()
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let i = self.info();
        write!(
            f,
            "Function({} {}, {}, {} cells of {} bytes)",
            i.function, i.version, i.location, i.depth, i.cell_bytes
        )
    }
}
