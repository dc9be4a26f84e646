//! Calls under way in C.

use super::edge::{self, Edge, Failure, edge, given, put, taken};
use super::function::{finish, vfun_function};
use super::status::vfun_status;
use super::waiter::limit;
use crate::calls::{CallEnd, Flight, IntoBuffer, Place};
use crate::error::{Error, Result};
use crate::function::Active;
use crate::waiter::InFlight;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfun_wire::channel::Command;
use vfun_wire::limits::INLINE_BYTES;

const WAITED_FOR: Failure = Failure::Argument("the call was waited for already");

/// A call under way. One thread at a time may use it.
pub struct vfun_pending {
    function: Arc<Active>,
    flight: Option<Flight>,
    /// In-line results that were looked at.
    inline: [u8; INLINE_BYTES],
}

impl vfun_pending {
    /// A handle that C owns from now on.
    pub(super) fn handle(function: Arc<Active>, flight: Flight) -> *mut vfun_pending {
        let (flight, inline) = (Some(flight), [0; INLINE_BYTES]);
        Box::into_raw(Box::new(vfun_pending { function, flight, inline }))
    }

    /// What a waiter looks at while the call is computed.
    pub(super) fn in_flight(&self) -> InFlight<'_> {
        InFlight::new(&self.function, self.flight.as_ref())
    }

    fn flight(&self) -> Edge<&Flight> {
        self.function.calls.way()?;
        self.flight.as_ref().ok_or(WAITED_FOR)
    }

    /// Waits for the results: their length, or how the call failed. It is in flight
    /// still once `limit` has passed.
    fn land(&mut self, limit: Option<Duration>, results: &mut [u8]) -> Edge<Result<usize>> {
        let flight = self.flight.take().ok_or(WAITED_FOR)?;
        let until = limit.and_then(|l| Instant::now().checked_add(l));
        match self.function.calls.wait(flight, until, IntoBuffer(results)) {
            CallEnd::Done(done) => Ok(done),
            CallEnd::Flying(flight) => {
                self.flight = Some(flight);
                Err(Error::TimedOut(limit.unwrap_or_default()).into())
            }
        }
    }
}

impl Drop for vfun_pending {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.function.calls.abandon(flight);
        }
    }
}

/// Starts a call and returns at once; VFUN_STATUS_FULL if every cell is in
/// use. *pending is the caller's, to be ended by vfun_wait or vfun_abandon.
///
/// # Safety
/// function is open; args points to args_len bytes; pending to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_submit(
    function: *const vfun_function,
    args: *const c_void,
    args_len: usize,
    pending: *mut *mut vfun_pending,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(pending, std::ptr::null_mut(), "pending is null")?;
            let f = given(function, "function is null")?;
            let args = edge::args(args, args_len)?;
            let flight = f.function.inner.calls.submit(Command::Set, args, |flight| flight)?;
            put(pending, vfun_pending::handle(f.function.inner.clone(), flight), "pending is null")
        }
    })
}

/// Whether a call is answered, so that waiting ends at once.
///
/// # Safety
/// pending is under way; done points to a bool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_poll(pending: *const vfun_pending, done: *mut bool) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let p = given(pending, "pending is null")?;
            put(done, p.function.calls.poll(p.flight()?), "done is null")
        }
    })
}

/// Waits at most timeout_ms until a call is answered; VFUN_STATUS_TIMED_OUT if
/// it is not. The results stay for vfun_wait.
///
/// # Safety
/// pending is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_ready_within(
    pending: *const vfun_pending,
    timeout_ms: u32,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let p = unsafe { given(pending, "pending is null")? };
        let timeout = Duration::from_millis(timeout_ms.into());
        match p.function.calls.ready(p.flight()?, Instant::now().checked_add(timeout)) {
            true => Ok(()),
            false => Err(Error::TimedOut(timeout).into()),
        }
    })
}

/// Waits for a call's results, as vfun_call does. The handle is gone, whatever
/// the status.
///
/// # Safety
/// pending is not used again; results points to room bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_wait(
    pending: *mut vfun_pending,
    results: *mut c_void,
    room: usize,
    result_len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let mut p = taken(pending, "pending is null")?;
            finish(p.land(None, edge::results(results, room)?)?, result_len)
        }
    })
}

/// As vfun_wait, but waits at most timeout_ns (VFUN_NO_LIMIT: no limit). After
/// VFUN_STATUS_TIMED_OUT the call goes on and the handle stays the caller's: to be
/// waited for again, or abandoned. After any other status it is gone.
///
/// # Safety
/// pending is under way, and not used again after a status other than
/// VFUN_STATUS_TIMED_OUT; results points to room bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_wait_for(
    pending: *mut vfun_pending,
    timeout_ns: u64,
    results: *mut c_void,
    room: usize,
    result_len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let mut p = taken(pending, "pending is null")?;
            let done = p.land(limit(timeout_ns), edge::results(results, room)?);
            if p.flight.is_some() {
                // The caller has it still.
                let _ = Box::into_raw(p);
            }
            finish(done?, result_len)
        }
    })
}

/// The results of an answered call where they lie: *results and their *len, which
/// tells the room that vfun_wait needs. They stay until the handle is ended, by
/// vfun_wait or vfun_abandon. VFUN_STATUS_TIMED_OUT if the call is not answered
/// yet; a call that failed gives the status that vfun_wait would.
///
/// Results beyond 48 bytes lie in memory that the host shares and may change at
/// any time: copy what must not change, check the copy, use the copy.
///
/// # Safety
/// pending is under way; results and len point to room for what they get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_peek(
    pending: *mut vfun_pending,
    results: *mut *const c_void,
    len: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise; one thread at a time has the call.
        unsafe {
            put(results, std::ptr::null(), "results is null")?;
            put(len, 0, "len is null")?;
            let p = pending.as_mut().ok_or(Failure::Argument("pending is null"))?;
            let flight = p.flight.as_ref();
            let flight = flight.ok_or(WAITED_FOR)?;
            let seen = p.function.calls.peek(flight, Place(&mut p.inline));
            let (at, n) = seen.ok_or(Error::TimedOut(Duration::ZERO))??;
            put(results, at.cast(), "results is null")?;
            put(len, n, "len is null")
        }
    })
}

/// Ends a handle without waiting: the call goes on, its results are dropped.
///
/// # Safety
/// pending is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_abandon(pending: *mut vfun_pending) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let p = unsafe { taken(pending, "pending is null")? };
        Ok(p.function.calls.way().map(|_| ())?)
    })
}
