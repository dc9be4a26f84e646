//! The library's limits, each with its reason.

use std::time::Duration;

/// Nodes of a context's address space: as many as the engine's RTL is built for.
pub const NODES: u32 = 4;
/// Buffers of a context at once, on all nodes together: each needs an entry in
/// the engines' tables of windows, and a table is two of the 4 KiB of registers.
pub const BUFFERS: u32 = 128;
/// Descriptors that the engine takes before it has to report one.
pub const DESCRIPTORS: u32 = 16;
/// Transfers of a context that exist at once: under way, or ended and not
/// released. What a program forgets to release stays bounded.
pub const TRANSFERS: u32 = 1024;
/// Longest transfer and largest buffer: the engine counts bytes in 32 bits.
pub const LONGEST: u64 = 1 << 30;
/// What a buffer's start is aligned to, and its place in the pool rounded to: a
/// page, so that it can be mapped alone.
pub const ALIGNMENT: u64 = 4096;
/// A node's pool, where `GDMA_POOL_BYTES` does not say.
pub const POOL_DEFAULT: u64 = 64 << 20;
/// Largest pool: offsets in a node's memory have 40 bits.
pub const POOL_MAX: u64 = 1 << 40;
/// Contexts of a process at once: each has a thread and four engines.
pub const CONTEXTS: usize = 1024;

/// Clock cycles that the library's thread simulates in one go, the engine's lock
/// held: some 100 µs, so that allocations get to the registers.
pub const RUN_CYCLES: u32 = 512;
/// The same for a caller that asks how far a transfer is: some 10 µs, so that
/// asking stays cheap, and enough for a transfer of a few KiB.
pub const ASK_CYCLES: u32 = 96;
/// How long the thread leaves the engine to such a caller before it looks
/// again: what a transfer loses at most when the caller asks no more.
pub const AWAY: Duration = Duration::from_micros(100);
/// How long the thread looks for further transfers after the last one before it
/// sleeps: about what a sleep and a wake cost together, so that it never costs
/// more than twice the best.
pub const SPIN: Duration = Duration::from_micros(50);
/// Clock cycles without any progress after which the engine counts as lost. The
/// longest thing it does without moving a byte takes some dozens.
pub const STUCK_CYCLES: u32 = 100_000;
