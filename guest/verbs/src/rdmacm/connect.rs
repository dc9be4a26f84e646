//! Connecting, accepting, rejecting, disconnecting.
#![allow(unsafe_code)]

use super::abi::*;
use super::address;
use super::channel::result;
use super::events::complete;
use super::id::CmId;
use super::pair::{self, READS};
use crate::errno::{EINVAL, Errno, checked};
use crate::generated::{
    vfun_nic_cm_accept, vfun_nic_cm_connect, vfun_nic_cm_data, vfun_nic_cm_disconnect,
    vfun_nic_cm_establish, vfun_nic_cm_offer, vfun_nic_cm_place, vfun_nic_cm_reject,
};
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;
use vfun_verbs::QpState;

/// Bytes that the other program may be told: `VFUN_NIC_CM_DATA_BYTES`.
const DATA_MAX: usize = 196;
/// Tries, where the program does not say.
const RETRIES: u8 = 7;

/// Copies the program's bytes.
fn data(from: *const c_void, bytes: u8) -> Result<vfun_nic_cm_data, Errno> {
    let mut to = vfun_nic_cm_data { length: 0, bytes: [0; DATA_MAX] };
    if from.is_null() || bytes == 0 {
        return Ok(to);
    }
    let place = to.bytes.get_mut(..bytes.into()).ok_or(EINVAL)?;
    // SAFETY: the program's bytes, by C's rules.
    place.copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast(), bytes.into()) });
    to.length = bytes.into();
    Ok(to)
}

/// The program's parameters, or what is usual.
fn parameters(of: &CmId, from: *const rdma_conn_param) -> rdma_conn_param {
    if !from.is_null() {
        // SAFETY: the program's struct, by C's rules.
        return unsafe { *from };
    }
    let peer = of.peer.lock().unwrap_or_else(PoisonError::into_inner);
    // Who accepts takes what the other one asks for.
    let asked = peer.qpn != 0;
    rdma_conn_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        responder_resources: if asked { peer.initiator_depth } else { READS },
        initiator_depth: if asked { peer.responder_resources } else { READS },
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    }
}

fn offer(of: &CmId, with: &rdma_conn_param) -> vfun_nic_cm_offer {
    vfun_nic_cm_offer {
        qpn: pair::qp_number(of, with.qp_num),
        qkey: if of.is_datagram() { UDP_QKEY } else { 0 },
        responder_resources: with.responder_resources.min(READS),
        initiator_depth: with.initiator_depth.min(READS),
        flow_control: with.flow_control,
        retry_count: with.retry_count,
        rnr_retry: with.rnr_retry_count,
        srq: u8::from(with.srq != 0 || !of.head.srq.is_null()),
        reserved: 0,
    }
}

/// `int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    result(connect(of, param).and_then(|()| complete(of)))
}

fn connect(of: &mut CmId, param: *const rdma_conn_param) -> Result<(), Errno> {
    let to = of.destination().ok_or(EINVAL)?;
    let with = parameters(of, param);
    let said = data(with.private_data, with.private_data_len)?;
    let place = vfun_nic_cm_place {
        gid: address::gid(to.ip()),
        port: to.port(),
        is_here: address::is_here(to.ip()).into(),
    };
    let offer = offer(of, &with);
    // SAFETY: the NIC's object is of this id; the structs are ours.
    checked(unsafe { vfun_nic_cm_connect(of.nic, &place, &offer, &said) })
}

/// `int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let done = accept(of, param).and_then(|()| match of.is_datagram() {
        true => Ok(()),
        false => complete(of),
    });
    result(done)
}

fn accept(of: &mut CmId, param: *const rdma_conn_param) -> Result<(), Errno> {
    let with = parameters(of, param);
    let said = data(with.private_data, with.private_data_len)?;
    if !of.head.qp.is_null() && !of.is_datagram() {
        // What both can do.
        let mut peer = of.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.initiator_depth = peer.initiator_depth.min(with.responder_resources);
        peer.responder_resources = peer.responder_resources.min(with.initiator_depth);
        drop(peer);
        pair::connect(of)?;
    }
    let offer = offer(of, &with);
    // SAFETY: the NIC's object is of this id; the structs are ours.
    checked(unsafe { vfun_nic_cm_accept(of.nic, &offer, &said) })
}

/// `int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t bytes)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    bytes: u8,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let said = data(private_data, bytes);
    // SAFETY: the NIC's object is of this id; the struct is ours.
    result(said.and_then(|said| checked(unsafe { vfun_nic_cm_reject(of.nic, &said) })))
}

/// `int rdma_establish(struct rdma_cm_id *id)`: of who connects its own queue pair.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_establish(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    // SAFETY: the NIC's object is of this id.
    result(checked(unsafe { vfun_nic_cm_establish(of.nic) }))
}

/// `int rdma_disconnect(struct rdma_cm_id *id)`: its queue pair fails, and what was posted is flushed.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let flushed = match of.head.qp.is_null() {
        true => Ok(()),
        false => pair::bring(of, QpState::Error),
    };
    // SAFETY: the NIC's object is of this id.
    let ended = flushed.and_then(|()| checked(unsafe { vfun_nic_cm_disconnect(of.nic) }));
    result(ended.and_then(|()| complete(of)))
}

/// `int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)`: that a queue pair was reached before
/// its connection was. Here that changes nothing: the peer is told by the host.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_notify(_id: *mut rdma_cm_id, _event: u32) -> c_int {
    0
}
