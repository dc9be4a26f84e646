//! A window in BAR 2 of an ivshmem device, mapped by this process itself.
//! It has no doorbell: that needs the kernel module.

use super::pci::{Device, devices};
use super::{Transport, Waiter};
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use vfun_window::{Access, MapError, Mapping};
use vfun_wire::PAGE;
use vfun_wire::header::MAGIC;

struct Ivshmem {
    address: String,
    bar: OwnedFd,
    bytes: u64,
}

/// Opens the window at `asked`, or the only one there is.
pub(crate) fn open(root: &Path, asked: Option<&str>) -> Result<Arc<dyn Transport>> {
    let mut windows = Vec::new();
    let mut failed = None;
    for device in devices(root, asked)? {
        match open_bar(&device) {
            Ok(w) if asked.is_some() || holds_a_window(&w) => windows.push(w),
            // Somebody else's ivshmem device, or a window not yet laid out:
            // kept for the case that it is the only one.
            Ok(w) => failed = failed.or(Some(Ok(w))),
            Err(e) => failed = failed.or(Some(Err(e))),
        }
    }
    if windows.len() > 1 {
        return Err(Error::SeveralWindows(windows.into_iter().map(|w| w.address).collect()));
    }
    match windows.pop() {
        Some(w) => Ok(Arc::new(w)),
        // The check of the header, which follows, says what is wrong.
        None => match failed {
            Some(Ok(w)) => Ok(Arc::new(w)),
            Some(Err(e)) => Err(e),
            None => Err(Error::NoDevice(asked.map(str::to_string))),
        },
    }
}

fn open_bar(device: &Device) -> Result<Ivshmem> {
    let mut first = None;
    for path in device.files() {
        let attempt = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .and_then(|bar| rustix::fs::fstat(&bar).map(|s| (bar, s.st_size as u64)));
        match attempt {
            // A BAR that cannot be mapped this way is tried the other way.
            Ok((bar, bytes)) => match Mapping::new(&bar, 0, PAGE, Access::Read) {
                Ok(_) => return Ok(Ivshmem { address: device.address.clone(), bar, bytes }),
                Err(MapError::Os(source)) => {
                    first.get_or_insert(Error::Device { path, source });
                }
                Err(e) => {
                    first.get_or_insert(Error::Map(e));
                }
            },
            Err(rustix::io::Errno::NOENT) => {}
            Err(e) => {
                first.get_or_insert(Error::Device { path, source: e.into() });
            }
        }
    }
    Err(first.unwrap_or_else(|| Error::NoDevice(Some(device.address.clone()))))
}

fn holds_a_window(w: &Ivshmem) -> bool {
    Mapping::new(&w.bar, 0, PAGE, Access::Read)
        .is_ok_and(|m| m.read().load(0, std::sync::atomic::Ordering::Acquire) == MAGIC)
}

impl Transport for Ivshmem {
    fn kind(&self) -> TransportKind {
        TransportKind::Ivshmem
    }
    fn place(&self) -> String {
        self.address.clone()
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
        Mapping::new(&self.bar, off, len, access)
    }
    fn has_doorbell(&self) -> bool {
        false
    }
    fn ring(&self, _vector: u16) {}
    fn waiter(&self, _vector: u16) -> Option<std::io::Result<Box<dyn Waiter>>> {
        None
    }
    fn host_gone(&self) -> bool {
        false
    }
}
