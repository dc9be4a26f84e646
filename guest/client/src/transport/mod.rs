//! How a window gets to this process, and how the two sides wake each other.

mod host;
mod ivshmem;
mod pci;
mod window;

pub(crate) use host::attach as attach_host;
pub(crate) use ivshmem::open as open_ivshmem;
pub(crate) use pci::PCI_DEVICES;
pub(crate) use window::{Window, map};

use crate::endpoint::TransportKind;
use std::sync::Arc;
use std::time::Duration;
use vfun_window::{Access, MapError, Mapping};

/// One way to reach a window. A new one (the kernel module, virtio-pmem)
/// implements this and is added to [`crate::connect`].
pub(crate) trait Transport: Send + Sync {
    /// Its name in every report.
    fn kind(&self) -> TransportKind;
    /// The path in use, for people: a socket, a PCI address.
    fn place(&self) -> String;
    /// Bytes of the window.
    fn window_bytes(&self) -> u64;
    /// Maps a range of the window. Only what this side may write is ever
    /// mapped for writing.
    fn map(&self, off: u64, len: usize, access: Access) -> Result<Arc<Mapping>, MapError>;
    /// Whether [`Transport::ring`] and [`Transport::waiter`] work.
    fn has_doorbell(&self) -> bool;
    /// Wakes whoever sleeps on the other side of `vector`.
    fn ring(&self, vector: u16);
    /// A place for one thread to sleep on `vector`; `None` without a doorbell.
    fn waiter(&self, vector: u16) -> Option<std::io::Result<Box<dyn Waiter>>>;
    /// Whether the manager is known to be gone. Says nothing of the services.
    fn host_gone(&self) -> bool;
}

/// One thread's place to sleep on a doorbell.
pub(crate) trait Waiter: Send {
    /// Sleeps until rung or `timeout` passes; rings from before may count.
    fn wait(&self, timeout: Duration);
}
