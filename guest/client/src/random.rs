//! Numbers that two apps of one window do not choose alike.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A fresh number, never zero. The standard library seeds [`RandomState`] from
/// the system's randomness, once a thread; the counter makes every call differ.
pub(crate) fn token() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}
