//! What a context is made of, and the environment that says it.

use crate::limits::{ALIGNMENT, NODES, POOL_DEFAULT, POOL_MAX};
use crate::status::GdmaError;

/// How a context is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of each node's pool: a multiple of [`ALIGNMENT`].
    pub pool_bytes: u64,
    /// Which node the program is on, from 1.
    pub local: u32,
    /// A fault of the local engine, for tests: bits of `engine::FAULT_*`.
    pub fault: u8,
}

impl Default for Options {
    fn default() -> Self {
        Options { pool_bytes: POOL_DEFAULT, local: 1, fault: 0 }
    }
}

impl Options {
    /// The default, and what `GDMA_POOL_BYTES` and `GDMA_NODE` say.
    pub fn from_environment() -> Result<Self, GdmaError> {
        let number = |name| match std::env::var(name) {
            Ok(text) => text.parse().map(Some).map_err(|_| GdmaError::Argument),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(GdmaError::Argument),
        };
        let mut options = Options::default();
        if let Some(bytes) = number("GDMA_POOL_BYTES")? {
            options.pool_bytes = bytes;
        }
        if let Some(node) = number("GDMA_NODE")? {
            options.local =
                u32::try_from(node).map_err(|_: std::num::TryFromIntError| GdmaError::Argument)?;
        }
        options.check()?;
        Ok(options)
    }

    pub(crate) fn check(&self) -> Result<(), GdmaError> {
        check_pool(self.pool_bytes)?;
        if !(1..=NODES).contains(&self.local) {
            return Err(GdmaError::Argument);
        }
        Ok(())
    }
}

/// Whether a pool may have so many bytes.
pub fn check_pool(bytes: u64) -> Result<(), GdmaError> {
    let good = bytes != 0 && bytes.is_multiple_of(ALIGNMENT) && bytes <= POOL_MAX;
    good.then_some(()).ok_or(GdmaError::Argument)
}
