//! How both sides of a channel wait: an app's thread for its answer, a
//! service's thread for the next request.
//!
//! A wait is a few looks on the caller's own path ([`Policy::first_looks`]),
//! and if they are in vain, [`wait`]: spin for a budget that the channel's
//! earlier waits have taught ([`WaitHistory`]), give way, then declare sleep,
//! fence, look once more, and sleep on the doorbell. The steps are the same on
//! both sides and in the model tests; what a step is, each says by [`WaitSteps`].
//!
//! Three modes: `spin` never sleeps, `sleep` sleeps after one look, `hybrid`
//! (the default) chooses. Times are in nanoseconds of [`clock::now`].
//!
//! No unsafe code, no system call, no memory shared with anybody: what is
//! learned is private to a process.

#![forbid(unsafe_code)]

pub mod clock;
mod learned;
pub mod limits;
mod plan;
mod policy;
mod wait;

pub use learned::WaitHistory;
pub use plan::{Plan, Step};
pub use policy::Policy;
pub use vfun_wire::message::WaitMode;
pub use wait::{WaitSteps, wait};
