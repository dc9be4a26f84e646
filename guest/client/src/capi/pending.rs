//! Calls under way in C.

use super::edge::{Edge, Failure, bytes, edge, given, put, room, taken};
use super::function::{finish, vfun_function};
use super::status::vfun_status;
use crate::calls::{Flight, Into, Landed};
use crate::error::Error;
use crate::function::Active;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfun_wire::channel::Command;

/// A call under way. One thread at a time may use it.
pub struct vfun_pending {
    function: Arc<Active>,
    flight: Option<Flight>,
}

impl vfun_pending {
    /// A handle that C owns from now on.
    pub(super) fn handle(function: Arc<Active>, flight: Flight) -> *mut vfun_pending {
        Box::into_raw(Box::new(vfun_pending { function, flight: Some(flight) }))
    }

    fn flight(&self) -> Edge<&Flight> {
        self.function.calls.way()?;
        self.flight.as_ref().ok_or(Failure::Argument("the call was waited for already"))
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
            let args = bytes(args, args_len, "args is null but has a length")?;
            let flight = f.function.inner.calls.submit(Command::Set, args)?;
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
            let results = self::room(results, room, "results is null but has room")?;
            let flight =
                p.flight.take().ok_or(Failure::Argument("the call was waited for already"))?;
            match p.function.calls.wait(flight, None, Into(results)) {
                Landed::Done(done) => finish(done, result_len),
                Landed::Flying(flight) => {
                    p.flight = Some(flight);
                    Err(Error::TimedOut(Duration::ZERO).into())
                }
            }
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
