//! Limits, each with its reason.

use std::time::Duration;

/// Bytes encrypted at once: four records, so that a long message is on its way
/// before all of it is encrypted, and is never held twice.
pub const SEAL_BYTES: usize = 64 << 10;
/// How long [`crate::Line::recv`] waits at most where it may wait: whoever
/// reads looks now and then whether the connection is to end.
pub const RECV_WAIT: Duration = Duration::from_secs(1);
