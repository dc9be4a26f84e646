//! What functions return and how transfers end, as `include/gdma.h` numbers it.

use std::ffi::CStr;

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

/// What a status means, and what to do about it.
pub fn text(status: i32) -> &'static CStr {
    match status {
        OK => c"done",
        BUSY => c"not finished yet, or still in use",
        -1 => c"a handle or an argument is wrong: was it given back, or never set?",
        -2 => c"the node's pool has no room in one piece: free buffers, or raise GDMA_POOL_BYTES",
        -3 => c"more, or larger, than the device takes: gdma_device_info says its limits",
        -4 => c"there is no such node, or none of the buffers is on the local node",
        -5 => c"beyond the end of a buffer, or the two ends overlap",
        -6 => c"the engine reported an error",
        -7 => c"the engine or its service is gone, or the context is being closed",
        -8 => c"not supported: another version of the library, or it was built without its engine",
        _ => c"no status of gdma",
    }
}
