//! The memory of a VM that its client's manifest lets services map.

use super::Daemon;
use crate::core::WindowId;
use crate::core::catalog::{Client, SharedMemory};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Opens a file. Its owner may be anybody: it must be a plain file, and no device or pipe that opening waits for.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()? {
        of if !of.is_file() => Err(io::Error::other("it is no plain file")),
        of if of.len() == 0 => Err(io::Error::other("it is empty")),
        _ => Ok(file),
    }
}

/// The largest memfd of a process: of a virtual machine that is its memory.
fn open_of_process(pidfile: &Path) -> io::Result<File> {
    let text = fs::read_to_string(pidfile)?;
    let pid: u32 = text
        .trim()
        .parse()
        .map_err(|_| io::Error::other("it does not say the number of a process"))?;
    let mut found: Vec<(u64, u64, u64, PathBuf)> = vec![];
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        // One may be closed meanwhile.
        let Ok(name) = fs::read_link(&path) else { continue };
        if name.to_string_lossy().starts_with("/memfd:") {
            found.extend(fs::metadata(&path).ok().map(|of| (of.len(), of.dev(), of.ino(), path)));
        }
    }
    found.sort_unstable();
    match found.as_slice() {
        [.., (less, ..), (most, ..)] if less == most => Err(io::Error::other(
            "its process has several memfds of this size: a VM with several memory backends is not supported",
        )),
        [.., (_, dev, ino, path)] => {
            let file = open(path)?;
            let is = file.metadata()?;
            // The process may have closed it, and opened another file in its place.
            match (is.dev(), is.ino()) == (*dev, *ino) {
                true => Ok(file),
                false => Err(io::Error::other("its process has just closed it")),
            }
        }
        [] => Err(io::Error::other(
            "its process has no memfd: start QEMU with memory-backend-memfd,share=on",
        )),
    }
}

/// As people are told.
pub(super) fn shared_memory(client: &Client) -> BTreeMap<String, String> {
    client.shared_memory.iter().map(|(vm, memory)| (vm.clone(), memory.to_string())).collect()
}

impl Daemon {
    /// The memory of the VM that has this window. A service that gets none says to its callers that it is not
    /// there.
    pub(super) fn shared_memory(&self, window: WindowId) -> Option<OwnedFd> {
        let (client, vm) = self.rim.core.client_and_vm(window)?;
        let memory = client.shared_memory.get(vm)?;
        let opened = match memory {
            SharedMemory::File(path) => open(path),
            SharedMemory::Process(path) => open_of_process(path),
        };
        match opened {
            Ok(file) => Some(file.into()),
            Err(e) => {
                tracing::warn!(
                    client = client.name,
                    vm,
                    "shared_memory {memory} cannot be opened: {e}"
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::io::{Read, Write};

    #[test]
    fn memory_is_a_file_or_the_largest_memfd_of_a_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ram");
        fs::write(&path, "").unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("empty"));
        assert!(open(dir.path()).is_err());
        fs::write(&path, "12345678").unwrap();
        assert_eq!(open(&path).unwrap().metadata().unwrap().len(), 8);

        let pidfile = dir.path().join("pid");
        fs::write(&pidfile, "no number").unwrap();
        assert!(open_of_process(&pidfile).unwrap_err().to_string().contains("number of a process"));
        fs::write(&pidfile, format!("{}\n", std::process::id())).unwrap();
        let memfd = |bytes: u64| {
            let file = File::from(rustix::fs::memfd_create("ram", MemfdFlags::CLOEXEC).unwrap());
            file.set_len(bytes).unwrap();
            file
        };
        // Larger than what other tests of this process may have.
        let (_small, mut large) = (memfd(1 << 43), memfd(1 << 44));
        large.write_all(b"this one").unwrap();
        let mut text = [0; 8];
        open_of_process(&pidfile).unwrap().read_exact(&mut text).unwrap();
        assert_eq!(&text, b"this one");
        let _twin = memfd(1 << 44);
        assert!(open_of_process(&pidfile).unwrap_err().to_string().contains("several"));
    }
}
