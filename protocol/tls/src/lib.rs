//! TLS 1.3 over one TCP socket, for both ends of VirtFun's TCP transport.
//!
//! - [`Line`]: a connection, plain or encrypted, read and written by several
//!   threads. There is no thread of its own and no second socket: whoever reads
//!   decrypts, whoever writes encrypts.
//! - [`Server`] and [`Client`]: what each end is told by files (PEM), and names
//!   what is wrong with them.
//!
//! TLS 1.2 is left out, as both ends are VirtFun's; so are resumption and early
//! data, which would be replayed.

#![forbid(unsafe_code)]

mod files;
pub mod limits;
mod line;
mod words;

pub use files::{Client, FileError, Server};
pub use line::Line;
pub use words::{of_caller, of_gateway, of_line};

/// First byte of whatever speaks TLS: a handshake record. No frame of a plain
/// caller begins so, as its first is an attach, whose length is known.
pub const FIRST_BYTE: u8 = 0x16;

/// A whole record that tells a TLS peer that this is not the place for it: a
/// fatal alert, `unexpected_message`.
pub const NOT_HERE: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 10];
