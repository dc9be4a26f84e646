//! A window in persistent memory (virtio-pmem, NVDIMM), which Linux shows as a
//! character device `/dev/daxN.M`: the host lays it out so. This process maps it
//! itself; nothing rings in either direction.

use super::Transport;
use super::window::client_of;
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfun_window::{Access, MapError, Mapping};
use vfun_wire::PAGE;
use vfun_wire::header::MAGIC;

/// Where the devices have their nodes.
pub(super) const DEVICES: &str = "/dev";

struct Pmem {
    path: PathBuf,
    node: OwnedFd,
    bytes: u64,
}

/// Opens the device at `asked`, or the only one below `root` that holds a window. Of
/// several, the one that belongs to `client` is meant.
pub(super) fn open(
    root: &Path,
    asked: Option<&Path>,
    client: Option<&str>,
) -> Result<Arc<dyn Transport>> {
    if let Some(path) = asked {
        return Ok(Arc::new(Pmem::at(path)?));
    }
    let (mut opened, mut failed) = (vec![], None);
    for path in nodes(root) {
        match Pmem::at(&path) {
            Ok(window) if window.holds_a_window() => opened.push(window),
            // Somebody else's, or a window not yet laid out: kept for the case that it
            // is the only one.
            other => failed = failed.or(Some(other)),
        }
    }
    if opened.len() > 1
        && let Some(client) = client
    {
        opened.retain(|w| client_of(w).as_deref() == Some(client));
    }
    if opened.len() > 1 {
        return Err(Error::SeveralWindows(opened.iter().map(Transport::place).collect()));
    }
    match opened.pop() {
        Some(window) => Ok(Arc::new(window)),
        // The check of the header, which follows, says what is wrong.
        None => Ok(Arc::new(failed.unwrap_or_else(|| Err(none(None)))?)),
    }
}

fn none(at: Option<&Path>) -> Error {
    Error::NoWindow(match at {
        Some(path) => format!("no window is in the persistent memory {}", path.display()),
        None => "no persistent memory (/dev/daxN.M) is in this machine".into(),
    })
}

/// The nodes there are, in order of their names.
fn nodes(root: &Path) -> Vec<PathBuf> {
    let is_one = |name: &str| {
        let numbers = name.strip_prefix("dax").and_then(|rest| rest.split_once('.'));
        numbers.is_some_and(|(n, m)| n.parse::<u32>().is_ok() && m.parse::<u32>().is_ok())
    };
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.filter(|e| e.file_name().to_str().is_some_and(is_one)).map(|e| e.path()).collect();
    found.sort();
    found
}

impl Pmem {
    fn at(path: &Path) -> Result<Pmem> {
        let failed = |source| Error::Device { path: path.to_path_buf(), source };
        let node =
            rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| {
                match e {
                    rustix::io::Errno::NOENT => none(Some(path)),
                    rustix::io::Errno::NXIO | rustix::io::Errno::NODEV => Error::DeviceGone,
                    e => failed(e.into()),
                }
            })?;
        let bytes = size(&node).map_err(failed)?;
        Ok(Pmem { path: path.to_path_buf(), node, bytes })
    }

    fn holds_a_window(&self) -> bool {
        self.map(0, PAGE, Access::Read)
            .is_ok_and(|m| m.read().load(0, std::sync::atomic::Ordering::Acquire) == MAGIC)
    }
}

/// Bytes of the memory behind a node.
fn size(node: &OwnedFd) -> std::io::Result<u64> {
    let stat = rustix::fs::fstat(node)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
        return Err(std::io::Error::other("it is no device"));
    }
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let text = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size"))?;
    text.trim().parse().map_err(|_| std::io::Error::other("its size cannot be read"))
}

impl Transport for Pmem {
    fn kind(&self) -> TransportKind {
        TransportKind::Pmem
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
        // Linux takes its pages away when the device is unplugged.
        Mapping::guarded(&self.node, off, len, access)
    }
    fn device_gone(&self) -> bool {
        !self.path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_their_names_and_must_be_devices() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["dax1.0", "dax0.0", "dax", "dax0", "daxctl", "dax0.x", "null"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(nodes(dir.path()), [dir.path().join("dax0.0"), dir.path().join("dax1.0")]);
        let e = open(dir.path(), None, None).err().unwrap();
        assert!(matches!(e, Error::Device { .. }), "{e}");
        let e = open(&dir.path().join("nowhere"), None, None).err().unwrap();
        assert!(matches!(e, Error::NoWindow(_)), "{e}");
    }
}
