//! Attackers, and what stands beside them.
//!
//! - [`attack`]: what a client can do to its window, by name and seed.
//! - [`chaos`], [`ledger`]: calls that end once, whatever is killed.
//! - [`soak`]: all of it at once, and whether anything grows.
//! - [`matrix`], [`steps`]: who is killed at which step, and what comes of it.
//! - [`window`], [`app`]: a window and the protocol, by hand.
//! - [`witness`]: the innocent neighbour, who checks every result.
//! - [`watch`]: what the host was before, and whether it still is.

#![forbid(unsafe_code)]

pub mod app;
pub mod attack;
pub mod chaos;
pub mod ledger;
pub mod matrix;
pub mod random;
pub mod soak;
pub mod steps;
pub mod watch;
pub mod window;
pub mod witness;
