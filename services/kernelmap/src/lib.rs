//! How a call's arguments and results become those of an OpenCL kernel.
//!
//! A manifest's `[opencl]` section ([`Map`]) is checked against the function's
//! signature once ([`Mapping::new`]), by the manager when it takes the manifest
//! and by the service that serves it. For each call the mapping then says what
//! to launch ([`Mapping::bind`]), without allocating: sizes, scalars, and which
//! bytes of arguments and results each buffer is. Nothing here touches a
//! device or memory that is shared; a call's numbers are read once, through a
//! function that the caller gives.

#![forbid(unsafe_code)]

mod bind;
mod expression;
pub mod limits;
mod manifest;
mod mapping;

pub use bind::{BindError, Bound, Launch};
pub use expression::{Expression, Name, ValueError};
pub use manifest::{Argument, DeviceChoice, DeviceKind, Map};
pub use mapping::{MapError, Mapping};
