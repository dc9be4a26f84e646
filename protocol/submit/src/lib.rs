//! What the function `submit` takes and gives: by it a client brings a
//! WebAssembly module of its own, lists those that it has, and removes them.
//!
//! `submit` is an ordinary vFunction that every host of this version has and
//! policy allows or not. Its arguments are [`Request`]'s bytes, its results
//! [`Answer`]'s; a refusal is the driver's error whose code is a [`Code`]. A
//! function made so is named `my.NAME`: no function of the host begins with
//! [`PREFIX`], so that neither ever hides the other.

#![forbid(unsafe_code)]

mod answer;
mod code;
pub mod limits;
mod request;

pub use answer::{Answer, Entry, Outcome};
pub use code::Code;
pub use request::{Op, Request};

/// Name of the function that takes modules: every host has it.
pub const FUNCTION: &str = "submit";
/// What names of submitted functions begin with, and no other function's does.
pub const PREFIX: &str = "my.";

/// Whether a function of this name is a client's own.
pub fn is_own(function: &str) -> bool {
    function.starts_with(PREFIX)
}

/// Bytes that are none of these messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Malformed {}

pub(crate) fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    at.checked_add(N)
        .and_then(|end| bytes.get(at..end))
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| Malformed(format!("{} bytes are too few", bytes.len())))
}
