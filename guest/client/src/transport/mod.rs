//! How a window gets to this process, and how the two sides wake each other.

mod beat;
mod control_pages;
mod dir;
mod host;
mod ivshmem;
mod module;
mod pci;
mod pmem;
mod window;

pub(crate) use control_pages::ControlPages;
pub(crate) use module::Module;
pub use module::{ModuleBell, ModuleDevice};
pub(crate) use window::{Window, map};

use crate::buffer::{FileKind, MemoryPlace, MemoryToMove, Unmovable};
use crate::endpoint::{Endpoint, TransportKind};
use crate::error::Result;
use crate::port::LinkWay;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vfun_window::{Access, Bell, MapError, Mapping};
use vfun_wire::attach::Attach;

/// The kind of file system that memory of huge pages is of (`HUGETLBFS_MAGIC`).
const HUGETLBFS: rustix::fs::FsWord = 0x9584_58F6;

/// Where windows are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Nodes of the kernel module's devices.
    pub module: PathBuf,
    /// Folders of PCI devices.
    pub pci: PathBuf,
    /// Nodes of persistent memory.
    pub pmem: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            module: module::DEVICES.into(),
            pci: pci::PCI_DEVICES.into(),
            pmem: pmem::DEVICES.into(),
        }
    }
}

impl Places {
    /// Where an endpoint is looked for, for people.
    pub fn of(&self, endpoint: &Endpoint) -> String {
        match endpoint {
            Endpoint::Module(_) => format!("module ({})", self.module.display()),
            Endpoint::Ivshmem(_) => format!("ivshmem ({})", self.pci.display()),
            Endpoint::Pmem(_) => format!("pmem ({}/dax*)", self.pmem.display()),
            other => other.to_string(),
        }
    }
}

/// What a window is asked for with.
pub(crate) struct WindowRequest<'a> {
    pub places: &'a Places,
    /// For the manager of this machine.
    pub question: &'a Attach,
    /// Of several windows, the one of this client.
    pub client: Option<&'a str>,
}

/// Reaches the window of an endpoint whose control cells this process writes itself;
/// `None` if it has none.
pub(crate) fn open(
    endpoint: &Endpoint,
    a: &WindowRequest<'_>,
) -> Option<Result<Arc<dyn Transport>>> {
    Some(match endpoint {
        Endpoint::Host(at) => host::attach(at.as_deref(), a.question),
        Endpoint::Ivshmem(at) => ivshmem::open(&a.places.pci, at.as_deref(), a.client),
        Endpoint::Pmem(at) => pmem::open(&a.places.pmem, at.as_deref(), a.client),
        Endpoint::Dir(at) => dir::open(at),
        _ => return None,
    })
}

/// One way to reach a window: a file here, an arm of [`open`], a row in
/// [`crate::endpoint`]. What has a body here is right for a window without doorbells
/// and without a socket to its manager.
pub(crate) trait Transport: Send + Sync {
    /// Its name in every report.
    fn kind(&self) -> TransportKind;
    /// The path in use, for people: a socket, a PCI address.
    fn place(&self) -> String;
    /// Bytes of the window.
    fn window_bytes(&self) -> u64;
    /// Maps a range of the window. Only what this side may write is ever
    /// mapped for writing.
    fn map(
        &self,
        off: u64,
        len: usize,
        access: Access,
    ) -> std::result::Result<Arc<Mapping>, MapError>;
    /// Maps a range of one of the VM's windows by its number; 0 is the control window.
    fn map_of(
        &self,
        window: u16,
        off: u64,
        len: usize,
        access: Access,
    ) -> std::result::Result<Arc<Mapping>, MapError> {
        match window {
            0 => self.map(off, len, access),
            _ => Err(MapError::Shape),
        }
    }
    /// The control window's file, if a program can map any of its pages where it likes. Not so with memory of large
    /// pages, and what the kernel module maps.
    fn file(&self) -> Option<(BorrowedFd<'_>, FileKind)> {
        None
    }
    /// Whether a buffer in a further window is known to be over.
    fn buffer_over(&self, _buffer: u64) -> bool {
        false
    }
    /// Moves memory of this process into a buffer, from `offset` on; with no buffer (0) only asks.
    fn take_over(
        &self,
        _buffer: u64,
        _offset: u64,
        _memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        Err(Unmovable::NoModule)
    }
    /// Pins memory of this process for a table of pages, from a place of it on; with no table (0) only asks.
    fn pin(
        &self,
        _table: u64,
        _place: u64,
        _memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        Err(Unmovable::NoModule)
    }
    /// Memory of direct links of the ports that this process has; `None`: there are none here.
    fn links(&self) -> Option<&dyn Links> {
        None
    }
    /// Makes ready what this side has of the doorbells that the window's
    /// header offers. Asked once, and only if it offers them.
    fn bells(&self) -> Result<Bells> {
        Ok(Bells::default())
    }
    /// Wakes those who sleep on the other side of `at`. Only with [`Bells::ring`].
    fn ring(&self, _at: BellPlace) {}
    /// A place for one thread to sleep at `at`; `None` without [`Bells::rung`].
    fn waiter(&self, _at: BellPlace) -> Option<std::io::Result<Box<dyn DoorbellWaiter>>> {
        None
    }
    /// What rings when the other side wakes sleepers at `at`, for those who listen by
    /// a descriptor: its every ring is an edge, and nobody reads it. `None` without
    /// [`Bells::rung`].
    fn bell(&self, _at: BellPlace) -> Option<std::io::Result<Bell>> {
        None
    }
    /// Whether the manager's socket was closed; `None` where there is none. Says
    /// nothing of the services.
    fn host_gone(&self) -> Option<bool> {
        None
    }
    /// Whether the device that carries the window is known to be gone.
    fn device_gone(&self) -> bool;
}

/// Direct links of ports, by the channel of each.
pub(crate) trait Links {
    /// The number of the link that is to be used now; 0: none.
    fn wanted(&self, channel: u64, way: LinkWay) -> Result<u64>;
    /// Takes its memory; `None`: the host names none now.
    fn take(&self, channel: u64, way: LinkWay) -> Result<Option<TakenLink>>;
    /// It is touched no more.
    fn leave(&self, channel: u64, way: LinkWay);
    /// Rings the VM that receives.
    fn ring(&self, channel: u64);
}

/// The memory of a link: a header page and a ring, twice.
pub(crate) struct TakenLink {
    pub number: u64,
    pub ring_bytes: u64,
    pub mine: Arc<Mapping>,
    pub theirs: Arc<Mapping>,
}

/// What of the doorbells works on this side. The two directions are two
/// things: a program that writes the device's registers itself can ring, but
/// no interrupt reaches it (R-WIN-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Bells {
    /// Whether [`Transport::ring`] wakes the other side.
    pub ring: bool,
    /// [`Transport::waiter`] works, so that this side may declare sleep.
    pub rung: bool,
}

/// Where to ring and where to sleep: control's place or a channel's. Some
/// transports know it by its vectors, others by its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BellPlace {
    /// The channel's handle; 0 for control.
    pub channel: u64,
    /// Vector that rings the host.
    pub out: u16,
    /// Vector by which the host rings.
    pub inn: u16,
}

impl BellPlace {
    /// The bell of control requests.
    pub const CONTROL: BellPlace = BellPlace { channel: 0, out: 0, inn: 0 };
}

/// One thread's place to sleep on a doorbell.
pub(crate) trait DoorbellWaiter: Send {
    /// Sleeps until rung or `timeout` passes; rings from before may count.
    fn wait(&mut self, timeout: Duration);
}
