//! Functions of libibverbs that this library has not, and says so.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::errno::{self, EOPNOTSUPP};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, Once, PoisonError};
use vfun_remoting_guest::say_once;

/// Says once for each function, on standard error, that it is not there and why.
pub fn say(function: &'static str, why: &str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(function) {
        say_once(&Once::new(), || vec![format!("{function} is not offered: {why}")]);
    }
}

/// The answer of such a function.
pub trait Refusal {
    fn refusal() -> Self;
}

impl Refusal for c_int {
    fn refusal() -> c_int {
        errno::set(EOPNOTSUPP);
        EOPNOTSUPP.0
    }
}

impl<T> Refusal for *mut T {
    fn refusal() -> *mut T {
        errno::set(EOPNOTSUPP);
        std::ptr::null_mut()
    }
}

impl Refusal for () {
    fn refusal() {}
}

macro_rules! refused {
    ($($why:literal: $(fn $name:ident($($type:ty),*) $(-> $returned:ty)?;)*)*) => {$($(
        /// Not offered.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $type),*) $(-> $returned)? {
            say(stringify!($name), $why);
            Refusal::refusal()
        }
    )*)*

        /// What is refused here, and why.
        pub const REFUSED: &[(&str, &str)] = &[$($((stringify!($name), $why),)*)*];
    };
}

refused! {
    "this NIC has no multicast":
    fn ibv_attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int;
    fn ibv_detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int;
    "objects belong to the process that made them":
    fn ibv_import_device(c_int) -> *mut ibv_context;
    fn ibv_import_pd(*mut ibv_context, u32) -> *mut ibv_pd;
    fn ibv_unimport_pd(*mut ibv_pd);
    fn ibv_import_mr(*mut ibv_pd, u32) -> *mut ibv_mr;
    fn ibv_unimport_mr(*mut ibv_mr);
    fn ibv_import_dm(*mut ibv_context, u32) -> *mut c_void;
    fn ibv_unimport_dm(*mut c_void);
    "memory of another device cannot move into the window":
    fn ibv_reg_dmabuf_mr(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
    "a completion queue keeps its size: make a new one":
    fn ibv_resize_cq(*mut ibv_cq, c_int) -> c_int;
    "this NIC negotiates no enhancements of connections":
    fn ibv_set_ece(*mut ibv_qp, *mut c_void) -> c_int;
}

/// `int ibv_rereg_mr(...)`: its error has a number of its own, `IBV_REREG_MR_ERR_INPUT`, which leaves the region
/// as it was.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rereg_mr(
    _mr: *mut ibv_mr,
    _flags: c_int,
    _pd: *mut ibv_pd,
    _addr: *mut c_void,
    _length: usize,
    _access: c_int,
) -> c_int {
    say("ibv_rereg_mr", "end the region and register the memory again");
    errno::set(EOPNOTSUPP);
    -1
}

/// `int ibv_query_ece(...)`: there are no options, which is a valid answer.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, ece: *mut [u32; 3]) -> c_int {
    // SAFETY: the program's place, of three numbers.
    unsafe { ece.write([0; 3]) };
    0
}

/// `int ibv_query_qp_data_in_order(...)`: data are written in order but for the last eight bytes, which come
/// last. That is more than nothing and less than the flag says.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: u32, _flags: u32) -> c_int {
    0
}

/// `int ibv_fork_init(void)`: a child of fork has none of the parent's objects, and nothing of the parent's
/// memory is lost to it.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `enum ibv_fork_status ibv_is_fork_initialized(void)`: `IBV_FORK_UNNEEDED`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

/// `int ibv_dontfork_range(void *base, size_t size)`: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// `int ibv_dofork_range(void *base, size_t size)`: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}
