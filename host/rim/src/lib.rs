//! What of the manager touches windows. The daemon, the simulation, the fuzzers and
//! the tests of guests all use this code.

#![forbid(unsafe_code)]

mod bells;
pub mod window;
