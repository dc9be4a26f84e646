//! A device's doorbell by itself, for those who measure what it costs.

use super::{Module, ioctl};
use crate::error::Result;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// The control doorbell of a device of the kernel module, both ways, with no
/// session: what a ring and a wait of the module cost by themselves. Rings of
/// it are harmless; the host looks for requests and finds none.
pub struct ModuleBell {
    module: Module,
    seen: u64,
}

impl ModuleBell {
    /// Opens a device; rings from now on are counted.
    pub fn open(path: &Path) -> Result<ModuleBell> {
        let mut bell = ModuleBell { module: Module::at(path)?, seen: 0 };
        bell.wait(Duration::ZERO);
        Ok(bell)
    }

    /// Rings the host.
    ///
    /// # Errors
    /// The module's: the device is gone.
    pub fn ring(&self) -> std::io::Result<()> {
        Ok(ioctl::ring(self.module.file.as_fd(), 0)?)
    }

    /// Sleeps until the host has rung since the last wait, or for so long; false
    /// if it has not.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        match ioctl::wait(self.module.file.as_fd(), 0, self.seen, at_most) {
            Ok(seen) => std::mem::replace(&mut self.seen, seen) != seen,
            Err(_) => false,
        }
    }
}
