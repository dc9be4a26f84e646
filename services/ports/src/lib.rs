//! The function `ports`: relays the frames of VMs' ports. A port is a channel of packets in a
//! VM's window, and a tap device of the host, which the manager opens and hands over with the
//! channel. What the device gives goes into the host's ring, and what the guest puts into its
//! own ring goes to the device.
//!
//! One thread relays all ports of the process. In each turn each port has a burst each way at
//! most, so that nobody's port gets more than its turn. Nothing waits for one port alone: a
//! frame for which there is no place is dropped and counted ([`facts`]). But a device is told which offloads its guest takes,
//! which waits for the kernel's lock of all interfaces, at most once a second.
//!
//! Another service may take a port up at any moment, and goes on with its positions and
//! counts: all of them stand in the window (R-PKT-8).

#![deny(unsafe_code)]

mod counted;
mod engine;
pub mod facts;
pub mod limits;
mod port;
mod relay;
mod tally;
mod tap;
mod tun;

pub use engine::{NoCalls, Ports};
