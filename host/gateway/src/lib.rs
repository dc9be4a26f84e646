//! Serves callers that reach the host over TCP, along `vfun_wire::frame`.
//!
//! To the rest of the host this is an ordinary client: each connection opens a
//! session of its own through the manager's socket, saying that it asks for a
//! caller elsewhere, and passes requests and calls on. It holds no rights of
//! its own; what a caller may do is decided by the client's manifest.
//!
//! - [`server`]: accepts; [`door`]: within limits.
//! - [`connection`]: one thread reads a connection's frames and serves short
//!   calls itself, so that these cost no change of threads.
//! - [`control`]: a second thread makes control requests, which may take
//!   milliseconds to seconds.
//! - [`late`]: calls that take longer are waited for by a thread per function.

#![forbid(unsafe_code)]

mod calls;
mod certificates;
mod connection;
mod control;
mod door;
mod greet;
mod input;
mod late;
pub mod limits;
mod lines;
mod outcome;
mod output;
mod server;

pub use certificates::{Certificates, TlsFiles};
pub use server::Gateway;

/// What reads a caller's bytes, for the fuzzer; no part of the interface.
#[cfg(fuzzing)]
#[doc(hidden)]
pub fn fuzz(bytes: &[u8], limit: usize) {
    input::fuzz(bytes, limit);
}
