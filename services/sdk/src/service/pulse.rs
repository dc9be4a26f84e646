//! What a channel's thread shows to the main thread, and is told by it: a line
//! of private memory, so that showing costs a plain store.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// One channel's line. Alone on its line and the next, which processors fetch
/// in pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct Pulse {
    /// Moves on at each begin and end of a call: odd inside one.
    calls: AtomicU64,
    /// The call that the watch saw under way last, as `calls` was, and when it saw it
    /// first, ns.
    sighted: AtomicU64,
    sighted_at: AtomicU64,
    /// Whether the thread may begin calls without saying so first.
    awake: AtomicBool,
    /// Asks the thread to stop after the call under way.
    stop: AtomicBool,
    /// Another service goes on with the channel then.
    hand_over: AtomicBool,
    /// Calls a second that the channel takes; 0 for any number.
    rate: AtomicU32,
}

impl Pulse {
    /// A call begins. Only the channel's own thread says so.
    #[inline]
    pub fn begin(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    /// Says that the call under way has ended.
    #[inline]
    pub fn end(&self) {
        self.begin();
    }
    /// How often a call began or ended; odd inside one.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
    /// The watch sees a call under way for the first time.
    pub fn sight(&self, calls: u64, now: u64) {
        self.sighted_at.store(now, Ordering::Relaxed);
        self.sighted.store(calls, Ordering::Release);
    }
    /// By when the call that ended last had begun, ns, if it lasted until the watch saw
    /// it. Only for the channel's own thread.
    pub fn begun_by(&self) -> Option<u64> {
        let seen = self.sighted.load(Ordering::Acquire);
        let at = self.sighted_at.load(Ordering::Relaxed);
        (seen + 1 == self.calls()).then_some(at)
    }
    /// How many calls a second the channel takes; 0 for any number.
    #[inline]
    pub fn rate(&self) -> u32 {
        self.rate.load(Ordering::Relaxed)
    }
    /// Bounds it. The next call sees it.
    pub fn set_rate(&self, calls_per_s: u32) {
        self.rate.store(calls_per_s, Ordering::Relaxed);
    }
    /// The thread is about to sleep, or is awake again.
    pub fn set_awake(&self, awake: bool) {
        self.awake.store(awake, Ordering::SeqCst);
    }
    /// Whether the thread may be in a call.
    pub fn awake(&self) -> bool {
        self.awake.load(Ordering::SeqCst)
    }
    /// Whether the thread shall stop.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    /// Asks the thread to stop. It looks when awake; wake it as well.
    pub fn stop(&self) {
        self.hand_over.store(false, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }
    /// The same, for another service to go on with the channel: what was begun and
    /// is answered later is waited for.
    pub fn hand_over(&self) {
        self.hand_over.store(true, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
    }
    /// Whether another service goes on with the channel.
    pub fn hands_over(&self) -> bool {
        self.hand_over.load(Ordering::SeqCst)
    }
}
