//! Lines of the service's log about who logs in, and never a PIN.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines at once; a program that tries PINs without end does not fill the disk.
const BURST: u32 = 64;
/// Then one more each time this passes.
const EVERY: Duration = Duration::from_millis(200);

struct Bound {
    left: u32,
    since: Option<Instant>,
    dropped: u64,
}

static BOUND: Mutex<Bound> = Mutex::new(Bound { left: BURST, since: None, dropped: 0 });

impl Bound {
    /// Whether a line may be written, and how many were dropped before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let more = (now - since).as_millis() / EVERY.as_millis();
        if more > 0 {
            self.left = (u128::from(self.left) + more).min(BURST.into()) as u32;
            self.since = Some(now);
        }
        if self.left == 0 {
            self.dropped += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Writes a line.
pub fn line(words: &str) {
    let taken = BOUND.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
    match taken {
        None => {}
        Some(0) => eprintln!("pkcs11: {words}"),
        Some(dropped) => eprintln!("pkcs11: {dropped} lines are left out\npkcs11: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_those_left_out_are_counted() {
        let mut bound = Bound { left: BURST, since: None, dropped: 0 };
        let now = Instant::now();
        assert_eq!((0..1000).filter(|_| bound.take(now).is_some()).count(), BURST as usize);
        assert_eq!(bound.take(now + EVERY), Some(1000 - u64::from(BURST)));
        assert_eq!(bound.take(now + EVERY), None);
    }
}
