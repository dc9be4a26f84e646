//! Waiting, as `vfun_wait` says; here is what is the app's own: options, time
//! limits, and sleeping by the clock where there is no doorbell.

mod place;
mod policy;
mod slack;

pub(crate) use place::{Sleeper, wait_long};
pub use policy::WaitPolicy;
