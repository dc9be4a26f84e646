//! `vfun-links-proxy`: stands between an Open vSwitch and its controller, and adds to the counts of
//! rules what went past them over direct links.
//!
//! - [`message`]: messages of OpenFlow in a stream of bytes. [`rules`]: rules in them.
//! - [`correct`]: what becomes of each message. No system: messages and sums in, messages out.
//! - [`manager`]: who knows the sums.
//! - [`relay`]: connections. [`place`]: what addresses and TLS files name.

#![forbid(unsafe_code)]

pub mod correct;
pub mod limits;
pub mod manager;
pub mod message;
pub mod place;
pub mod relay;
pub mod rules;
