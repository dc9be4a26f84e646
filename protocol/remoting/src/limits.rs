//! Limits of remoted APIs, each with its reason.

/// Most objects that one connection has at a time. An object costs 64 bytes in the guest and
/// about as much on the host: 4 MiB each, reserved and not touched before use.
pub const OBJECTS_MAX: usize = 65_536;

/// Most records of a batch: what one answer can count as failed.
pub const RECORDS_MAX: usize = 4096;

/// Longest batch that is collected before it is sent, bytes. Longer ones gain nothing: the
/// cost of a crossing is a small part of the records' own by then.
pub const BATCH_BYTES: usize = 4096;

/// Longest body of an event, bytes. With both heads it is 80: cells for events have as many.
pub const EVENT_BYTES: usize = 64;

/// Most buffers that one connection attaches at a time: each holds a call open.
pub const ATTACHED_MAX: usize = 16;
