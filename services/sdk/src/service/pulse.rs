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
    /// Whether the thread may begin calls without saying so first.
    awake: AtomicBool,
    /// Asks the thread to stop after the call under way.
    stop: AtomicBool,
    /// Calls a second that the channel takes; 0 for any number.
    rate: AtomicU32,
}

impl Pulse {
    /// A call begins. Only the channel's own thread says so.
    #[inline]
    pub fn begin(&self) {
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    /// It ended.
    #[inline]
    pub fn end(&self) {
        self.begin();
    }
    /// How often a call began or ended; odd inside one.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
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
        self.stop.store(true, Ordering::SeqCst);
    }
}
