//! One source for a vFunction.
//!
//! [`vfunction`] leaves an ordinary function as it is and adds what a host
//! needs to serve it and what a program needs to call it there:
//!
//! ```ignore
//! /// Greatest common divisor.
//! #[vfun_function::vfunction(version = "1.0", summary = "greatest common divisor")]
//! pub fn gcd(mut a: u64, mut b: u64) -> u64 {
//!     while b != 0 {
//!         (a, b) = (b, a % b);
//!     }
//!     a
//! }
//! ```
//!
//! | | with the crate's feature | |
//! |---|---|---|
//! | `gcd(48, 36)` | | the function, in this process |
//! | `gcd::SIGNATURE`, `gcd::MANIFEST` | | what it takes and gives, and its manifest |
//! | `gcd::open(&session)?.call(48, 36)?` | `app` | on the host, or in this process where the host does not offer it |
//! | `gcd::anywhere("myapp")?` | `app` | the same, and where there is no host at all |
//! | a driver | `driver` | the symbols of a driver and its manifest in the library, for `vfun function add` |
//!
//! Arguments are scalars, arrays `[T; N]`, structs with `#[derive(Value)]`, and
//! as the last one a slice `&[T]` of these. Results are one of these or a
//! `Vec<T>`; a `Result<T, E>` hands the error's words to the caller, with
//! code 1. docs/functions.md is the guide.
//!
//! What cannot be sent is refused when it is compiled:
//!
//! ```compile_fail,E0277
//! #[vfun_function::vfunction(version = "1.0")]
//! fn words(text: String) -> u64 {
//!     text.len() as u64
//! }
//! # fn main() {}
//! ```
//! ```compile_fail
//! #[vfun_function::vfunction(version = "1.0")]
//! fn first(all: &[u64], n: usize) -> u64 {
//!     all[n]
//! }
//! # fn main() {}
//! ```
//!
//! Bytes lie as docs/signatures.md has it: one C struct of the arguments, one
//! of the results, little-endian.

#![forbid(unsafe_code)]

mod layout;
mod text;
mod value;

pub use layout::{Layout, Record};
#[doc(hidden)]
pub use text::str_of;
pub use text::{Manifest, Shape};
pub use value::{Invalid, Value};
pub use vfun_function_macros::{Value, vfunction};

/// Code of the driver error that a function's own `Err` becomes.
pub const OWN_ERROR: i32 = 1;
/// Most bytes of arguments or results: a cell's largest data space.
pub const BYTES_MAX: usize = 1 << 30;
