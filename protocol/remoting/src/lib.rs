//! The bytes of remoted APIs. A program in a VM calls a C API whose implementation is on
//! the host. Each function of the API is a record in the arguments of a vFunction's call.
//!
//! ```text
//! call    = head body                      a call that waits for its answer
//!         | head(BATCH) { record }         records in order; the last may wait for an answer
//! head    = sequence: u32, call: u16, flags: u16
//! record  = call: u16, flags: u16, bytes: u32, body
//! body    = { value: u64 } { bytes, padded to 8 }
//! answer  = refusal: u16, failed: u16, first: u32, body
//! ```
//!
//! All numbers are little-endian. Plain values come first, so that a receiver knows each
//! length before it reaches the bytes. A call with up to five values needs no data space.
//!
//! Both sides read bytes that the other side wrote: a [`Reader`] never reads outside its
//! bytes, and each of its errors is a [`Refusal`]. Pure: no unsafe code; a reader allocates nothing
//! but lists of names.

#![forbid(unsafe_code)]

mod batch;
mod head;
pub mod limits;
mod name;
mod reader;
mod refusal;
mod wipe;
mod writer;

pub use batch::{Record, Records, put_record};
pub use head::{AnswerHead, CallHead, HEAD_BYTES, WAITS};
pub use name::Name;
pub use reader::Reader;
pub use refusal::Refusal;
pub use wipe::{Wiped, wipe};
pub use writer::Writer;

/// The length on the wire of what a null pointer points to.
pub const NOWHERE: u64 = u64::MAX;

/// Calls of the core; an API's own begin at [`numbers::FIRST`].
pub mod numbers {
    /// Several records in one call.
    pub const BATCH: u16 = 1;
    /// The first call of a connection: compares the two halves' descriptions.
    pub const HELLO: u16 = 2;
    /// An open call: answered with events as soon as there are some.
    pub const EVENTS: u16 = 3;
    /// An open call that names a buffer of the window; the host uses the buffer until it answers.
    pub const ATTACH: u16 = 4;
    /// Ends what [`ATTACH`] began.
    pub const DETACH: u16 = 5;
    /// Asks whether the buffer of an [`ATTACH`] was taken.
    pub const ATTACHED: u16 = 6;
    /// Says that this channel hears the events of a connection, by the token that its [`HELLO`] was
    /// answered with.
    pub const LISTEN: u16 = 7;
    /// Frees all objects of this connection, as its end does.
    pub const END: u16 = 8;
    /// The first number of an API's own functions.
    pub const FIRST: u16 = 16;
}
