//! What a channel's time went into, told in its `datain` header page: sampled
//! service times, and what waits beyond their first looks spent awake and asleep.
//!
//! A reading of the clock costs a fifth of a null call, so short calls are
//! timed one in [`EVERY`]; longer ones, and those that end a wait, all.

use vfun_ring::{WindowMemory, sync::Ordering::Relaxed};
use vfun_wire::channel::{in_header, time_bucket};

/// Of short calls one in so many is timed.
const EVERY: u32 = 32;
/// A call of at least so many ns is not short: timing it costs two percent of it.
const SHORT: u64 = 2_000;

/// Two timed calls that follow each other with no wait between, and this many
/// ns: the thread was not let run.
const DISPLACED: u64 = 500_000;
/// How long after that the processors are taken to be too few, ns.
const PRESSED: u64 = 100_000_000;
/// How long a thread serves without a pause while they are, ns.
const TURN: u64 = 1_000_000;

/// Counts what one channel did and how long it took.
pub struct Meter {
    /// Calls until one is timed.
    left: u32,
    /// Calls that the next one timed stands for, itself among them.
    stands_for: u32,
    /// The last time measured, ns.
    last: u64,
    /// When the last timed call or wait ended.
    seen: u64,
    /// Until when others are taken to want this processor.
    pressed: u64,
    /// When this thread last let others run.
    turn: u64,
    busy: u64,
    spun: u64,
    asleep: u64,
}

impl Meter {
    /// Goes on from what an earlier service told.
    pub fn new(mem: &WindowMemory) -> Self {
        use vfun_ring::Memory;
        let told = |word| mem.load_own(word, Relaxed);
        Meter {
            left: 0,
            stands_for: 1,
            last: 0,
            seen: u64::MAX,
            pressed: 0,
            turn: 0,
            busy: told(in_header::BUSY_NS),
            spun: told(in_header::SPUN_NS),
            asleep: told(in_header::ASLEEP_NS),
        }
    }

    /// Whether to time the next call.
    #[inline(always)]
    pub fn due(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// No call is due for longer than anybody counts.
    pub fn time_none(&mut self) {
        self.left = u32::MAX;
    }

    /// Whether to let others run before the call that is about to be timed: two
    /// sides that answer each other at once would otherwise keep two processors
    /// for themselves, because whoever waits for one of them sleeps meanwhile.
    pub fn turn_is_over(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.seen) > DISPLACED {
            self.pressed = now.saturating_add(PRESSED);
        }
        let over = now < self.pressed && now.saturating_sub(self.turn) > TURN;
        if over {
            self.turn = now;
        }
        over
    }

    /// The call that was timed took `ns`, until `now`.
    #[cold]
    pub fn took(&mut self, mem: &WindowMemory, ns: u64, now: u64) {
        use vfun_ring::Memory;
        self.seen = now;
        // Those that were not timed are taken to have been like the shorter
        // of the two around them: one long call is not counted many times.
        let others = u64::from(self.stands_for - 1).saturating_mul(ns.min(self.last));
        self.busy = self.busy.wrapping_add(ns.saturating_add(others));
        mem.store(in_header::BUSY_NS, self.busy, Relaxed);
        let word = in_header::TIMES + time_bucket(ns);
        mem.store(word, mem.load_own(word, Relaxed).wrapping_add(1), Relaxed);
        self.last = ns;
        self.stands_for = if ns < SHORT { EVERY } else { 1 };
        self.left = self.stands_for - 1;
    }

    /// A wait spent so much awake and so much asleep, ns.
    pub fn waited(&mut self, mem: &WindowMemory, awake: u64, asleep: u64) {
        use vfun_ring::Memory;
        self.seen = u64::MAX;
        self.spun = self.spun.wrapping_add(awake);
        mem.store(in_header::SPUN_NS, self.spun, Relaxed);
        if asleep > 0 {
            self.asleep = self.asleep.wrapping_add(asleep);
            mem.store(in_header::ASLEEP_NS, self.asleep, Relaxed);
            // The next call is worth its reading, and so are few and long ones.
            self.stands_for -= self.left;
            self.left = 0;
        }
    }
}
