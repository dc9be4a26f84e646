//! Windows in a folder that a VM or container mounts: a file named `window` in a folder
//! of the VM's own, and no bells.

use super::file::InFile;
use crate::core::catalog::VmOf;
use crate::rim::Daemon;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use vfun_admin::Transport;
use vfun_wire::dir::WINDOW;

/// The transport `dir`.
pub(in crate::rim) struct Dir;

impl InFile for Dir {
    const TRANSPORT: Transport = Transport::Dir;

    /// No VM's window in a file is named so, whatever its name: those begin
    /// with `virtfun-`.
    fn file(&self, m: &Daemon, vm: VmOf<'_>) -> PathBuf {
        m.window_folder().join(format!("virtfun.dir-{}", vm.name().file_name())).join(WINDOW)
    }

    fn make_room(&self, file: &Path) -> Result<Option<OwnedFd>, String> {
        file.parent().map(own_folder).transpose()
    }

    fn tidy(&self, file: &Path) {
        if let Some(folder) = file.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes a folder for this user alone, or takes the one that is there. Others can write
/// to the directory above, so what is there may be changed at any time: all is done by
/// the descriptor, and a link or another user's folder is refused.
fn own_folder(folder: &Path) -> Result<OwnedFd, String> {
    let at = |e: rustix::io::Errno| {
        format!("the folder {} of a window: {}", folder.display(), io::Error::from(e))
    };
    match rustix::fs::mkdir(folder, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(e) => return Err(at(e)),
    }
    let another = || format!("the folder {} belongs to another user: remove it", folder.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Err(another()),
        Err(e) => return Err(at(e)),
    };
    if rustix::fs::fstat(&fd).map_err(at)?.st_uid != rustix::process::getuid().as_raw() {
        return Err(another());
    }
    rustix::fs::fchmod(&fd, Mode::RWXU).map_err(at)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_folder_is_for_its_user_alone_and_what_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, moved) = (dir.path().join("own"), dir.path().join("moved"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        own_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let fd = own_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        // What comes to be in its place afterwards is another folder.
        std::fs::rename(&folder, &moved).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let flags = OFlags::CREATE | OFlags::RDWR;
        rustix::fs::openat(&fd, WINDOW, flags, Mode::RUSR).unwrap();
        assert!(moved.join(WINDOW).exists() && !folder.join(WINDOW).exists());

        // A link's own permissions and those behind it stay.
        let (other, link) = (dir.path().join("other"), dir.path().join("link"));
        std::fs::create_dir(&other).unwrap();
        std::fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
        symlink(&other, &link).unwrap();
        assert!(own_folder(&link).unwrap_err().contains("belongs to another user"));
        assert_eq!(mode(&other), 0o755);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(own_folder(&file).unwrap_err().contains("belongs to another user"));
    }
}
