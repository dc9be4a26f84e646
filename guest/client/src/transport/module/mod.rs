//! A window through the guest's kernel module: `/dev/vfunN`, for any user of
//! its group. The module makes the control requests, moves the heartbeat, lets
//! this process map its own channels and nothing else, and turns interrupts
//! into wake-ups.

mod abi;
mod bell;
mod find;
mod ioctl;
mod links;
mod report;
mod request;

pub use bell::ModuleBell;
pub(crate) use find::DEVICES;
pub use report::ModuleDevice;

use super::{BellPlace, Bells, DoorbellWaiter, Links, Transport};
use crate::buffer::{MemoryPlace, MemoryToMove, Unmovable};
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfun_window::{Access, Bell, MapError, Mapping};

/// An open device, which is one session's.
pub(crate) struct Module {
    path: PathBuf,
    file: Arc<OwnedFd>,
    bytes: u64,
    vectors: u32,
}

impl Module {
    /// Opens the device at `path`.
    fn at(path: &Path) -> Result<Module> {
        let device = |e: Errno| Error::Device { path: path.to_path_buf(), source: e.into() };
        let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(|e| match e {
            Errno::NOENT => Error::NoModule(Some(path.to_path_buf())),
            // The node of a device that is just being unplugged.
            Errno::NODEV | Errno::NXIO => Error::DeviceGone,
            e => device(e),
        })?;
        let info = ioctl::info(file.as_fd()).map_err(|e| match e {
            Errno::NODEV => Error::DeviceGone,
            e => device(e),
        })?;
        same_interface(info.abi)?;
        if info.gone != 0 {
            return Err(Error::DeviceGone);
        }
        let (bytes, vectors) = (info.window_bytes, info.vectors);
        Ok(Module { path: path.to_path_buf(), file: Arc::new(file), bytes, vectors })
    }
}

/// Refuses a module of another version of the interface.
fn same_interface(theirs: u32) -> Result<()> {
    match theirs {
        abi::ABI => Ok(()),
        theirs => Err(Error::ModuleVersion { theirs, ours: abi::ABI }),
    }
}

/// Why the module does not move or pin memory.
fn unmovable(e: Errno) -> Unmovable {
    match e {
        Errno::FAULT => Unmovable::NotThere,
        Errno::MLINK => Unmovable::Shared,
        Errno::OPNOTSUPP => Unmovable::Special,
        Errno::ACCESS => Unmovable::Executable,
        Errno::ROFS => Unmovable::ReadOnly,
        Errno::DQUOT => Unmovable::Limit,
        // A module that was built before there was this call.
        Errno::NOTTY => Unmovable::NoModule,
        Errno::PIPE | Errno::NOENT | Errno::NODEV => Unmovable::BufferOver,
        other => Unmovable::System(other.raw_os_error()),
    }
}

impl Transport for Module {
    fn kind(&self) -> TransportKind {
        TransportKind::Module
    }
    fn place(&self) -> String {
        self.path.display().to_string()
    }
    fn window_bytes(&self) -> u64 {
        self.bytes
    }
    fn map(
        &self,
        off: u64,
        len: usize,
        access: Access,
    ) -> std::result::Result<Arc<Mapping>, MapError> {
        Mapping::new(&self.file, off, len, access)
    }
    fn map_of(
        &self,
        window: u16,
        off: u64,
        len: usize,
        access: Access,
    ) -> std::result::Result<Arc<Mapping>, MapError> {
        let at = u64::from(window) << abi::MAP_SHIFT;
        match off < 1 << abi::MAP_SHIFT {
            true => Mapping::new(&self.file, at | off, len, access),
            false => Err(MapError::Shape),
        }
    }
    fn buffer_over(&self, buffer: u64) -> bool {
        ioctl::buffer(self.file.as_fd(), buffer).is_err()
    }
    fn take_over(
        &self,
        buffer: u64,
        offset: u64,
        memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        ioctl::remap(self.file.as_fd(), buffer, offset, memory).map_err(unmovable)
    }
    fn pin(
        &self,
        table: u64,
        place: u64,
        memory: MemoryToMove,
    ) -> std::result::Result<MemoryPlace, Unmovable> {
        ioctl::pin(self.file.as_fd(), table, place, memory).map_err(unmovable)
    }
    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }
    fn bells(&self) -> Result<Bells> {
        let works = self.vectors != 0;
        Ok(Bells { ring: works, rung: works })
    }
    fn ring(&self, at: BellPlace) {
        // What fails here (the device is gone, the channel was released) is
        // found by the look that follows.
        let _ = ioctl::ring(self.file.as_fd(), at.channel);
    }
    fn waiter(&self, at: BellPlace) -> Option<std::io::Result<Box<dyn DoorbellWaiter>>> {
        let counted = ioctl::wait(self.file.as_fd(), at.channel, 0, Duration::ZERO);
        let file = self.file.clone();
        Some(counted.map_err(Into::into).map(|seen| {
            Box::new(EventCountWaiter { file, channel: at.channel, seen })
                as Box<dyn DoorbellWaiter>
        }))
    }
    fn bell(&self, at: BellPlace) -> Option<std::io::Result<Bell>> {
        let made = Bell::new().and_then(|bell| {
            ioctl::eventfd(self.file.as_fd(), at.channel, bell.as_fd())?;
            Ok(bell)
        });
        Some(made)
    }
    fn host_gone(&self) -> Option<bool> {
        None
    }
    fn device_gone(&self) -> bool {
        match ioctl::info(self.file.as_fd()) {
            Ok(info) => info.gone != 0,
            Err(e) => e == Errno::NODEV,
        }
    }
}

/// A thread's place to sleep: the channel's event count as it last saw it. It
/// was read before the thread declares its sleep, so that a ring after the
/// declaration makes it differ, and the wait end at once.
struct EventCountWaiter {
    file: Arc<OwnedFd>,
    channel: u64,
    seen: u64,
}

impl DoorbellWaiter for EventCountWaiter {
    fn wait(&mut self, timeout: Duration) {
        match ioctl::wait(self.file.as_fd(), self.channel, self.seen, timeout) {
            Ok(seen) => self.seen = seen,
            // Nobody rang, or a signal came: whoever waits looks, and waits again.
            Err(Errno::TIMEDOUT | Errno::INTR) => {}
            // Unplugged or released, which the next look finds; if it does not
            // yet, this must not become a busy loop.
            Err(_) => std::thread::sleep(timeout.min(Duration::from_millis(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_another_interface_is_refused_by_the_older_ones_name() {
        let ours = abi::ABI;
        assert!(same_interface(ours).is_ok());
        for (theirs, update) in [
            (ours - 1, "Install the kernel module of this library's release."),
            (ours + 1, "Update this library (libvfun) to the module's release."),
        ] {
            let e = same_interface(theirs).unwrap_err();
            let said = format!(
                "the kernel module speaks version {theirs} of its interface, this library {ours}"
            );
            assert_eq!((e.to_string(), e.advice()), (said, update.to_owned()));
        }
    }
}
