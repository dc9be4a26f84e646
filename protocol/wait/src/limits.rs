//! Every number of the policy, with its reason. Times are in nanoseconds.

/// Looks that every wait but a sleep-mode one begins with, before a clock is
/// read: some 2 µs. A caller with calls in flight, or an answer that is two
/// cache lines away, is there by then, and pays for nothing else.
pub const FIRST_LOOKS: u32 = 64;
/// Looks between two readings of the clock while spinning: about a
/// microsecond, so that reading it (10 to 30 ns) costs little.
pub const LOOKS: u32 = 32;

/// What sleeping costs a wait: to be rung, to be scheduled, to run again. 2 to
/// 5 µs on one processor, 35 to 70 µs across two that idle; between the two,
/// where most machines are.
pub const WAKE: u64 = 50_000;

/// Spin of an app's thread while nothing is known: twice a wake.
pub const CALLER_SPIN: u64 = 100_000;
/// Longest spin of an app's thread, once a channel's answers have shown that
/// they are there by then: 36 wakes, see [`CALLER_WORTH`].
pub const CALLER_SPIN_MOST: u64 = CALLER_WORTH * WAKE;
/// Without a doorbell: how long an app's thread goes on giving way instead of
/// sleeping by the clock.
pub const CALLER_YIELD: u64 = 10_000_000;
/// How many nanoseconds of an otherwise idle processor an app gives for one of
/// waiting. Sleeping then adds less than 1/36 = 2.8 % to the waits that are
/// slept through, which is the worst slowdown that was published.
pub const CALLER_WORTH: u64 = 36;

/// Longest spin of a service: a wake. A processor of the host is many
/// clients', so a nanosecond of it is worth one of waiting, and not more.
pub const SERVICE_SPIN: u64 = 50_000;
/// [`CALLER_WORTH`] of a service: a nanosecond of spinning for one of waiting.
pub const SERVICE_WORTH: u64 = 1;

/// Least that hybrid spins, whatever it has learned: so that it notices when
/// waits become short again.
pub const SPIN_MIN: u64 = 2_000;
/// One wait of so many spins for as long as it may, whatever was learned, and
/// so finds out how long waits are that otherwise end asleep.
pub const PROBE_EVERY: u32 = 32;

/// A batch of looks that takes longer than this, and [`GAP_FACTOR`] times the
/// shortest one, was interrupted: the processor was somebody else's meanwhile.
/// This works in a guest too, which cannot see its host's run queue.
pub const GAP: u64 = 20_000;
/// So many times the shortest batch, and longer than [`GAP`]: interrupted.
pub const GAP_FACTOR: u64 = 8;
/// Interrupted batches after which a spin ends: one may be an interrupt.
/// Beyond the spin of a channel of which nothing is known, one is enough.
pub const GAPS_MAX: u32 = 2;
/// A sleeper that is woken so soon was probably woken on its own processor, by a
/// peer that had been waiting for it: across two a wake takes longer, unless the
/// answer was on its way already.
pub const PROMPT_WAKE: u64 = 20_000;

/// Yields before any sleep: where both sides share a processor, the other one
/// is done by then, at a tenth of the cost of a sleep.
pub const PROMPT_YIELDS: u32 = 4;
/// A yield that returns later than this let somebody else compute.
pub const LONG_YIELD: u64 = 50_000;
/// Long yields after which to sleep rather than stand in line.
pub const LONG_YIELDS_MAX: u32 = 4;
/// Least and most waits in a row that go without spinning after spinning was
/// in vain twice and giving way was not; they double while that proves right.
pub const CROWDED: (u32, u32) = (8, 256);
/// Two waits that look as if the peer needed this processor count as two if no more
/// than this lies between their ends. Where it does need it the next wait is
/// another one; a caller whose long calls are seldom so is beside somebody else.
pub const SUSPECTED: u64 = 10_000_000;
/// For so long after the last such wait processors are taken to be too few, if nothing
/// shows the contrary: a channel that always sleeps shows nothing.
pub const PRESSED: u64 = 1_000_000_000;
/// In spin mode: one batch of so many gives way, so that a machine with fewer
/// processors than spinners still goes on.
pub const SPIN_YIELD_EVERY: u32 = 64;

/// First sleep after declaring it: whoever posted or answered without a fence
/// may have missed the declaration, so it is not trusted for longer than this.
pub const FIRST_SLEEP: u64 = 1_000_000;
/// How long a wait goes on awake while what it waits for is said to come soon:
/// a channel on its way from one service to another. That takes 20 µs, seldom
/// 100, and to wake a processor that went to sleep meanwhile takes 20 to 60 more.
pub const SOON: u64 = 200_000;
/// Steps between two that give way meanwhile.
pub const SOON_YIELD_EVERY: u32 = 4;

/// Steps between two hard looks, which check what changes seldom.
pub const HARD_EVERY: u32 = 64;
/// Steps between two nudges of the other side.
pub const NUDGE_EVERY: u32 = 1_024;

/// Buckets of what is learned: an octave each, the first below 2 µs, the last
/// beyond 32 ms.
pub const BUCKETS: usize = 16;
/// The first bucket's end.
pub const BUCKET_FIRST: u64 = 2_000;
/// What one wait adds to its bucket; a unit that can be halved a few times.
pub const WEIGHT: u32 = 64;
/// All weights are halved when they come to this: the last 32 waits count for
/// as much as all before them.
pub const WEIGHTS_MAX: u32 = 64 * WEIGHT;
