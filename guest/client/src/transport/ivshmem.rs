//! A window in BAR 2 of an ivshmem device, mapped by this process itself. It
//! can ring through the device's registers but cannot be rung (R-WIN-9): an
//! interrupt needs a driver, such as the kernel module.

use super::pci::{Device, devices};
use super::window::client_of;
use super::{BellPlace, Bells, DoorbellWaiter, Transport};
use crate::buffer::FileKind;
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use vfun_window::{Access, Bell, MapError, Mapping, Registers};
use vfun_wire::PAGE;
use vfun_wire::header::MAGIC;
use vfun_wire::ivshmem::{REG_DOORBELL, ring_host};

struct Ivshmem {
    device: Device,
    bar: OwnedFd,
    bytes: u64,
    /// BAR 0, once it is known that the window has doorbells.
    registers: OnceLock<Registers>,
}

/// Bytes of BAR 0 that are used: up to and with the doorbell.
const REGISTER_BYTES: usize = REG_DOORBELL + 4;

/// Opens the window at `asked`, or the only one there is. Of several, the one
/// that belongs to `client` is meant.
pub(crate) fn open(
    root: &Path,
    asked: Option<&str>,
    client: Option<&str>,
) -> Result<Arc<dyn Transport>> {
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
    if windows.len() > 1
        && let Some(client) = client
    {
        windows.retain(|w| client_of(w).as_deref() == Some(client));
    }
    if windows.len() > 1 {
        return Err(Error::SeveralWindows(windows.into_iter().map(|w| w.device.address).collect()));
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
                Ok(_) => {
                    let (device, registers) = (device.clone(), OnceLock::new());
                    return Ok(Ivshmem { device, bar, bytes, registers });
                }
                Err(MapError::Os(source)) => {
                    first.get_or_insert_with(|| not_mapped(device, path, source));
                }
                Err(e) => {
                    first.get_or_insert(Error::Map(e));
                }
            },
            Err(rustix::io::Errno::NOENT) => {}
            Err(e) => {
                first.get_or_insert_with(|| not_mapped(device, path, e.into()));
            }
        }
    }
    Err(first.unwrap_or_else(|| Error::NoDevice(Some(device.address.clone()))))
}

/// The error of a BAR that cannot be mapped. Linux lets nobody else map what a
/// driver holds.
fn not_mapped(device: &Device, path: PathBuf, source: std::io::Error) -> Error {
    match device.driver() {
        Some(driver) => Error::DeviceHeld { address: device.address.clone(), driver },
        None => Error::Device { path, source },
    }
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
        self.device.address.clone()
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
    fn file(&self) -> Option<(BorrowedFd<'_>, FileKind)> {
        Some((self.bar.as_fd(), FileKind::Mapped))
    }
    fn bells(&self) -> Result<Bells> {
        let (path, from) = self.device.registers();
        let opened = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| MapError::Os(e.into()))
            .and_then(|bar| Registers::new(bar, from, REGISTER_BYTES));
        let registers = opened.map_err(|e| match e {
            MapError::Os(source) => not_mapped(&self.device, path, source),
            e => Error::Map(e),
        })?;
        let _ = self.registers.set(registers);
        Ok(Bells { ring: true, rung: false })
    }
    fn ring(&self, at: BellPlace) {
        if let Some(registers) = self.registers.get() {
            registers.store32(REG_DOORBELL, ring_host(at.out));
        }
    }
    fn waiter(&self, _at: BellPlace) -> Option<std::io::Result<Box<dyn DoorbellWaiter>>> {
        None
    }
    fn bell(&self, _at: BellPlace) -> Option<std::io::Result<Bell>> {
        None
    }
    fn host_gone(&self) -> Option<bool> {
        None
    }
    fn device_gone(&self) -> bool {
        self.device.gone()
    }
}
