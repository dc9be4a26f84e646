//! The API gdma (services/gdma/include/gdma.h) of a library that is loaded by its path: so that one
//! process can use the library that does the work and the one that asks a host for it. The same of
//! PKCS#11.

mod edge;
mod signal;
mod token;

pub use edge::{Gdma, Handle};
pub use signal::Signal;
pub use token::Token;

use std::path::PathBuf;

/// Why the library did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GdmaFailed {
    /// It is not there, or is not this library.
    #[error("{} cannot be loaded: {why}", path.display())]
    Load {
        path: PathBuf,
        /// The loader's words.
        why: String,
    },
    /// A function's status, or that of a transfer.
    #[error("{function} ended with the status {status}")]
    Status { function: &'static str, status: i32 },
    /// A callback did not come.
    #[error("no callback came for a transfer within {seconds} s")]
    NoCallback { seconds: u64 },
}

/// What fallible functions here return.
pub type Result<T> = std::result::Result<T, GdmaFailed>;
