//! Makes both halves of a remoted API from its description: the guest's library with the
//! exact C symbols, the host's dispatcher, the numbers of calls, and a table for the docs.

#![forbid(unsafe_code)]

mod ctype;
mod facts;

pub use facts::{CField, CFunction, CStruct, CType, Facts, ScalarName};
