//! Address handles for answers: to the sender of a datagram.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::domains::ibv_create_ah;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use vfun_verbs::flags::completion;

/// What the word of a header that has version, class and label says.
const LABEL: u32 = 0xF_FFFF;
const CLASS_SHIFT: u32 = 20;
/// Hops that an answer may take: as many as there can be.
const HOPS: u8 = 0xFF;

/// `int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
/// struct ibv_grh *grh, struct ibv_ah_attr *attr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    _context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: zeros are numbers.
    let mut to: ibv_ah_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: C's rules for this function.
    let wc = unsafe { &*wc };
    to.dlid = wc.slid;
    to.sl = wc.sl;
    to.src_path_bits = wc.dlid_path_bits;
    to.port_num = port;
    if wc.wc_flags & u32::from(completion::GRH) != 0 {
        // SAFETY: the header that came with the datagram, wherever the program has it.
        let grh = unsafe { grh.read_unaligned() };
        let word = u32::from_be(grh.version_tclass_flow);
        to.is_global = 1;
        to.grh.dgid = grh.sgid;
        to.grh.flow_label = word & LABEL;
        to.grh.traffic_class = (word >> CLASS_SHIFT) as u8;
        to.grh.hop_limit = HOPS;
    }
    // SAFETY: the program's place.
    unsafe { attr.write(to) };
    0
}

/// `struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
/// uint8_t port)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let mut attr = MaybeUninit::uninit();
    // SAFETY: C's rules for this function; the place is written before it is read.
    unsafe {
        ibv_init_ah_from_wc((*pd).context, port, wc, grh, attr.as_mut_ptr());
        ibv_create_ah(pd, attr.as_mut_ptr())
    }
}
