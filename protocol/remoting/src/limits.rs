//! Limits of remoted APIs, each with its reason.

/// Most objects that one connection has at a time. An object costs 64 bytes in the guest and
/// about as much on the host: 4 MiB each, reserved and not touched before use.
pub const OBJECTS_MAX: usize = 65_536;

/// Most objects that all programs of a client have together: as many as four programs may have.
/// They take about 20 MiB of the service, beside what the API's library keeps of each.
pub const CLIENT_OBJECTS_MAX: usize = 4 * OBJECTS_MAX;

/// Most bytes of the window that all programs of a client lend at a time: each is mapped in the
/// service, which needs 32 MiB of page tables for so many.
pub const CLIENT_LENT_BYTES_MAX: usize = 16 << 30;

/// Most records of a batch: what one answer can count as failed.
pub const RECORDS_MAX: usize = 4096;

/// Longest batch that is collected before it is sent, bytes. Longer ones gain nothing: the
/// cost of a crossing is a small part of the records' own by then.
pub const BATCH_BYTES: usize = 4096;

/// Longest body of an event, bytes: one of a connection of verbs has up to 336. Cells for events have room for
/// it and both heads.
pub const EVENT_BYTES: usize = 384;

/// Most bytes of events that wait for one connection: one short event for each object that it may have.
pub const EVENTS_BYTES: usize = OBJECTS_MAX * 72;

/// Most structs in one array that a call takes or fills, such as attributes of a template. An
/// object of PKCS#11 has about 40.
pub const STRUCTS_MAX: usize = 256;

/// Most bytes that one call may ask to be filled, in all of its places together. A program gives
/// each place more room than it needs; the answer has only what was filled.
pub const PLACES_BYTES: usize = 1 << 20;

/// Most bytes that go to the host in one of the calls that a longer one is split into. A multiple
/// of the blocks of all ciphers; a cell has room for a block more in the answer.
pub const PART_BYTES: usize = 64 << 10;

/// Most bytes of a call that is split and answers bytes: the host stands in zeros for them when it
/// asks the library how long the answer will be. And the longest answer that the library may be
/// given room for, although it fits no cell and is dropped: it ends what the program has begun.
pub const LONG_BYTES: usize = 16 << 20;

/// Most objects that are found by one call: each costs a proposed name. Who wants more asks again.
pub const FOUND_MAX: usize = 64;

/// A call with a secret is at least as long, bytes, so that it lies in a cell's data space, which
/// the caller can wipe, and never in the line (48 bytes), which it cannot.
pub const SECRET_BYTES: usize = 64;

/// Most buffers that one connection attaches at a time: each holds a call open.
pub const ATTACHED_MAX: usize = 16;
