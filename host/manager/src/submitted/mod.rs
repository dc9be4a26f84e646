//! Modules that clients submitted: where they are kept. Whether one may come is
//! for [`vfun_core::submitted`] to say.
//!
//! - [`store`]: the files.
//! - [`writer`]: the thread that writes them.

pub mod store;
pub mod writer;

pub(crate) use vfun_core::submitted::*;
