//! How many cache lines a call moves between two processors, by a model of their
//! caches: a memory that knows who has a copy of each line.
//!
//! A line **moves** when a side reads or writes it and has no copy of it. A write
//! takes the copy of the other side away. That is what processors do with lines that
//! two of them use (MESI), without the reads that they guess and the writes that
//! they gather: the least that a sequence of accesses costs.

#![forbid(unsafe_code)]

mod lines;
mod traffic;

pub use lines::{Lines, Side, View};
pub use traffic::{Shape, moved};
