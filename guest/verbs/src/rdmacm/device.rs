//! The device that connections use: one context for all of them.
#![allow(unsafe_code)]

use crate::abi::{ibv_context, ibv_pd};
use crate::context::Context;
use crate::domains::ibv_alloc_pd;
use crate::errno::{self, ENOMEM, Errno};
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

struct CmDevice {
    context: &'static Context,
    /// The protection domain of who names none.
    pd: *mut ibv_pd,
}

// SAFETY: a domain may be used by any thread.
unsafe impl Send for CmDevice {}

static DEVICE: Mutex<Option<CmDevice>> = Mutex::new(None);

fn device<T>(use_it: impl FnOnce(&mut CmDevice) -> T) -> Result<T, Errno> {
    let mut all = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    // One whose NIC is gone stays, for what the program made of it.
    if all.as_ref().is_none_or(|device| device.context.is_lost()) {
        *all = Some(CmDevice { context: Context::open()?, pd: std::ptr::null_mut() });
    }
    Ok(use_it(all.as_mut().expect("just made")))
}

/// The context, opened if there is none.
pub fn context() -> Result<&'static Context, Errno> {
    device(|device| device.context)
}

/// Its own protection domain.
pub fn pd() -> Result<*mut ibv_pd, Errno> {
    let pd = device(|device| {
        if device.pd.is_null() {
            // SAFETY: the context is open.
            device.pd = unsafe { ibv_alloc_pd(device.context.pointer()) };
        }
        device.pd
    })?;
    if pd.is_null() { Err(ENOMEM) } else { Ok(pd) }
}

/// `struct ibv_context **rdma_get_devices(int *num_devices)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    let made = context().map(|context| {
        if !count.is_null() {
            // SAFETY: the program's place.
            unsafe { *count = 1 };
        }
        Box::into_raw(Box::new([context.pointer(), std::ptr::null_mut()])).cast()
    });
    errno::pointer(made)
}

/// `void rdma_free_devices(struct ibv_context **list)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    if !list.is_null() {
        // SAFETY: it is one that rdma_get_devices made, once.
        drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_context; 2]>()) });
    }
}
