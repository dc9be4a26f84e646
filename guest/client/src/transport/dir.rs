//! A window that is a file in a mounted folder: a bind mount of a container, or a
//! folder of the host that the VMM maps into the VM's memory (virtiofs with DAX).
//! Nothing rings in either direction.

use super::{HUGETLBFS, Transport};
use crate::buffer::FileKind;
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfun_window::{Access, MapError, Mapping};
use vfun_wire::dir::WINDOW;

struct Dir {
    path: PathBuf,
    file: OwnedFd,
    bytes: u64,
    /// Its memory is not of huge pages.
    plain_pages: bool,
}

/// Opens the window in the folder at `asked`.
pub(super) fn open(asked: &Path) -> Result<Arc<dyn Transport>> {
    let path = asked.join(WINDOW);
    let failed = |e: rustix::io::Errno| Error::Device { path: path.clone(), source: e.into() };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(failed)?;
    let kind = rustix::fs::fstatfs(&file).map_err(failed)?.f_type;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(why) = incoherent(kind as i64, &path, &mounts) {
        return Err(Error::NotShared { path, by: why });
    }
    let bytes = rustix::fs::fstat(&file).map_err(failed)?.st_size as u64;
    let plain_pages = kind != HUGETLBFS;
    Ok(Arc::new(Dir { path: asked.to_path_buf(), file, bytes, plain_pages }))
}

/// File systems that keep pages of their own, so that what one side writes does not
/// reach the other one.
const FUSE: i64 = 0x6573_5546;
const COPIES: [(i64, &str); 5] = [
    (0x0102_1997, "9p"),
    (0x6969, "NFS"),
    (0xFE53_4D42, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0x794c_7630, "overlayfs"),
];

/// Why a file of this kind of file system is no shared memory, if it is none.
fn incoherent(kind: i64, path: &Path, mounts: &str) -> Option<&'static str> {
    if let Some((_, name)) = COPIES.iter().find(|(k, _)| *k == kind) {
        return Some(name);
    }
    let dax = || mount_options(path, mounts).is_some_and(|o| o.split(',').any(is_dax));
    (kind == FUSE && !dax()).then_some("FUSE without DAX")
}

fn is_dax(option: &str) -> bool {
    matches!(option, "dax" | "dax=always")
}

/// Options of the file system that `path` is in, by the lines of
/// `/proc/self/mountinfo`: the longest mount point that is above it.
fn mount_options<'a>(path: &Path, mounts: &'a str) -> Option<&'a str> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let above = mounts.lines().filter_map(|line| {
        let point = line.split(' ').nth(4)?;
        path.starts_with(point).then_some((point.len(), line))
    });
    // Of two on one point the later one counts.
    above.max_by_key(|(len, _)| *len)?.1.rsplit(' ').next()
}

impl Transport for Dir {
    fn kind(&self) -> TransportKind {
        TransportKind::Dir
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
        // Others may truncate the file.
        Mapping::guarded(&self.file, off, len, access)
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, FileKind)> {
        self.plain_pages.then(|| (self.file.as_fd(), FileKind::Mapped))
    }
    fn device_gone(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|s| (s.st_size as u64) < self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 0:20 / / rw - ext4 /dev/vda rw\n\
        40 22 0:30 / /mnt/a rw,relatime - virtiofs share rw,dax=always\n\
        41 22 0:31 / /mnt/b rw,relatime - virtiofs other rw\n";

    #[test]
    fn a_file_that_is_copied_is_no_shared_memory() {
        let why = |kind, path: &str| incoherent(kind, Path::new(path), MOUNTS);
        assert_eq!(why(FUSE, "/mnt/a/window"), None);
        assert_eq!(why(FUSE, "/mnt/b/window"), Some("FUSE without DAX"));
        assert_eq!(why(0x6969, "/mnt/a/window"), Some("NFS"));
        assert_eq!(why(0x0102_1994, "/window"), None, "tmpfs is shared memory");
        assert_eq!(why(0xEF53, "/window"), None, "ext4 has one copy of each page");
    }
}
