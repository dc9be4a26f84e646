//! Policy: what each client may use of this host, and how much of it.
//!
//! - [`rules`]: the plain values, which is what the rest of the manager sees.
//! - [`file`]: `admin/policy.toml`, where a person says them.
//! - [`limits`]: what may be said.
//! - [`unenforced`]: which bounds a host lacks the means for.
//! - [`view`]: all of it, for people.

pub mod file;
pub mod limits;
pub mod rules;
pub mod unenforced;
pub mod view;

pub use file::parse;
pub use rules::{Key, Layered, Policy, Rules, key_of};
pub use unenforced::Unenforced;
