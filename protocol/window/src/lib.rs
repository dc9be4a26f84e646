//! The one crate of unsafe memory access: maps windows, bounds every access,
//! copies in and out, and rings and waits on doorbells.
//!
//! What is shared with a peer is only ever reached as atomic words or copied
//! as bytes through raw pointers; no reference to plain bytes that a peer may
//! write exists in this crate's safe interface. The exception is [`Spaces`]:
//! memory that only this side writes, lent out to one borrower at a time.
//!
//! A peer can change bytes between any two reads. So: read once into private
//! memory, check, use.

#[cfg(target_endian = "big")]
compile_error!(
    "windows are little-endian and words are added to in place: no big-endian machine is supported"
);

mod baton;
mod bell;
mod cpu;
pub mod fdpass;
mod guard;
mod mapping;
mod memfd;
mod memory;
mod process;
mod registers;
mod slice;
mod spaces;
mod span;
pub mod sync;

pub use baton::{Baton, BatonEvent, BatonWaiter, baton};
pub use bell::{Bell, BellWaiter};
pub use cpu::{cycles, pause, prefetch};
pub use guard::GUARDED_MAX;
pub use mapping::{Access, MapError, Mapping};
pub use memfd::memfd;
pub use memory::{Memory, WindowMemory};
pub use process::Process;
pub use registers::Registers;
pub use slice::{SHORTEST_SLICE, ask_for_slices};
pub use spaces::{Space, Spaces};
pub use span::{OutOfBounds, ReadLine, ReadSpan, ReadWord, WriteLine, WriteSpan};
