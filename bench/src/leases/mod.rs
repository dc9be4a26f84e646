//! Many clients and few VFs: who they are, when each calls, and what becomes of
//! their calls, in simulated time.
//!
//! The simulation drives the manager's own lease engine ([`vfun_leases`]) with
//! events; nothing in it waits. The same [`Crowd`] is also run with real clients
//! and services ([`crate::runs::leases`]), and both end in [`Experience`]s, so
//! that they can be compared.

mod crowd;
mod experience;
mod pace;
mod simulation;

pub use crowd::{Crowd, Group, Latencies};
pub use experience::{Experience, Trouble};
pub use pace::{Lots, Pace};
pub use simulation::simulate;
