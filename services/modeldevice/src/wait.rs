//! Waiting for a device: asleep, and awake for the last of it.

use std::time::{Duration, Instant};

/// What a sleep is late at first, before it is known.
const LATE_AT_FIRST: Duration = Duration::from_micros(100);
/// Never counted as more: one odd wake-up must not make every wait a busy one.
const LATE_MOST: Duration = Duration::from_micros(250);
/// Less is not worth a sleep: that alone takes some microseconds.
const SLEEP_LEAST: Duration = Duration::from_micros(50);

/// Learns how late sleeps end here, and sleeps that much shorter.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    late: Duration,
}

impl Default for Waiter {
    fn default() -> Self {
        Waiter { late: LATE_AT_FIRST }
    }
}

impl Waiter {
    /// Returns when `time` has passed since `start`: never before.
    pub fn wait(&mut self, start: Instant, time: Duration) {
        let until = start + time;
        let now = Instant::now();
        let Some(left) = until.checked_duration_since(now) else { return };
        if let Some(sleep) = left.checked_sub(self.late).filter(|s| *s >= SLEEP_LEAST) {
            std::thread::sleep(sleep);
            let late = now.elapsed().saturating_sub(sleep).min(LATE_MOST);
            // Up at once, down slowly: late is worse than busy.
            let calm = self.late - self.late / 16;
            self.late = late.max(calm);
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_returns_early() {
        let mut waiter = Waiter::default();
        for us in [0, 1, 40, 200, 1000, 3000] {
            let (start, time) = (Instant::now(), Duration::from_micros(us));
            waiter.wait(start, time);
            assert!(start.elapsed() >= time, "{us} µs");
            assert!(waiter.late <= LATE_MOST);
        }
        // Already over.
        waiter.wait(Instant::now() - Duration::from_secs(1), Duration::from_millis(1));
    }
}
