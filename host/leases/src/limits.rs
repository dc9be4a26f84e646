//! The engine's limits, with their reasons.

/// VFs of one device: SR-IOV devices have at most 256 virtual functions a
/// physical one; four of these are one pool here.
pub const VFS_MAX: u16 = 1024;
/// Grants that compete for one device: as many as a manager can hold.
pub const GRANTS_MAX: usize = 1 << 16;
/// Shortest interval, ms: a switch costs some tens of microseconds, and rates
/// over less than a few milliseconds are noise.
pub const INTERVAL_MS_MIN: u64 = 10;
/// Longest interval, ms: a grant that became busy waits for one or two.
pub const INTERVAL_MS_MAX: u64 = 600_000;
/// Priorities: each step doubles what a grant weighs.
pub const PRIORITY_MAX: u8 = 10;
/// The one in the middle, for grants that say nothing.
pub const PRIORITY_DEFAULT: u8 = 5;
/// Decisions in a row that a challenger may have to win: with the longest interval that
/// is over a day.
pub const CONFIRM_MAX: u32 = 100;
