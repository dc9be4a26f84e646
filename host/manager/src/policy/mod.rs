//! Policy: what each client may use of this host, and how much of it.
//!
//! - [`rules`]: the plain values, which is what the rest of the manager sees.

pub mod rules;

pub use rules::{Key, Layered, Policy, Rules};
