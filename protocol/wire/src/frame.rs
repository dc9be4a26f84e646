//! The TCP transport: the same requests and calls, copied into frames.
//!
//! A connection starts with a frame of kind [`ATTACH`] (body:
//! [`crate::attach::Attach`]). Then come control requests (kind: the message's
//! number, body: its struct) and calls (kind [`CALL`]), in any order and
//! number; answers bear their request's `id` and may come in any order.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Head of every frame, both ways.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameHead {
    /// Bytes that follow this head; at most [`crate::limits::FRAME_BYTES_MAX`].
    pub body_bytes: U32,
    /// What follows: a message's number, [`ATTACH`], [`CALL`]; in answers [`ACK`], [`NACK`] or [`CALL`].
    pub kind: U16,
    pub reserved: U16,
    /// Chosen by the caller, returned with the answer.
    pub id: U64,
}

/// The first frame of a connection. Its body is a [`crate::attach::Attach`].
pub const ATTACH: u16 = 0x100;
/// Body: [`CallHead`] or [`CallAnswer`], then the arguments or results.
pub const CALL: u16 = 0x101;
/// Body: the message's ack.
pub const ACK: u16 = 0x200;
/// A refusal. Its body is a [`crate::nack::NackBody`].
pub const NACK: u16 = 0x201;

/// Head of a call; the arguments follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct CallHead {
    /// The grant, activated on this connection.
    pub grant: U64,
    /// A [`crate::channel::Command`]: set or reset.
    pub command: u8,
    pub reserved: [u8; 7],
}

/// Head of a call's answer; the results follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct CallAnswer {
    /// How the call ended: a [`crate::Status`].
    pub status: U32,
    /// Not 0 where the channel is broken: a [`crate::status::BreakReason`].
    pub broken: U32,
}

const _: () = {
    assert!(size_of::<FrameHead>() == 16);
    assert!(size_of::<CallHead>() == 16);
    assert!(size_of::<CallAnswer>() == 8);
};
