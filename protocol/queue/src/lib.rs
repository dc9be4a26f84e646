//! Queues over a window: entries of a fixed size that go one way, from one
//! producer to one consumer, in batches, without a lock or a system call.
//!
//! - [`Producer`] and [`Consumer`]: the two ends; one thread each.
//! - [`Entry`]: what travels: 16, 32, 64 or 128 bytes, of which the first 4
//!   are the queue's.
//! - [`wait`]: the waiting policy of calls (`vfun_wait`), for either end.
//!
//! Why an entry bears its own number and no index is looked at, is in
//! `docs/decisions/0018-queues.md`. Numbered rules (`R-QUE-…`) are those of
//! `docs/protocol.md`. `include/vfun_queue.h` is the same for C.
//!
//! No unsafe code. An end trusts nothing that its peer writes: an entry is
//! copied once into private memory, numbers are checked, and what makes no
//! sense breaks the queue with a reason ([`Broken`]).

#![forbid(unsafe_code)]

mod broken;
mod consumer;
mod entry;
mod header;
pub mod layout;
pub mod limits;
mod producer;
mod shape;
mod waiting;

pub use broken::{Broken, Reason};
pub use consumer::Consumer;
pub use entry::Entry;
pub use producer::Producer;
pub use shape::{Shape, ShapeError};
pub use vfun_window::{Memory, WindowMemory};
pub use waiting::{Bells, End, WaitEnvironment, wait};
