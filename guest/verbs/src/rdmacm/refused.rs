//! Functions of librdmacm that this library has not, and says so.
#![allow(unsafe_code)]

use super::abi::rdma_cm_id;
use crate::errno::{self, EOPNOTSUPP};
use crate::refused::say;
use std::ffi::{c_int, c_void};

/// -1, and why.
fn refuse(function: &'static str, why: &str) -> c_int {
    say(function, why);
    errno::minus_one(Err(EOPNOTSUPP))
}

macro_rules! refused {
    ($($why:literal: $(fn $name:ident($($type:ty),*);)*)*) => {$($(
        /// Not offered.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $type),*) -> c_int {
            refuse(stringify!($name), $why)
        }
    )*)*

        /// What is refused here, and why.
        pub const REFUSED: &[(&str, &str)] = &[$($((stringify!($name), $why),)*)*];
    };
}

refused! {
    "this NIC has no multicast":
    fn rdma_join_multicast(*mut rdma_cm_id, *mut libc::sockaddr, *mut c_void);
    fn rdma_join_multicast_ex(*mut rdma_cm_id, *mut c_void, *mut c_void);
    fn rdma_leave_multicast(*mut rdma_cm_id, *mut libc::sockaddr);
    "shared receive queues for XRC are not there: use rdma_create_srq":
    fn rdma_create_srq_ex(*mut rdma_cm_id, *mut c_void);
    "this NIC negotiates no enhancements of connections":
    fn rdma_set_local_ece(*mut rdma_cm_id, *mut c_void);
    fn rdma_reject_ece(*mut rdma_cm_id, *const c_void, u8);
    "rsockets look into librdmacm's private structs: use sockets, or verbs":
    fn rsocket(c_int, c_int, c_int);
}

/// `int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)`: there are no options, which is a valid
/// answer.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_remote_ece(_id: *mut rdma_cm_id, ece: *mut [u32; 3]) -> c_int {
    // SAFETY: the program's place, of three numbers.
    unsafe { ece.write([0; 3]) };
    0
}
