//! The network of the host: its interfaces as sysfs shows them, tap devices, an Open vSwitch, and
//! how the programs that are asked about these are run.
//!
//! - [`netdev`]: an interface. [`taps`]: tap devices, and what changes interfaces.
//! - [`switch`]: an Open vSwitch. [`child`]: programs that have a time.

#![deny(unsafe_code)]

pub mod child;
pub mod limits;
pub mod netdev;
pub mod switch;
pub mod taps;
