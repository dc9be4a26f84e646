//! Windows in a folder that a VM or container mounts: a file named `window` in a folder
//! of the client's own, and no bells.

use super::file::InFile;
use crate::core::catalog::Client;
use crate::rim::Daemon;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use vfun_admin::Transport;
use vfun_wire::dir::WINDOW;

/// The transport `dir`.
pub(in crate::rim) struct Dir;

impl InFile for Dir {
    const TRANSPORT: Transport = Transport::Dir;

    fn file(&self, m: &Daemon, client: &Client) -> PathBuf {
        m.window_folder().join(format!("virtfun-{}.dir", client.name)).join(WINDOW)
    }

    fn make_room(&self, file: &Path) -> Result<(), String> {
        let Some(folder) = file.parent() else { return Ok(()) };
        let at = |e: std::io::Error| format!("the folder {} of a window: {e}", folder.display());
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(at(e)),
        }
        // Others can write to the directory above: a link or another user's is refused.
        let found = std::fs::symlink_metadata(folder).map_err(at)?;
        if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
            return Err(format!(
                "the folder {} belongs to another user: remove it",
                folder.display()
            ));
        }
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(at)
    }

    fn tidy(&self, file: &Path) {
        if let Some(folder) = file.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
