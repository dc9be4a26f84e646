//! Typed signatures: what a function's arguments and results are.
//!
//! ```
//! let s: vfun_signature::Signature =
//!     "(n: u64, repetitions: u64 = 1) -> u64".parse().unwrap();
//! assert_eq!((s.args.min_bytes(), s.args.max_bytes()), (16, 16));
//! assert_eq!(s.to_string(), "(n: u64, repetitions: u64 = 1) -> u64");
//! ```
//!
//! Arguments and results are each one C struct, little-endian, every member at
//! its natural alignment; a variable array may come last, where C has a
//! flexible array member. A signature has one text form ([`std::fmt::Display`]),
//! which travels, and a fingerprint of its layout ([`Signature::fingerprint`]):
//! names, defaults and the bounds of variable arrays are not in it, so that a
//! function may change them without breaking those who call it.
//!
//! ```text
//! signature = { "struct" name "{" member { "," member } "}" } "(" [ field { "," field } ] ")" "->" result
//! result    = type | tail | "(" [ field { "," field } ] ")"
//! field     = name ":" ( type [ "=" literal ] | tail )
//! member    = name ":" type
//! type      = scalar | name of a struct above | "[" type ";" count "]"
//! tail      = "[" type "]" | "[" type ";" least ".." [ "=" most ] "]"      only the last field
//! scalar    = "bool" | "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" | "f32" | "f64"
//! ```
//!
//! Parsing is for bytes that nobody trusts: a guest checks the text that its
//! host sends, and time and memory are bounded by the text's length.

#![forbid(unsafe_code)]

mod fingerprint;
mod length;
mod parse;
mod record;
mod text;
mod types;
mod value;

pub use length::LengthError;
pub use parse::SignatureError;
pub use record::{Field, Record, Tail};
pub use types::{Scalar, Struct, StructMember, Type};
pub use value::{Value, ValueError};

/// Most structs of a signature: more do not fit its text with a member each.
pub const STRUCTS_MAX: usize = 64;
/// How deep arrays of arrays may nest: whoever walks a type may recurse.
pub const NESTING_MAX: usize = 8;
/// Largest arguments or results of a signature: a cell's largest data space.
pub const BYTES_MAX: u64 = vfun_wire::limits::CELL_BYTES_MAX as u64;
/// Longest text in its canonical form, bytes.
pub const TEXT_MAX: usize = vfun_wire::limits::SIGNATURE_BYTES;

/// A function's arguments and results.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Structs, each made of scalars, arrays and structs before it.
    pub structs: Vec<Struct>,
    pub args: Record,
    pub results: Record,
    /// The result is one value without a name.
    pub bare_result: bool,
}
