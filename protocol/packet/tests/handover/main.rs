//! Direct links: the handover of a flow of frames between the switch and a link.
#![cfg(not(loom))]

mod hostile;
mod memory;
mod model;
mod mutant;
#[allow(dead_code, reason = "another test needs all of it")]
#[path = "../../../window/tests/common/plain.rs"]
mod plain;
mod random;
mod threads;
mod world;

use vfun_packet::Memory;
