//! What a callback tells the thread that waits for it.

use crate::{GdmaFailed, Result};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};
use vfun_window::cycles;

/// How long a transfer may stay out: longer than the largest takes on a machine that is busy.
const LOST: Duration = Duration::from_secs(60);
/// Between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);

/// Of one thread; it stays as long as the process, because a library holds its address.
pub struct Signal {
    thread: Thread,
    /// Callbacks so far.
    count: AtomicU64,
    /// The processor's counter at the last one.
    at: AtomicU64,
    /// A status that was not 0.
    wrong: AtomicI32,
}

impl Signal {
    /// For this thread.
    pub fn new() -> &'static Signal {
        Box::leak(Box::new(Signal {
            thread: std::thread::current(),
            count: AtomicU64::new(0),
            at: AtomicU64::new(0),
            wrong: AtomicI32::new(0),
        }))
    }

    /// A transfer has ended; called by the library's thread.
    pub fn ended(&self, status: i32) {
        self.at.store(cycles(), Ordering::Relaxed);
        if status != 0 {
            self.wrong.store(status, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Release);
        self.thread.unpark();
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Sleeps until there were so many; the counter at the last one.
    pub fn wait(&self, count: u64) -> Result<u64> {
        let from = Instant::now();
        while self.count() < count {
            std::thread::park_timeout(LOOK);
            if from.elapsed() > LOST {
                return Err(GdmaFailed::NoCallback { seconds: LOST.as_secs() });
            }
        }
        match self.wrong.load(Ordering::Relaxed) {
            0 => Ok(self.at.load(Ordering::Relaxed)),
            status => Err(GdmaFailed::Status { function: "a transfer", status }),
        }
    }
}
