//! Attributes of queue pairs.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::domains::path;
use crate::errno::{Errno, checked, number};
use crate::generated::{vfun_nic_path, vfun_nic_qp_attr, vfun_nic_qp_modify, vfun_nic_qp_query};
use crate::qp::Qp;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use vfun_verbs::flags::attribute;

/// `IBV_MIG_MIGRATED`: there are no alternate paths.
const MIGRATED: u32 = 0;

fn to_nic(attr: &ibv_qp_attr) -> vfun_nic_qp_attr {
    vfun_nic_qp_attr {
        path: path(&attr.ah_attr),
        state: attr.qp_state,
        current_state: attr.cur_qp_state,
        path_mtu: attr.path_mtu,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qpn: attr.dest_qp_num,
        access: attr.qp_access_flags,
        pkey_index: attr.pkey_index,
        port: attr.port_num,
        sqd_notify: attr.en_sqd_async_notify,
        sq_draining: attr.sq_draining,
        reads: attr.max_rd_atomic,
        reads_of_peer: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        reserved: 0,
    }
}

/// `int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: C's rules for this function. Members that the mask does not name may be anything: they are
    // numbers.
    let (of, attr) = unsafe { (Qp::of(qp), &*attr) };
    let mask = mask as u32;
    // SAFETY: the NIC's object is of this pair.
    let changed = checked(unsafe { vfun_nic_qp_modify(of.nic, mask, &masked(attr, mask)) });
    number(changed.map(|()| {
        if mask & attribute::STATE != 0 {
            of.set_state(attr.qp_state);
            // SAFETY: the program's struct; the program changes a pair in one thread at a time.
            unsafe { (*qp).state = attr.qp_state };
        }
    }))
}

/// The attributes that the mask names; the others are zero, as programs leave them unset.
fn masked(attr: &ibv_qp_attr, mask: u32) -> vfun_nic_qp_attr {
    use attribute::*;
    // SAFETY: zeros are numbers.
    let mut to: vfun_nic_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    let from = to_nic(attr);
    macro_rules! take {
        ($($bit:ident: $($member:ident),*;)*) => {
            $(if mask & $bit != 0 { $(to.$member = from.$member;)* })*
        };
    }
    take! {
        STATE: state;
        CUR_STATE: current_state;
        EN_SQD_ASYNC_NOTIFY: sqd_notify;
        ACCESS_FLAGS: access;
        PKEY_INDEX: pkey_index;
        PORT: port;
        QKEY: qkey;
        AV: path;
        PATH_MTU: path_mtu;
        TIMEOUT: timeout;
        RETRY_CNT: retry_count;
        RNR_RETRY: rnr_retry;
        RQ_PSN: rq_psn;
        MAX_QP_RD_ATOMIC: reads;
        MIN_RNR_TIMER: min_rnr_timer;
        SQ_PSN: sq_psn;
        MAX_DEST_RD_ATOMIC: reads_of_peer;
        DEST_QPN: dest_qpn;
    }
    to
}

fn ah_attr(path: &vfun_nic_path) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: path.gid },
            flow_label: path.flow_label,
            sgid_index: path.sgid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        dlid: path.lid,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global,
        port_num: path.port,
    }
}

fn of_nic(told: &vfun_nic_qp_attr, cap: ibv_qp_cap) -> ibv_qp_attr {
    // SAFETY: zeros are numbers.
    let none: ibv_ah_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    ibv_qp_attr {
        qp_state: told.state,
        cur_qp_state: told.current_state,
        path_mtu: told.path_mtu,
        path_mig_state: MIGRATED,
        qkey: told.qkey,
        rq_psn: told.rq_psn,
        sq_psn: told.sq_psn,
        dest_qp_num: told.dest_qpn,
        qp_access_flags: told.access,
        cap,
        ah_attr: ah_attr(&told.path),
        alt_ah_attr: none,
        pkey_index: told.pkey_index,
        alt_pkey_index: 0,
        en_sqd_async_notify: told.sqd_notify,
        sq_draining: told.sq_draining,
        max_rd_atomic: told.reads,
        max_dest_rd_atomic: told.reads_of_peer,
        min_rnr_timer: told.min_rnr_timer,
        port_num: told.port,
        timeout: told.timeout,
        retry_cnt: told.retry_count,
        rnr_retry: told.rnr_retry,
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

/// What the NIC says of a queue pair.
fn query(of: &Qp) -> Result<vfun_nic_qp_attr, Errno> {
    let mut told = MaybeUninit::uninit();
    // SAFETY: the place is ours, and the NIC's object is of this pair.
    checked(unsafe { vfun_nic_qp_query(of.nic, told.as_mut_ptr()) })?;
    // SAFETY: it was written: the call succeeded.
    Ok(unsafe { told.assume_init() })
}

/// `int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
/// struct ibv_qp_init_attr *init)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Qp::of(qp) };
    let base = &of.head.base;
    number(query(of).map(|told| {
        // SAFETY: the program's places, and its struct.
        unsafe {
            attr.write(of_nic(&told, of.caps));
            (*qp).state = told.state;
            init.write(ibv_qp_init_attr {
                qp_context: base.qp_context,
                send_cq: base.send_cq,
                recv_cq: base.recv_cq,
                srq: base.srq,
                cap: of.caps,
                qp_type: base.qp_type,
                sq_sig_all: of.all_signaled.into(),
            });
        }
    }))
}
