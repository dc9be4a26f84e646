//! The function `mirror`: what a program puts into a queue comes back in another one. It
//! shows what queues cost at the least, and is the smallest engine that serves them.
//!
//! A program has a channel of calls and channels of queues. A call ([`PairRequest`]) names
//! one of the latter by its handle and its token, and gets a pair of queues in it: one to
//! the service, and one back ([`Pair`]). Both have entries of [`ENTRY_BYTES`].
//!
//! One thread serves all pairs of all channels of the process. Nobody's call waits for it
//! longer than for one turn, and nobody's pair gets more than its turn.

#![forbid(unsafe_code)]

mod engine;
mod limits;
mod mirrored;
mod pair;
mod request;
mod serving;

pub use engine::{Mirror, MirrorCalls};
pub use limits::ENTRY_BYTES;
pub use request::{Pair, PairRequest};
