//! Points at which a test lets the service die, exactly there. Nothing of this
//! is in a service that is built without the feature `fault-points`.
//!
//! The setting `die_at` of a function's manifest names a point of the service's
//! own life; in-line arguments `DIE:POINT` name one of the call that has them,
//! which dies once: a word of the channel's own page remembers it.

use std::collections::BTreeMap;
use vfun_ring::{Request, WindowMemory};

#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub fn at(_: &BTreeMap<String, String>, _: &str) {}

#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub fn in_call(_: &WindowMemory, _: &Request, _: &str) {}

#[cfg(feature = "fault-points")]
fn die() {
    // Not by a signal to itself: the first process of a namespace ignores those.
    std::process::abort();
}

/// Dies here if the settings say so.
#[cfg(feature = "fault-points")]
pub fn at(settings: &BTreeMap<String, String>, point: &str) {
    if settings.get("die_at").is_some_and(|p| p == point) {
        die();
    }
}

/// Dies here if the call says so and none has died of it in this channel.
#[cfg(feature = "fault-points")]
pub fn in_call(mem: &WindowMemory, r: &Request, point: &str) {
    use vfun_ring::sync::Ordering;
    /// The last word of the header's page: nothing else is there.
    const DIED: usize = vfun_wire::PAGE / 8 - 1;
    let asked = r.inline.get(..r.len as usize).and_then(|a| a.strip_prefix(b"DIE:"));
    if !r.in_space
        && asked == Some(point.as_bytes())
        && mem.mine().load(DIED, Ordering::Relaxed) == 0
    {
        mem.mine().store(DIED, 1, Ordering::Relaxed);
        die();
    }
}
