//! The C interface: `include/vfun.h` is made from this folder by cbindgen,
//! and the test `c_header` compares the two.
//!
//! The edge keeps four rules: every pointer is checked for null before it is
//! used; every panic is caught; every failure leaves a sentence for
//! [`vfun_last_error`]; and whoever a function's text says owns a handle, owns it.

#![allow(unsafe_code, non_camel_case_types)]

mod buffer;
mod edge;
mod function;
mod pending;
mod port;
mod session;
mod slot;
mod status;
mod submit;
mod types;
mod waiter;

pub use buffer::*;
pub use edge::{vfun_last_advice, vfun_last_code, vfun_last_error, vfun_version};
pub use function::*;
pub use pending::*;
pub use port::*;
pub use session::*;
pub use slot::*;
pub use status::vfun_status;
pub use submit::*;
pub use types::*;
pub use waiter::*;
