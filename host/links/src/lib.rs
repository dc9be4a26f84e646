//! Whether a stock Open vSwitch joins two ports point to point: all frames of one go
//! unchanged to the other, and to nobody else.
//!
//! [`Detector`] is a pure state machine: what the switch said and the time in, questions
//! and verdicts out. [`watch`] runs it over the switch's own sockets. Nothing here changes
//! the switch. docs/links-detector.md has all conditions with their reasons. [`relay`] is what
//! the manager and the process that watches say to each other. [`passed`]: the rules whose counts miss
//! what goes past the switch.

#![forbid(unsafe_code)]

pub mod detect;
pub mod frames;
pub mod limits;
pub mod openflow;
pub mod ovsdb;
pub mod passed;
pub mod relay;
mod rim;
pub mod trace;

pub use detect::{Action, Detector, Event, OurPort, Peer};
pub use detect::{Hindrance, Missing, RuleFault, Verdict};
pub use rim::{Change, Places, Watch, watch};
