//! All unsafe code of the crate: the engine's C++, the pools' memory, and the C
//! interface.
#![allow(unsafe_code)]

pub mod capi;
mod memory;
#[cfg(gdma_model)]
mod model;

pub use memory::{OutOfPool, PoolMemory};
#[cfg(gdma_model)]
pub use model::Model;
