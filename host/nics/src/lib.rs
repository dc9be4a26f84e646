//! Which VM holds which virtual function (VF) of a network card, and how a VF goes from
//! one VM to another without losing a packet.
//!
//! [`Nics`] is a pure state machine: events and the time in, actions out. The process
//! `vfun-nics` (`host/nicd`) is the world around it. The contest for VFs is the engine of
//! `vfun-leases`; this crate feeds it with what the host counted, and carries its moves
//! out.

#![forbid(unsafe_code)]

mod check;
mod contest;
pub mod declared;
pub mod event;
mod hear;
mod hindrance;
pub mod history;
pub mod limits;
pub mod moved;
mod nics;
pub mod notes;
mod probes;
pub mod relay;
mod step;
mod traffic;
mod vf;
pub mod view;
mod vm;

pub use event::{Action, AgentId, Event, Op, OpId, PoolName, VfFound, VfId, VmFound};
pub use nics::Nics;
