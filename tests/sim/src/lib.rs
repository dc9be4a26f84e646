//! A seeded simulation of manager, services, keeper and guests. The state
//! machine, the rim around it, its notes, the windows, their control cells and
//! the calls' cells are the real code of this repository on real memory; under
//! them processes, sockets, time and chance are simulated on one thread, so that
//! the same seed does the same again.
//!
//! See `docs/proof.md` for what is checked.

#![forbid(unsafe_code)]

mod app;
mod catalog;
mod check;
mod hostile;
pub mod isolation;
mod keeper;
mod ledger;
mod manager;
mod memory;
mod plan;
pub mod room;
mod runner;
mod service;
mod system;
mod trace;
mod world;

pub use plan::{ALL, CHANCES, Chance, Plan};
pub use runner::{Failure, attempt, explain, minimise};
pub use world::Report;
