//! The functions of librdmacm: how programs find each other. The host is the connection manager
//! (`services/verbs/src/cm`); what it tells comes to a channel of events.
//!
//! All of the library is here, and nothing of the real one runs: its own functions read what it has behind
//! an id.

pub mod abi;
mod address;
pub mod channel;
mod connect;
mod device;
mod endpoint;
mod events;
mod id;
mod info;
mod pair;
mod refused;

pub use refused::REFUSED;
