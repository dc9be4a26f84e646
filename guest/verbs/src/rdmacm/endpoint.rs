//! Endpoints: an id, resolved and with a queue pair, by one call.
#![allow(unsafe_code)]

use super::abi::*;
use super::channel::result;
use super::id::{self, CmId, rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route};
use super::pair::{self, rdma_destroy_srq};
use crate::abi::{ibv_pd, ibv_qp_init_attr};
use crate::errno::{self, Errno};
use std::ffi::c_int;
use std::sync::PoisonError;

/// How long names of addresses may take, ms: as librdmacm has it.
const PATIENCE_MS: c_int = 2000;

fn done(returned: c_int) -> Result<(), Errno> {
    if returned == 0 { Ok(()) } else { Err(errno::last()) }
}

fn make(
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<*mut CmId, Errno> {
    let none = (std::ptr::null_mut(), std::ptr::null_mut());
    let id = id::make(none, (info.ai_port_space as u32, info.ai_qp_type as u32), None)?;
    let ready = prepare(id, info, pd, init);
    ready.map(|()| id).inspect_err(|_| {
        let _ = id::destroy(id);
    })
}

fn prepare(
    id: *mut CmId,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: it was just made.
    let of = unsafe { &mut *id };
    if info.ai_flags & RAI_PASSIVE != 0 {
        // SAFETY: the id is ours, the address the program's.
        done(unsafe { rdma_bind_addr(id.cast(), info.ai_src_addr) })?;
        if !init.is_null() {
            // SAFETY: the program's struct, by C's rules.
            let mut gets = unsafe { *init };
            gets.qp_type = info.ai_qp_type as u32;
            *of.requests_get.lock().unwrap_or_else(PoisonError::into_inner) = Some((pd, gets));
        }
        return Ok(());
    }
    // SAFETY: as above.
    unsafe {
        done(rdma_resolve_addr(id.cast(), info.ai_src_addr, info.ai_dst_addr, PATIENCE_MS))?;
        done(rdma_resolve_route(id.cast(), PATIENCE_MS))?;
    }
    if init.is_null() {
        return Ok(());
    }
    // SAFETY: the program's struct, by C's rules.
    let init = unsafe { &mut *init };
    init.qp_type = info.ai_qp_type as u32;
    pair::create(of, pd, init)
}

/// `int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *info, struct ibv_pd *pd,
/// struct ibv_qp_init_attr *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let made = make(unsafe { &*info }, pd, init);
    // SAFETY: the program's place.
    result(made.map(|made| unsafe { id.write(made.cast()) }))
}

/// `void rdma_destroy_ep(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: C's rules for this function.
    unsafe {
        pair::destroy(CmId::of(id));
        rdma_destroy_srq(id);
    }
    let _ = id::destroy(id.cast());
}
