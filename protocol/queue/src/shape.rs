//! How large the entries are, and how many.

use crate::layout::{CONSUMER_BYTES, ENTRIES_OFF};
use crate::limits::{DEPTH_MAX, DEPTH_MIN, ENTRY_BYTES_MAX, ENTRY_BYTES_MIN};
use vfun_wire::PAGE;

/// A queue's shape, within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    entry_bytes: u32,
    depth: u32,
}

/// Why there is no such queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The bytes of an entry are not 16, 32, 64 or 128.
    EntryBytes(u32),
    /// The depth is not a power of two within the limits.
    Depth(u32),
    /// A side's memory is too small for the shape: bytes there, bytes needed.
    Side { bytes: u64, needed: u64 },
}

impl core::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ShapeError::EntryBytes(n) => {
                write!(f, "a queue's entries have 16, 32, 64 or 128 bytes, not {n}")
            }
            ShapeError::Depth(n) => {
                write!(
                    f,
                    "a queue's depth is a power of two from {DEPTH_MIN} to {DEPTH_MAX}, not {n}"
                )
            }
            ShapeError::Side { bytes, needed } => {
                write!(f, "a side of the queue has {bytes} bytes and needs {needed}")
            }
        }
    }
}
impl std::error::Error for ShapeError {}

const fn within(n: u32, least: u32, most: u32) -> bool {
    n.is_power_of_two() && least <= n && n <= most
}

impl Shape {
    /// Entries of `entry_bytes` bytes, `depth` of them.
    ///
    /// # Errors
    /// [`ShapeError::EntryBytes`] and [`ShapeError::Depth`].
    pub const fn new(entry_bytes: u32, depth: u32) -> Result<Shape, ShapeError> {
        if !within(entry_bytes, ENTRY_BYTES_MIN, ENTRY_BYTES_MAX) {
            return Err(ShapeError::EntryBytes(entry_bytes));
        }
        if !within(depth, DEPTH_MIN, DEPTH_MAX) {
            return Err(ShapeError::Depth(depth));
        }
        Ok(Shape { entry_bytes, depth })
    }

    /// Bytes of an entry.
    pub const fn entry_bytes(&self) -> u32 {
        self.entry_bytes
    }

    /// Entries that the queue holds at once.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// Bytes of the producer's side: whole pages.
    pub const fn producer_bytes(&self) -> u64 {
        let entries = self.entry_bytes as u64 * self.depth as u64;
        ENTRIES_OFF as u64 + entries.next_multiple_of(PAGE as u64)
    }

    /// Bytes of the consumer's side: whole pages.
    pub const fn consumer_bytes(&self) -> u64 {
        CONSUMER_BYTES
    }

    /// Checks that both sides are there.
    pub(crate) const fn check(&self, producer: usize, consumer: usize) -> Result<(), ShapeError> {
        let sides = [(producer, self.producer_bytes()), (consumer, self.consumer_bytes())];
        let mut i = 0;
        while i < sides.len() {
            let (bytes, needed) = (sides[i].0 as u64, sides[i].1);
            if bytes < needed {
                return Err(ShapeError::Side { bytes, needed });
            }
            i += 1;
        }
        Ok(())
    }
}
