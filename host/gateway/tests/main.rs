//! The gateway over TCP and TLS.
//!
//! One program for all files: linking is most of what a small one costs.

mod calls;
mod hostile;
mod peer;
mod tls;
