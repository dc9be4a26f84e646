//! Who holds which VF of a device, and until when.
//!
//! A device has a few hardware instances (VFs), its clients more grants that
//! could run on one. Whoever holds no VF runs in software. At each interval
//! the [`Engine`] looks at what every grant did since the last one and says
//! which lease moves: a pure state machine, so that the same engine drives the
//! VFs of a function's device, network VFs, and simulated time.
//!
//! What a grant did is told by the host ([`Sample`]): calls that were
//! completed, and what they took in software and in hardware. Nothing that an
//! app says by itself counts, so posting calls that do nothing gains a client
//! only what those calls would gain.
//!
//! Policies as published (FlexVF): [`Policy::Fair`], each in turn for equal
//! time, and [`Policy::Activity`], the busiest; and one of our own,
//! [`Policy::Gain`], that weighs what a VF has been measured to save.

#![forbid(unsafe_code)]

mod engine;
mod limits;
mod policy;
mod rate;
mod reason;

pub use engine::{Engine, Move, Plan, Settings, Stand, Terms};
pub use limits::*;
pub use policy::Policy;
pub use rate::{Rate, Sample};
pub use reason::{Reason, Standing};

/// A grant, as the engine's user names it.
pub type GrantId = u64;
/// A VF of the device, from 0.
pub type Vf = u16;
