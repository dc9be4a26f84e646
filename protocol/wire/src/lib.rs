//! What both sides of a VirtFun window agree on, byte for byte.
//!
//! Everything here is fixed-size, little-endian and checked at compile time:
//! size, offsets, no padding. Numbered requirements (`R-…`) are those of
//! `docs/protocol.md`. `include/vfun_wire.h` is the same layout for C; the
//! test `c_header` compares the two.
//!
//! Fields named `reserved` are zero (R-TRU-5).
//!
//! The crate depends on nothing else of VirtFun and has no unsafe code.

#![forbid(unsafe_code)]

pub mod attach;
pub mod channel;
pub mod control;
pub mod dir;
pub mod frame;
pub mod handle;
pub mod handover;
pub mod header;
pub mod ivshmem;
pub mod kind;
pub mod limits;
pub mod message;
pub mod nack;
pub mod names;
pub mod packets;
pub mod pages;
pub mod place;
pub mod queues;
pub mod range;
pub mod status;
pub mod version;

#[macro_use]
mod open_enum;
#[macro_use]
mod wire_struct;

pub use handle::Handle;
pub use nack::{Nack, NackCode};
pub use status::Status;

/// Size of a page: the grain at which one side's memory ends and the other's begins.
pub const PAGE: usize = 4096;
/// Size of a cache line, and of every cell line.
pub const LINE: usize = 64;
/// 64-bit words in a line.
pub const LINE_WORDS: usize = LINE / 8;

/// Rounds `n` up to whole pages; `None` on overflow.
pub const fn page_up(n: u64) -> Option<u64> {
    match n.checked_add(PAGE as u64 - 1) {
        Some(v) => Some(v & !(PAGE as u64 - 1)),
        None => None,
    }
}
