//! The service program with drivers of native code.
//!
//! One program for all files: linking is most of what a small one costs.

mod bond;
mod buffers;
mod calls;
mod common;
mod later;
mod life;
mod loader;
mod ports;
mod queues;
