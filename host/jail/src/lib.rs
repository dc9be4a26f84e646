//! The sandbox of services: what keeps a driver that was taken over by its
//! arguments inside the process it runs in.

#![deny(unsafe_code)]

mod layer;
mod limits;

pub use layer::{Layer, UnknownLayer};
pub use limits::Limits;
