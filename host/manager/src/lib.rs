//! VirtFun's manager, `vfund`: who may use what, where it runs, and in which
//! part of which window.
//!
//! `vfun-core` is the pure state machine; this is its rim: memory, sockets,
//! processes, files.

#![forbid(unsafe_code)]

pub mod audit;
pub mod numbers;
pub mod privileges;
pub mod record;
pub mod rim;
pub mod settings;
pub mod submitted;
pub mod tokens;
pub mod tree;

mod driver_file;
mod fault;
mod files;
mod in_flight;
mod process;

use vfun_admin as admin;
use vfun_core::{self as core, fair, limits, manifest, policy};
use vfun_rim::window;
