//! A software NIC for verbs: all queue pairs of one tenant, who meet in it by copying.
//!
//! [`Engine`] is a state machine without sockets, threads or a clock: control calls change its
//! tables, [`Engine::run`] does work, [`Engine::take_event`] says what programs must be told.
//! A queue of work is read from the window; each entry is copied once and checked against
//! tables that no program can write. Registered memory is only reached through [`Payload`].
//!
//! What a status or an event means is what the InfiniBand Architecture Specification says
//! (volume 1, release 1.3: 9.7.5 for responders, 10.10 and 11.6 for consumers).

#![forbid(unsafe_code)]

mod access;
mod atomic;
mod attributes;
pub mod cm;
mod complete;
mod connect;
mod control;
mod datagram;
mod engine;
mod events;
mod flush;
pub mod limits;
mod names;
mod payload;
mod program;
mod qp;
mod refused;
mod region;
mod remove;
mod respond;
mod run;
mod send;
mod slab;
mod times;
mod transition;

pub use attributes::{Address, Attributes, Path};
pub use control::{CompletionQueue, QueuePair, Registration, Shared};
pub use engine::{Counts, Engine};
pub use events::Event;
pub use payload::Payload;
pub use program::ProgramCounts;
pub use refused::Refused;
pub use region::PageRun;
pub use run::Ran;
pub use slab::{AhId, CqId, PdId, ProgramId, QpId, Slab, SrqId, WindowId};
pub use transition::{Allowed, allowed};
