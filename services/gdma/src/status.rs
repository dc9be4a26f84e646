//! What functions return and how transfers end, as `include/gdma.h` numbers it.

use crate::text::text;

/// Done.
pub const OK: i32 = 0;
/// Not finished yet.
pub const BUSY: i32 = 1;

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GdmaError {
    /// It is still in use.
    Busy,
    /// A handle or an argument is wrong.
    Argument,
    /// The node's pool has no room in one piece.
    Memory,
    /// More, or larger, than the device takes.
    Limit,
    /// No such node, or neither end is local.
    Node,
    /// Beyond the end of a buffer, or the ends overlap.
    Range,
    /// The engine reported an error.
    Device,
    /// The engine is gone, or the context is being closed.
    Lost,
    /// Another version, or no engine.
    Unsupported,
}

impl GdmaError {
    pub fn code(self) -> i32 {
        match self {
            GdmaError::Busy => BUSY,
            GdmaError::Argument => -1,
            GdmaError::Memory => -2,
            GdmaError::Limit => -3,
            GdmaError::Node => -4,
            GdmaError::Range => -5,
            GdmaError::Device => -6,
            GdmaError::Lost => -7,
            GdmaError::Unsupported => -8,
        }
    }
}

impl std::fmt::Display for GdmaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.code()).to_string_lossy())
    }
}

impl std::error::Error for GdmaError {}
