//! A VF whose registers are memory: a page of a PCI BAR (`resourceN` in sysfs),
//! of a UIO device, or of a file that stands in for one.

mod interrupts;

pub use interrupts::Interrupts;

use crate::bsp::Polls;
use crate::limits::{INTERRUPT, WINDOW_BYTES};
use crate::registers::{CONTROL, CONTROL_RESET, CONTROL_START};
use crate::{Bsp, BspError, OpenBsp, settings};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use vfun_sdk::{BAD_SETTING, Config, DriverError};
use vfun_window::Registers;

/// A VF whose registers are mapped into this process.
pub struct Bar {
    registers: Registers,
    interrupts: Option<Interrupts>,
    polls: Polls,
    name: String,
    /// Its lock, held as long as it is open, is what makes the VF ours.
    _file: Option<OwnedFd>,
}

fn os(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> BspError {
    let what = what.into();
    move |e| BspError::Os { what, error: e.into() }
}

impl Bar {
    /// Maps page `page` of `path` and takes the file for oneself: others get
    /// [`BspError::Taken`] until this is dropped, or its process has ended. So
    /// where a file has several VFs, one process has them all; SR-IOV and UIO
    /// have a file for each.
    ///
    /// For a UIO device, page n is its map n, and its interrupts come too.
    pub fn open_file(path: &Path, page: u32) -> Result<Self, BspError> {
        let name = path.display().to_string();
        let flags = OFlags::RDWR | OFlags::SYNC | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(os(format!("cannot open {name}")))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(BspError::Taken(format!("{name} is in use by somebody else")));
            }
            Err(e) => return Err(os(format!("cannot lock {name}"))(e)),
        }
        let registers = map(&file, page, &name)?;
        let stat = rustix::fs::fstat(&file).map_err(os(format!("cannot look at {name}")))?;
        // A BAR's file is a regular one, a UIO device's a device.
        let interrupts = if FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice {
            let file = file
                .try_clone()
                .map_err(|error| BspError::Os { what: format!("cannot wait for {name}"), error })?;
            Some(Interrupts::new(file))
        } else {
            None
        };
        Ok(Bar { registers, interrupts, polls: Polls::default(), name, _file: Some(file) })
    }

    /// The same with a mapping and interrupts that the caller has: what a
    /// vendor's library opened, or what a test stands in with.
    pub fn new(name: &str, registers: Registers, interrupts: Option<Interrupts>) -> Self {
        Bar { registers, interrupts, polls: Polls::default(), name: name.into(), _file: None }
    }

    fn at(register: u32) -> Result<usize, BspError> {
        if register > WINDOW_BYTES - 4 {
            return Err(BspError::OutOfWindow { register });
        }
        // Most buses would take it for another register.
        if !register.is_multiple_of(4) {
            return Err(BspError::Refused { register, written: false });
        }
        Ok(register as usize)
    }
}

fn map(file: &OwnedFd, page: u32, name: &str) -> Result<Registers, BspError> {
    let offset = u64::from(page) * u64::from(WINDOW_BYTES);
    Registers::page(file, offset, WINDOW_BYTES as usize)
        .map_err(|e| BspError::Absent(format!("{name} has no registers at {offset:#x}: {e}")))
}

impl Bsp for Bar {
    fn describe(&self) -> String {
        let how = if self.interrupts.is_some() { "interrupts" } else { "polled" };
        format!("{} ({how})", self.name)
    }

    fn read(&mut self, register: u32) -> Result<u32, BspError> {
        Ok(self.registers.load32(Bar::at(register)?))
    }

    fn write(&mut self, register: u32, value: u32) -> Result<(), BspError> {
        let at = Bar::at(register).map_err(|e| match e {
            BspError::Refused { register, .. } => BspError::Refused { register, written: true },
            other => other,
        })?;
        if register == CONTROL && value == CONTROL_START {
            self.polls.restart();
        }
        self.registers.store32(at, value);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), BspError> {
        match &mut self.interrupts {
            Some(interrupts) => interrupts.wait(INTERRUPT).map_err(|error| BspError::Os {
                what: format!("cannot wait for {}'s interrupt", self.name),
                error,
            }),
            None => {
                self.polls.pass();
                Ok(())
            }
        }
    }

    fn reset(&mut self) -> Result<(), BspError> {
        self.write(CONTROL, CONTROL_RESET)
    }
}

impl OpenBsp for Bar {
    /// Settings: `fpga_path`, the file, and `fpga_vf`, the page in it (0).
    fn open(config: &Config) -> Result<Self, DriverError> {
        let Some(path) = config.settings.get("fpga_path") else {
            return Err(DriverError::new(
                BAD_SETTING,
                "the manifest's settings name no fpga_path: /dev/uioN, or a BAR's resourceN",
            ));
        };
        let page = settings::vf(config)?.unwrap_or(0);
        Ok(Bar::open_file(Path::new(path), page)?)
    }
}
