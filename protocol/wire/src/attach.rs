//! How a program on the host gets its window: one question and one answer
//! over the manager's UNIX stream socket, then the socket only says that both
//! sides live. The TCP gateway asks the same in its first frame.
//!
//! The answer carries, by SCM_RIGHTS: the window, then [`crate::limits::VECTORS`]
//! bells that the app rings, then as many that ring the app.

use crate::limits::{CREDENTIAL_BYTES, NAME_BYTES, SENTENCE_BYTES};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `VFATTACH`, read as a little-endian number.
pub const ATTACH_MAGIC: u64 = u64::from_le_bytes(*b"VFATTACH");

/// What a caller over TCP or a socket says first: for which client, and by what right.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct Attach {
    /// [`ATTACH_MAGIC`]; anything else is refused.
    pub magic: U64,
    /// Which client; all zero for the default of this socket (`host`).
    pub client: [u8; NAME_BYTES],
    /// Bytes of `credential` in use.
    pub credential_len: U16,
    /// 1 if this asks on behalf of a caller elsewhere (the gateway): policy may refuse those.
    pub remote: u8,
    pub reserved: [u8; 5],
    /// What proves the right to act for that client, where policy asks for it.
    pub credential: [u8; CREDENTIAL_BYTES],
}

/// What the host says to an [`Attach`].
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct AttachAck {
    /// [`ATTACH_MAGIC`]; anything else is refused.
    pub magic: U64,
    /// 0, or a [`crate::NackCode`].
    pub code: U32,
    /// Bytes of `sentence` in use.
    pub sentence_len: U16,
    /// Bells each way that come along.
    pub vectors: U16,
    /// Size of the window.
    pub window_bytes: U64,
    /// Why not, for people.
    pub sentence: [u8; SENTENCE_BYTES],
}

const _: () = {
    assert!(size_of::<Attach>() == 144);
    assert!(size_of::<AttachAck>() == 24 + SENTENCE_BYTES);
};
