//! Borrowed cells in C.

use super::edge::{Failure, edge, given, put, taken};
use super::function::vfun_function;
use super::pending::vfun_pending;
use super::status::vfun_status;
use crate::function::Active;
use crate::slot::BorrowedCell;
use std::ffi::c_void;
use std::sync::Arc;

/// A cell lent out, to write arguments where the service reads them. One
/// thread at a time may use it.
pub struct vfun_slot {
    function: Arc<Active>,
    held: Option<BorrowedCell>,
}

impl Drop for vfun_slot {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back(&self.function);
        }
    }
}

/// Lends a cell out: *bytes points to *room bytes to write arguments into,
/// until the slot is ended, also if its function is released before. *slot is the
/// caller's, to be ended by vfun_submit_borrowed or vfun_give_back. VFUN_STATUS_FULL if every cell is in use.
///
/// # Safety
/// function is open; slot, bytes and room point to room for what they get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_borrow(
    function: *const vfun_function,
    slot: *mut *mut vfun_slot,
    bytes: *mut *mut c_void,
    room: *mut usize,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(slot, std::ptr::null_mut(), "slot is null")?;
            put(bytes, std::ptr::null_mut(), "bytes is null")?;
            put(room, 0, "room is null")?;
            let function = given(function, "function is null")?.function.inner.clone();
            let held = BorrowedCell::borrow(&function)?;
            // Boxed first: bytes that lie in the slot itself must not move.
            let mut lent = Box::new(vfun_slot { function, held: Some(held) });
            if let Some(held) = &mut lent.held {
                let span = held.bytes_mut();
                put(room, span.len(), "room is null")?;
                put(bytes, span.as_mut_ptr().cast(), "bytes is null")?;
            }
            put(slot, Box::into_raw(lent), "slot is null")
        }
    })
}

/// Starts the call with the first len bytes as its arguments. The slot is
/// gone, whatever the status. *pending as for vfun_submit.
///
/// # Safety
/// slot is not used again; pending points to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_submit_borrowed(
    slot: *mut vfun_slot,
    len: usize,
    pending: *mut *mut vfun_pending,
) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let mut slot = taken(slot, "slot is null")?;
            put(pending, std::ptr::null_mut(), "pending is null")?;
            let held =
                slot.held.take().ok_or(Failure::Argument("the slot was submitted already"))?;
            let flight = held.submit(&slot.function, len)?;
            put(pending, vfun_pending::handle(slot.function.clone(), flight), "pending is null")
        }
    })
}

/// Gives a borrowed cell back unused.
///
/// # Safety
/// slot is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_give_back(slot: *mut vfun_slot) -> vfun_status {
    edge(|| {
        // SAFETY: the caller's promise.
        let s = unsafe { taken(slot, "slot is null")? };
        Ok(s.function.calls.way().map(|_| ())?)
    })
}
