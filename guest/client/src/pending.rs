//! A call under way.

use crate::calls::{CallEnd, Flight, IntoBuffer, ReadWith, Results, Sink, ToVec};
use crate::error::{Error, Result};
use crate::function::Active;
use crate::waiter::InFlight;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfun_wire::channel::CellState;

/// A call under way. Dropping it does not stop the call: its cell frees
/// itself once the answer is there.
#[must_use = "a pending call is waited for, or abandoned when dropped"]
pub struct Pending<'a> {
    function: &'a Arc<Active>,
    flight: Option<Flight>,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(function: &'a Arc<Active>, flight: Flight) -> Self {
        Pending { function, flight: Some(flight) }
    }

    /// Whether the call is answered, so that waiting ends at once.
    pub fn poll(&mut self) -> bool {
        self.flight.as_ref().is_none_or(|f| self.function.calls.poll(f))
    }

    /// The call's state: ready, computing or finished. Over TCP a call that
    /// is not finished is always *ready*, because the gateway does not say more.
    pub fn state(&self) -> CellState {
        self.flight.as_ref().map_or(CellState::Done, |f| self.function.calls.state(f))
    }

    /// Waits for the results.
    pub fn wait(self) -> Result<Vec<u8>> {
        self.land(ToVec)
    }

    /// Waits for the results, into a buffer: their length.
    #[inline]
    pub fn wait_into(self, results: &mut [u8]) -> Result<usize> {
        self.land(IntoBuffer(results))
    }

    /// Waits for the results and reads them in place.
    pub fn wait_with<T>(self, read: impl FnOnce(Results<'_>) -> T) -> Result<T> {
        self.land(ReadWith(read))
    }

    /// Waits for the results at most this long, else [`Error::TimedOut`]. The
    /// call then goes on: wait again, or drop this to abandon it.
    pub fn wait_for(&mut self, timeout: Duration) -> Result<Vec<u8>> {
        self.land_within(Some(timeout), ToVec)
    }

    /// As [`Pending::wait_for`], into a buffer: the results' length. A buffer that is too
    /// small ends the call; [`Pending::peek`] shows the length before.
    pub fn wait_into_for(&mut self, results: &mut [u8], timeout: Duration) -> Result<usize> {
        self.land_within(Some(timeout), IntoBuffer(results))
    }

    /// Takes the results, if the call is answered. Never waits.
    pub fn try_wait(&mut self) -> Option<Result<Vec<u8>>> {
        self.poll().then(|| self.land_within(None, ToVec))
    }

    /// Reads results in place, if the call is answered, and leaves them there: to see
    /// their length, or instead of a copy. `None` if the call is not answered.
    pub fn peek<T>(&self, read: impl FnOnce(Results<'_>) -> T) -> Option<Result<T>> {
        match &self.flight {
            Some(flight) => self.function.calls.peek(flight, ReadWith(read)),
            None => Some(Err(taken())),
        }
    }

    /// What a [`crate::Waiter`] looks at while the call is computed.
    pub(crate) fn in_flight(&self) -> InFlight<'_> {
        InFlight::new(self.function, self.flight.as_ref())
    }

    /// Waits at most this long until the call is answered, and returns whether it is. The
    /// results stay for a later wait or look.
    pub fn ready_within(&mut self, timeout: Duration) -> bool {
        let until = Instant::now().checked_add(timeout);
        self.flight.as_ref().is_none_or(|f| self.function.calls.ready(f, until))
    }

    #[inline]
    fn land<S: Sink>(self, sink: S) -> Result<S::Out> {
        // From here on there is nothing to abandon: the wait has the call.
        let mut this = ManuallyDrop::new(self);
        let Some(flight) = this.flight.take() else { return Err(taken()) };
        this.function.calls.land(flight, sink)
    }

    #[inline]
    fn land_within<S: Sink>(&mut self, timeout: Option<Duration>, sink: S) -> Result<S::Out> {
        let until = timeout.and_then(|t| Instant::now().checked_add(t));
        let Some(flight) = self.flight.take() else { return Err(taken()) };
        match self.function.calls.wait(flight, until, sink) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(flight) => {
                self.flight = Some(flight);
                Err(Error::TimedOut(timeout.unwrap_or_default()))
            }
        }
    }
}

#[cold]
fn taken() -> Error {
    Error::Unsupported("the call's results were taken already")
}

impl Drop for Pending<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.function.calls.abandon(flight);
        }
    }
}
