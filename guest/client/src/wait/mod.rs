//! Waiting: spin, then yield, then sleep.

mod mood;
mod phases;
mod policy;
mod slack;

pub(crate) use mood::Mood;
pub(crate) use phases::{Sleeper, wait_long};
pub use policy::WaitPolicy;

/// Looks that every wait begins with, on the caller's own path, before it
/// makes sure that the service is awake.
pub(crate) const FIRST_LOOKS: u32 = 64;
