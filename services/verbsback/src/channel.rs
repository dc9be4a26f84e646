//! What the NIC needs of a program's channel of queues.

use std::net::IpAddr;
use std::ops::Range;
use vfun_sdk::service::QueuesChannel;
use vfun_window::{Bell, OutOfBounds, WindowMemory};

/// A channel of queues: two sides, a program that may be rung, and one that rings.
pub trait NicChannel: Send + Sync {
    /// Whether a program that names this handle and shows this token is the channel's own.
    fn is_named(&self, handle: u64, token: [u64; 2]) -> bool;
    /// Bytes of the program's side, and of the NIC's.
    fn sides(&self) -> (usize, usize);
    /// Memory in both: bytes of the NIC's side, which it writes, and of the program's.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    fn memory(&self, nic: Range<usize>, program: Range<usize>)
    -> Result<WindowMemory, OutOfBounds>;
    /// The VM that the program is in; `None`: it runs on the host.
    fn vm(&self) -> Option<&str>;
    /// The address that the manager says.
    fn address(&self) -> Option<IpAddr>;
    /// Wakes the program, whether it sleeps or not.
    fn ring(&self);
    /// What the program rings; nothing where it cannot.
    fn rung(&self) -> Option<&Bell>;
}

impl NicChannel for QueuesChannel {
    fn is_named(&self, handle: u64, token: [u64; 2]) -> bool {
        QueuesChannel::is_named(self, handle, token)
    }

    fn sides(&self) -> (usize, usize) {
        (self.program().len(), self.host().len())
    }

    fn memory(
        &self,
        nic: Range<usize>,
        program: Range<usize>,
    ) -> Result<WindowMemory, OutOfBounds> {
        QueuesChannel::memory(self, nic, program)
    }

    fn vm(&self) -> Option<&str> {
        QueuesChannel::vm(self)
    }

    fn address(&self) -> Option<IpAddr> {
        QueuesChannel::address(self)
    }

    fn ring(&self) {
        self.bell().ring();
    }

    fn rung(&self) -> Option<&Bell> {
        QueuesChannel::rung(self)
    }
}
