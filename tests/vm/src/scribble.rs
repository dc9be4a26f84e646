//! A VM that writes anything into memory that it shares.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun_window::{Access, Mapping};

/// Words between two pauses.
const AT_ONCE: usize = 500;
const PAUSE: Duration = Duration::from_millis(1);
const PAGE: u64 = 4096;

/// Writes at random into all of a device's memory until the process ends: half of it to the words at the begin of
/// pages, where positions and counts are.
pub fn without_end(resource: &Path, seed: u64) -> ! {
    let file = std::fs::File::options().read(true).write(true).open(resource).expect("it is there");
    let bytes = file.metadata().expect("a file has a length").len();
    let map = Mapping::new(&file, 0, bytes as usize, Access::ReadWrite).expect("root may");
    let memory = map.write().expect("it was mapped to write");
    let mut random = seed.max(1);
    loop {
        for _ in 0..AT_ONCE {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = match random % 4 {
                0 | 1 => random / 4 % bytes,
                2 => random / 4 % bytes / PAGE * PAGE + (random >> 32) % 512,
                // The two sides of a link of the largest ring that fits, and their first words.
                _ => {
                    (1 + u64::from(random & 4 == 4) * (1 + (bytes / 4) / PAGE)) * PAGE
                        + (random >> 32) % 512
                }
            };
            let value = match random >> 60 & 3 {
                0 => random,
                1 => random % bytes / 64 * 64,
                2 => (1 << 32) | (random % 1600),
                _ => random % 4,
            };
            memory.store((at / 8).min(bytes / 8 - 1) as usize, value, Ordering::Relaxed);
        }
        std::thread::sleep(PAUSE);
    }
}
