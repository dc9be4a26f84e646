//! For those who serve others' calls, such as the gateway: a call under way
//! that keeps its function alive, and a release that does not wait for calls.

use crate::calls::{Flight, Landed, Sink};
use crate::error::{Error, Result};
use crate::function::{Active, Function};
use crate::grant::Stats;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfun_window::ReadSpan;
use vfun_wire::channel::Command;

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
        let flight = self.inner.calls.submit(command, args)?;
        Ok(OwnedPending { function: self.inner.clone(), flight: Some(flight) })
    }

    /// As [`Function::release`], while others still hold or call it: their
    /// calls end with [`crate::Error::Released`].
    #[doc(hidden)]
    pub fn release_shared(&self) -> Result<Stats> {
        self.inner.hold.release()
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
            Landed::Done(result) => result,
            Landed::Flying(flight) => {
                self.flight = Some(flight);
                Err(Error::Unsupported("the wait ended without an answer"))
            }
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
