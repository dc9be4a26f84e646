//! Every limit of the function, with its reason.

use std::time::Duration;

/// Bytes of an entry: a cache line.
pub const ENTRY_BYTES: usize = 64;
/// Pairs of queues in one channel: what is looked at in one round is bounded by it.
pub(crate) const PAIRS: usize = 64;
/// Entries of a pair that are sent back in one turn.
pub(crate) const TURN: usize = 16;
/// Rounds that find nothing before the thread sleeps: some ten microseconds with one pair.
pub(crate) const ROUNDS_IN_VAIN: u32 = 200;
/// How long a call waits for the thread: it is in one round, and starved at worst.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(5);
/// Sleep by the clock where nothing rings.
pub(crate) const WITHOUT_BELL: Duration = Duration::from_millis(1);
