//! Policy: what each client may use of this host, and how much of it.
//!
//! - [`rules`]: the plain values, which is what the manager sees.
//! - [`file`]: `admin/policy.toml`, where a person says them.
//! - [`limits`]: what may be said.
//! - [`unenforced`]: which bounds a host lacks the means for.
//! - [`view`]: all of it, for people.
//! - [`source`], [`size`]: what manifests and the policy file have in common.

#![forbid(unsafe_code)]

pub mod file;
pub mod limits;
mod pattern;
pub mod rules;
mod size;
pub mod source;
pub mod unenforced;
pub mod view;

pub use file::parse;
pub use pattern::matches;
pub use rules::{Key, Layered, Policy, Rules, key_of};
pub use size::size;
pub use unenforced::Unenforced;
