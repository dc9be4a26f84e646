//! The simulated engine against a software model, and the library, in Rust and C.
//!
//! One program for all files: linking is most of what a small one costs.

#[path = "../../../protocol/wire/tests/c_header/compile.rs"]
mod compile;
mod fabric;
mod header;
mod library;
mod map;
mod moves;
mod port;
mod programs;
mod queue;
mod windows;
