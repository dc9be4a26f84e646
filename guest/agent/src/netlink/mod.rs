//! The kernel's routing netlink, as far as a bond needs it: messages, sockets, interfaces,
//! and the addresses and routes that `convert` moves.
//!
//! Attributes that we do not know are skipped, and messages are read one by one: what a newer
//! kernel says more does no harm, and one message that cannot be read does not hide the
//! others. Addresses and routes are given back to the kernel byte for byte but for the
//! interface, so that nothing of them is lost.

pub mod attribute;
pub mod link;
pub mod message;
pub mod request;
pub mod socket;

pub use socket::{Events, Socket};

/// Why the kernel did not do or tell something.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused.
    #[error("{}", std::io::Error::from(*.0))]
    Refused(rustix::io::Errno),
    /// Socket trouble, and answers that do not come.
    #[error("no answer of the kernel's netlink: {0}")]
    Socket(rustix::io::Errno),
    /// A list changed each time that it was read.
    #[error("the kernel's list changes faster than it can be read")]
    Restless,
    /// A list was cut, and what is missing is not known.
    #[error("the kernel's answer cannot be read: {0}")]
    Unreadable(String),
}

impl NetlinkError {
    /// Whether the kernel refused with this error.
    pub fn is(&self, errno: rustix::io::Errno) -> bool {
        matches!(self, NetlinkError::Refused(e) if *e == errno)
    }
}
