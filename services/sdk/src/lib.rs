//! What drivers and services are made of.
//!
//! A **driver** is the host code behind a vFunction: a shared library with the
//! four symbols of `include/vfun_driver.h`. In Rust it is a type with the
//! trait [`Driver`] and one line of [`export_driver!`], or a plain function and
//! one line of [`export_function!`].
//!
//! A **service** is the sandboxed process that serves one client's channels of
//! one vFunction. Its loop is `service` (feature `service`), generic over what
//! computes; native drivers come in through `loader` (feature `loader`).
//!
//! Unsafe code is confined to the C edges: `args`, `out`, `buffer`, `edge`, `later`, `loader`.

pub mod abi;
mod args;
mod buffer;
mod config;
mod driver;
#[doc(hidden)]
pub mod edge;
mod error;
mod export;
mod later;
#[cfg(feature = "loader")]
pub mod loader;
mod out;
#[cfg(feature = "service")]
pub mod service;

pub use args::Args;
pub use buffer::Buffer;
pub use config::{BAD_SETTING, Config};
pub use driver::Driver;
pub use error::DriverError;
pub use later::{Answer, Answerer, CallOutcome, Cancelled, DROPPED, HeldCall, OpenCalls, WaitsFor};
pub use out::Out;
