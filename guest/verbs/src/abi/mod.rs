//! The structs of `infiniband/verbs.h`, as rdma-core 39 to 50 have them. Programs read and write their
//! members, and inline functions of the header follow their pointers. `tests/layout.rs` compares them
//! with the header's.
#![allow(non_camel_case_types)]

mod context;
mod device;
mod init;
pub mod numbers;
mod objects;
mod work;

pub use context::*;
pub use device::*;
pub use init::*;
pub use objects::*;
pub use work::*;

use std::ffi::c_void;

/// A function of an ops table that this library does not have: a null pointer.
pub type Absent = *mut c_void;
