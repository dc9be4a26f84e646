//! VirtFun's manager, `vfund`: who may use what, where it runs, and in which
//! part of which window.
//!
//! [`core`] is the pure state machine, [`fair`] says how fast each client may
//! ask, as purely; the rest is its rim: memory, sockets,
//! processes, files.

#![forbid(unsafe_code)]

pub mod admin;
pub mod audit;
pub mod core;
pub mod counters;
pub mod fair;
pub mod limits;
pub mod manifest;
pub mod numbers;
pub mod policy;
pub mod privileges;
pub mod record;
pub mod rim;
pub mod submitted;
pub mod tree;
pub mod window;

mod bells;
mod fault;
mod files;
mod process;
mod source;
