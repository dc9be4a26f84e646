//! What the kernel module says of its devices, for people and tools.

use super::find::{DEVICES, nodes};
use super::{Module, ioctl};
use crate::error::{Error, Result};
use crate::transport::Transport;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A device of the guest's kernel module, as the module describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleDevice {
    /// Its node, such as `/dev/vfun0`.
    pub path: PathBuf,
    /// Its PCI address, such as `0000:00:04.0`.
    pub pci: String,
    /// Bytes of the window.
    pub window_bytes: u64,
    /// Doorbells, the one of control among them; 0: none.
    pub vectors: u32,
}

impl ModuleDevice {
    /// The nodes that the module has made on this machine, in order of their numbers.
    pub fn nodes() -> Vec<PathBuf> {
        nodes(Path::new(DEVICES))
    }

    /// Opens a node and asks; the error says why this user has no use of it.
    pub fn ask(path: &Path) -> Result<ModuleDevice> {
        let module = Module::at(path)?;
        let info = ioctl::info(module.file.as_fd())
            .map_err(|e| Error::Device { path: path.to_path_buf(), source: e.into() })?;
        Ok(ModuleDevice {
            path: path.to_path_buf(),
            pci: pci_address(info.pci),
            window_bytes: module.window_bytes(),
            vectors: info.vectors,
        })
    }
}

/// `domain << 16 | bus << 8 | slot << 3 | function`, as people write it.
fn pci_address(n: u32) -> String {
    format!("{:04x}:{:02x}:{:02x}.{}", n >> 16, n >> 8 & 0xff, n >> 3 & 0x1f, n & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_linux_writes_them() {
        assert_eq!(pci_address(1 << 16 | 0x2a << 8 | 4 << 3 | 1), "0001:2a:04.1");
        assert!(matches!(ModuleDevice::ask(Path::new("/dev/vfun99")), Err(Error::NoModule(_))));
    }
}
