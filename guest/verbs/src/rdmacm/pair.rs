//! Queue pairs of ids, and how they are connected.
#![allow(unsafe_code)]

use super::abi::*;
use super::channel::{Peer, result};
use super::id::CmId;
use crate::abi::*;
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::errno::{self, EINVAL, EOPNOTSUPP, Errno, checked};
use crate::modify::ibv_modify_qp;
use crate::qp::{ibv_create_qp, ibv_destroy_qp};
use crate::srq::{ibv_create_srq, ibv_destroy_srq};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::PoisonError;
use vfun_verbs::QpState;
use vfun_verbs::flags::{access, attribute};

/// `IBV_MTU_4096`; how long a receiver that is not ready asks to be left alone (0.64 ms); how long an
/// acknowledgement may take (67 ms), and how often one waits for it.
const MTU: u32 = 5;
const RNR_TIMER: u8 = 12;
const ACK_TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// Reads and atomics under way where the program does not say: as many as the NIC has.
pub const READS: u8 = 16;

/// How the peer is reached. Where it is known by a LID, the LID tells programs of one VM apart.
pub fn path_to(peer: &Peer) -> ibv_ah_attr {
    // SAFETY: zeros are numbers.
    let mut to: ibv_ah_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    to.grh.dgid.raw = peer.gid;
    to.grh.hop_limit = 1;
    to.dlid = peer.lid;
    to.port_num = 1;
    to
}

/// The attributes that bring a queue pair of this id into a state, and their mask.
pub fn attributes(of: &CmId, state: u32) -> Result<(ibv_qp_attr, u32), Errno> {
    use attribute::*;
    // SAFETY: zeros are numbers.
    let mut attr: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    let peer = of.peer.lock().unwrap_or_else(PoisonError::into_inner);
    attr.qp_state = state;
    (attr.port_num, attr.qkey) = (1, UDP_QKEY);
    attr.qp_access_flags = access::LOCAL_WRITE | access::REMOTE;
    attr.ah_attr = path_to(&peer);
    (attr.path_mtu, attr.dest_qp_num) = (MTU, peer.qpn);
    (attr.min_rnr_timer, attr.timeout, attr.retry_cnt) = (RNR_TIMER, ACK_TIMEOUT, RETRIES);
    attr.rnr_retry = peer.rnr_retry.min(RETRIES);
    attr.max_dest_rd_atomic = peer.initiator_depth.min(READS);
    attr.max_rd_atomic = peer.responder_resources.min(READS);
    let datagram = of.is_datagram();
    let mask = match u8::try_from(state).ok().and_then(QpState::from_wire) {
        Some(QpState::Init) if datagram => PKEY_INDEX | PORT | QKEY,
        Some(QpState::Init) => PKEY_INDEX | PORT | ACCESS_FLAGS,
        Some(QpState::Rtr) if datagram => 0,
        Some(QpState::Rtr) => {
            AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER
        }
        Some(QpState::Rts) if datagram => SQ_PSN,
        Some(QpState::Rts) => TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC,
        Some(QpState::Error) => 0,
        _ => return Err(EINVAL),
    };
    Ok((attr, STATE | mask))
}

/// Brings its queue pair into a state.
pub fn bring(of: &CmId, state: QpState) -> Result<(), Errno> {
    let (mut attr, mask) = attributes(of, state as u32)?;
    // SAFETY: the id's own queue pair, and attributes of ours.
    checked(unsafe { ibv_modify_qp(of.head.qp, &mut attr, mask as c_int) })
}

/// Connects its queue pair to the peer's.
pub fn connect(of: &CmId) -> Result<(), Errno> {
    bring(of, QpState::Rtr)?;
    bring(of, QpState::Rts)
}

/// A completion queue, with a channel, of an id for which the program has none.
fn own_cq(of: &mut CmId, entries: u32) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), Errno> {
    // SAFETY: the device of this id is open.
    let channel = unsafe { ibv_create_comp_channel(of.head.verbs) };
    if channel.is_null() {
        return Err(errno::last());
    }
    let id = of.pointer().cast();
    // SAFETY: as above; the channel was just made.
    let cq = unsafe { ibv_create_cq(of.head.verbs, entries.max(1) as c_int, id, channel, 0) };
    if cq.is_null() {
        let failed = errno::last();
        // SAFETY: nothing uses it.
        unsafe { ibv_destroy_comp_channel(channel) };
        return Err(failed);
    }
    Ok((channel, cq))
}

/// Makes a queue pair of an id, ready to be connected.
pub fn create(of: &mut CmId, pd: *mut ibv_pd, init: &mut ibv_qp_init_attr) -> Result<(), Errno> {
    if !of.head.qp.is_null() || of.head.verbs.is_null() {
        return Err(EINVAL);
    }
    if of.head.qp_type != init.qp_type {
        return Err(EINVAL);
    }
    if !pd.is_null() {
        of.head.pd = pd;
    }
    if init.send_cq.is_null() {
        (of.head.send_cq_channel, of.head.send_cq) = own_cq(of, init.cap.max_send_wr)?;
        init.send_cq = of.head.send_cq;
    }
    if init.recv_cq.is_null() {
        (of.head.recv_cq_channel, of.head.recv_cq) = own_cq(of, init.cap.max_recv_wr)?;
        init.recv_cq = of.head.recv_cq;
    }
    if init.srq.is_null() {
        init.srq = of.head.srq;
    }
    // SAFETY: the program's domain and queues, or this id's.
    of.head.qp = unsafe { ibv_create_qp(of.head.pd, init) };
    let made = if of.head.qp.is_null() { Err(errno::last()) } else { Ok(()) };
    let ready =
        made.and_then(|()| bring(of, QpState::Init)).and_then(|()| match of.is_datagram() {
            true => connect(of),
            false => Ok(()),
        });
    ready.inspect_err(|_| destroy(of))
}

/// Ends what [`create`] made.
pub fn destroy(of: &mut CmId) {
    let qp = std::mem::replace(&mut of.head.qp, std::ptr::null_mut());
    if !qp.is_null() {
        // SAFETY: this id's own.
        unsafe { ibv_destroy_qp(qp) };
    }
    for (cq, channel) in [
        (&mut of.head.send_cq, &mut of.head.send_cq_channel),
        (&mut of.head.recv_cq, &mut of.head.recv_cq_channel),
    ] {
        let cq = std::mem::replace(cq, std::ptr::null_mut());
        let channel = std::mem::replace(channel, std::ptr::null_mut());
        if !cq.is_null() {
            // SAFETY: this id's own, which nothing uses any more.
            unsafe {
                ibv_destroy_cq(cq);
                ibv_destroy_comp_channel(channel);
            }
        }
    }
}

/// `int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let (of, init) = unsafe { (CmId::of(id), &mut *init) };
    result(create(of, pd, init))
}

/// `int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    init: *mut ibv_qp_init_attr_ex,
) -> c_int {
    use numbers::init::*;
    // SAFETY: C's rules for this function.
    let (of, init) = unsafe { (CmId::of(id), &mut *init) };
    let flags = init.comp_mask & CREATE_FLAGS != 0 && init.create_flags != 0;
    if flags || init.comp_mask & !(PD | CREATE_FLAGS | SEND_OPS_FLAGS) != 0 {
        return result(Err(EOPNOTSUPP));
    }
    let pd = if init.comp_mask & PD != 0 { init.pd } else { std::ptr::null_mut() };
    let mut base = init.base();
    result(create(of, pd, &mut base).map(|()| {
        (init.cap, init.send_cq, init.recv_cq) = (base.cap, base.send_cq, base.recv_cq);
    }))
}

/// `void rdma_destroy_qp(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: C's rules for this function.
    destroy(unsafe { CmId::of(id) });
}

/// `int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    if !of.head.srq.is_null() || of.head.verbs.is_null() {
        return result(Err(EINVAL));
    }
    if !pd.is_null() {
        of.head.pd = pd;
    }
    // SAFETY: as above.
    of.head.srq = unsafe { ibv_create_srq(of.head.pd, init) };
    result(if of.head.srq.is_null() { Err(errno::last()) } else { Ok(()) })
}

/// `void rdma_destroy_srq(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let srq = std::mem::replace(&mut of.head.srq, std::ptr::null_mut());
    if !srq.is_null() {
        // SAFETY: this id's own.
        unsafe { ibv_destroy_srq(srq) };
    }
}

/// `int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)`: for the state that the
/// attributes name.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: C's rules for this function.
    let made = unsafe { attributes(CmId::of(id), (*attr).qp_state) };
    result(made.map(|(made, made_mask)| {
        // SAFETY: the program's places.
        unsafe {
            attr.write(made);
            mask.write(made_mask as c_int);
        }
    }))
}

/// The number of its queue pair, or what the program says of its own.
pub fn qp_number(of: &CmId, said: u32) -> u32 {
    // SAFETY: the id's queue pair lives.
    if of.head.qp.is_null() { said } else { unsafe { (*of.head.qp).qp_num } }
}
