//! Makes both halves of a remoted API from its description: the guest's library with the
//! exact C symbols, the host's dispatcher, the numbers of calls, and a table for the docs.
//!
//! ```text
//! C header --import--> facts.toml ┐
//!                      api.toml   ├--generate--> guest's half, host's half, table
//!                      numbers.toml
//! ```

#![forbid(unsafe_code)]

mod annotations;
mod ctype;
mod emit;
mod facts;
mod facts_file;
mod generate;
pub mod import;
mod model;
mod numbers;
mod resolve;
mod rust_names;
mod skeleton;

pub use facts::{CField, CFunction, CStruct, CType, Facts, ScalarName};
pub use generate::{GenerateError, Made, generate};
pub use numbers::stay as numbers_stay;
pub use skeleton::{NewApi, skeleton};
