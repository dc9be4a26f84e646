//! Names of hosts and services.
#![allow(unsafe_code)]

use super::abi::*;
use super::id::kind_of;
use crate::errno::{EINVAL, ENOMEM, minus_one};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use vfun_verbs::QpType;

const RC: c_int = QpType::Rc as c_int;
const UD: c_int = QpType::Ud as c_int;

/// What the C library is asked.
fn question(hints: &rdma_addrinfo) -> libc::addrinfo {
    // SAFETY: zeros are null pointers and numbers.
    let mut ask: libc::addrinfo = unsafe { MaybeUninit::zeroed().assume_init() };
    let datagrams = hints.ai_qp_type == UD || hints.ai_port_space as u32 == PS_UDP;
    ask.ai_socktype = if datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
    if hints.ai_flags & RAI_PASSIVE != 0 {
        ask.ai_flags |= libc::AI_PASSIVE;
    }
    if hints.ai_flags & RAI_NUMERICHOST != 0 {
        ask.ai_flags |= libc::AI_NUMERICHOST;
    }
    if hints.ai_flags & RAI_FAMILY != 0 {
        ask.ai_family = hints.ai_family;
    }
    ask
}

/// A copy of an address, for `free`; null if there is none.
///
/// # Safety
/// There are so many bytes.
unsafe fn copy(from: *const libc::sockaddr, bytes: libc::socklen_t) -> *mut libc::sockaddr {
    if from.is_null() || bytes == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's; the place is as large.
    unsafe {
        let to = libc::malloc(bytes as usize);
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), bytes as usize);
        }
        to.cast()
    }
}

/// Fills the answer in from what the C library found.
///
/// # Safety
/// `found` is an answer of getaddrinfo.
unsafe fn fill(to: &mut rdma_addrinfo, found: *const libc::addrinfo) {
    // SAFETY: the caller's.
    let found = unsafe { &*found };
    to.ai_family = found.ai_family;
    // SAFETY: as above.
    let at = unsafe { copy(found.ai_addr, found.ai_addrlen) };
    if to.ai_flags & RAI_PASSIVE != 0 {
        (to.ai_src_addr, to.ai_src_len) = (at, found.ai_addrlen);
    } else {
        (to.ai_dst_addr, to.ai_dst_len) = (at, found.ai_addrlen);
    }
}

/// Fills in the addresses that the program has already and did not ask for.
///
/// # Safety
/// C's rules for the hints.
unsafe fn fill_from_hints(to: &mut rdma_addrinfo, hints: *const rdma_addrinfo) {
    // SAFETY: the caller's.
    let Some(hints) = (unsafe { hints.as_ref() }) else { return };
    if to.ai_src_addr.is_null() {
        // SAFETY: as above.
        to.ai_src_addr = unsafe { copy(hints.ai_src_addr, hints.ai_src_len) };
        to.ai_src_len = if to.ai_src_addr.is_null() { 0 } else { hints.ai_src_len };
    }
    if to.ai_dst_addr.is_null() {
        // SAFETY: as above.
        to.ai_dst_addr = unsafe { copy(hints.ai_dst_addr, hints.ai_dst_len) };
        to.ai_dst_len = if to.ai_dst_addr.is_null() { 0 } else { hints.ai_dst_len };
    }
}

/// The kind of queue pairs and the space, each by the other where it is not said.
fn complete(to: &mut rdma_addrinfo) {
    if to.ai_port_space == 0 {
        to.ai_port_space = if to.ai_qp_type == UD { PS_UDP } else { PS_TCP } as c_int;
    }
    if to.ai_qp_type == 0 {
        to.ai_qp_type = kind_of(to.ai_port_space as u32).map_or(RC, |kind| kind as c_int);
    }
}

/// `int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
/// struct rdma_addrinfo **answer)`. A failure of names has a number of `netdb.h`.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    answer: *mut *mut rdma_addrinfo,
) -> c_int {
    if node.is_null() && service.is_null() && hints.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: zeros are null pointers and numbers.
    let mut to: rdma_addrinfo = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: C's rules for this function.
    if let Some(hints) = unsafe { hints.as_ref() } {
        to.ai_flags = hints.ai_flags;
        to.ai_family = hints.ai_family;
        to.ai_qp_type = hints.ai_qp_type;
        to.ai_port_space = hints.ai_port_space;
    }
    if !node.is_null() || !service.is_null() {
        let (ask, mut found) = (question(&to), std::ptr::null_mut());
        // SAFETY: the program's names, and a place of ours.
        let failed = unsafe { libc::getaddrinfo(node, service, &ask, &mut found) };
        if failed != 0 {
            return failed;
        }
        // SAFETY: it was found, and is let go of once.
        unsafe {
            fill(&mut to, found);
            libc::freeaddrinfo(found);
        }
    }
    complete(&mut to);
    // SAFETY: C's rules for this function.
    unsafe { fill_from_hints(&mut to, hints) };
    let place = Box::into_raw(Box::new(to));
    if answer.is_null() {
        // SAFETY: nobody has it.
        unsafe { rdma_freeaddrinfo(place) };
        return minus_one(Err(ENOMEM));
    }
    // SAFETY: the program's place.
    unsafe { answer.write(place) };
    0
}

/// `void rdma_freeaddrinfo(struct rdma_addrinfo *info)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    if !info.is_null() {
        // SAFETY: it is one of rdma_getaddrinfo, once; its addresses came from malloc.
        unsafe {
            let info = Box::from_raw(info);
            libc::free(info.ai_src_addr.cast());
            libc::free(info.ai_dst_addr.cast());
        }
    }
}
