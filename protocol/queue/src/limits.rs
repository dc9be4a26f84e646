//! Every limit of a queue, with its reason.

/// Smallest entry, bytes: 4 for the queue and 12 for a descriptor, of which
/// four share a line.
pub const ENTRY_BYTES_MIN: u32 = 16;
/// Largest entry, bytes: two lines, which processors fetch in pairs. What is
/// larger belongs in a buffer that the entry names.
pub const ENTRY_BYTES_MAX: u32 = 128;
/// Fewest entries: with one alone the two ends would wait for each other at
/// each entry.
pub const DEPTH_MIN: u32 = 2;
/// Most entries: 8 MiB of the largest. The deepest rings of network cards and
/// completion queues in use have as many.
pub const DEPTH_MAX: u32 = 1 << 16;
