//! The log: one line an event on standard error, and no more than a caller's
//! mischief deserves.

use std::fmt::Arguments;
use std::io::{Write, stderr};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Lines in a row before lines are left out.
const BURST: u32 = 50;
/// One more line is allowed each time this passes.
const EVERY: Duration = Duration::from_millis(200);

struct Bucket {
    room: u32,
    since: Option<Instant>,
    left_out: u64,
}

static NAME: OnceLock<String> = OnceLock::new();
static BUCKET: Mutex<Bucket> = Mutex::new(Bucket { room: BURST, since: None, left_out: 0 });

/// Whom this process serves, for the start of each line.
pub fn name(client: &str, function: &str) {
    let _ = NAME.set(format!("vfun-service {client}/{function}"));
}

impl Bucket {
    /// Whether a line may be written, and how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let more = (now - since).as_millis() / EVERY.as_millis();
        if more > 0 {
            self.room = (u128::from(self.room) + more).min(u128::from(BURST)) as u32;
            self.since = Some(now);
        }
        if self.room == 0 {
            self.left_out += 1;
            return None;
        }
        self.room -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Writes one line to the service's log, unless too many were written of late.
pub fn line(words: Arguments<'_>) {
    let name = NAME.get().map_or("vfun-service", String::as_str);
    let taken = BUCKET.lock().unwrap_or_else(|e| e.into_inner()).take(Instant::now());
    match taken {
        None => {}
        // A full disk must not end the service for want of a line.
        Some(0) => drop(writeln!(stderr(), "{name}: {words}")),
        Some(n) => drop(writeln!(stderr(), "{name}: {n} lines left out\n{name}: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut b = Bucket { room: BURST, since: None, left_out: 0 };
        let t = Instant::now();
        let written = (0..1000).filter(|_| b.take(t).is_some()).count();
        assert_eq!(written, BURST as usize);
        assert_eq!(b.take(t + EVERY), Some(1000 - u64::from(BURST)));
        assert_eq!(b.take(t + EVERY), None);
    }
}
