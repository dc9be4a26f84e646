//! Windows in files, which VMs map by name: what all such transports share.
//!
//! The file stays when its VM ends, so a window that is spoilt is laid out anew in
//! it. Others may write to it, so it can be truncated or replaced.

use super::{Place, Wiring};
use crate::core::WindowId;
use crate::core::catalog::Client;
use crate::rim::Daemon;
use crate::window::{HostWindow, Memory};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use vfun_admin::Transport;
use vfun_rim::keep::WindowNote;
use vfun_rim::methods::*;

/// A transport whose windows are files.
pub(super) trait InFile: Sync {
    /// Which.
    const TRANSPORT: Transport;

    /// Where the file of a client is: in shared memory, named so that libvirt finds
    /// it too.
    fn file(&self, m: &Daemon, client: &Client) -> PathBuf {
        m.window_folder().join(format!("virtfun-{}", client.name))
    }

    /// Makes the folder that the file is to be in, if that is one of its own: the folder
    /// itself, whatever comes to be in its place.
    ///
    /// # Errors
    /// A sentence for people.
    fn make_room(&self, _file: &Path) -> Result<Option<OwnedFd>, String> {
        Ok(None)
    }

    /// Writes what is before the window in its file.
    ///
    /// # Errors
    /// Of the file system.
    fn prefix(&self, _file: BorrowedFd<'_>, _window_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// The file was removed: removes what [`InFile::make_room`] made.
    fn tidy(&self, _file: &Path) {}
}

impl<T: InFile> Wiring for T {
    fn prepare(&self, m: &mut Daemon, client: &Client) -> Result<(), String> {
        m.own_window(&client.name)?;
        let file = self.file(m, client);
        let folder = self.make_room(&file)?;
        let (bytes, origin) = (client.window_bytes, Self::TRANSPORT.row().origin);
        let fd = make(folder.as_ref(), &file, client, origin + bytes)?;
        let at = |e: &dyn std::fmt::Display| format!("the window {}: {e}", file.display());
        self.prefix(fd.as_fd(), bytes).map_err(|e| at(&e))?;
        let (memory, generation) = (Memory { file: fd, origin }, m.next_window_generation());
        let window = HostWindow::lay_out(memory, bytes, generation, client.id, &client.name, None)
            .map_err(|e| at(&e))?;
        if let Err(e) = m.tree.window(&client.name, &file) {
            tracing::warn!("the tree could not show a window: {e}");
        }
        let id = m.fresh_id();
        let attached = m.attached(window, client.id, Self::TRANSPORT, None);
        m.window_up(id, attached);
        Ok(())
    }

    fn prepared(&self, m: &Daemon, client: &Client) -> bool {
        m.rim.windows.values().any(|w| w.client == client.id && w.transport == Self::TRANSPORT)
    }

    fn accept(&self, _: &mut Daemon, _: u32) {
        // A file has no socket to connect to.
    }

    fn take_up(
        &self,
        m: &mut Daemon,
        note: &WindowNote,
        file: OwnedFd,
        _: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Option<UnixStream>), String> {
        if let Some(client) = m.rim.core.catalog().clients.get(&note.client) {
            let name = client.name.clone();
            m.own_window(&name)?;
        }
        let memory = Memory { file, origin: Self::TRANSPORT.row().origin };
        let window = HostWindow::take_up(memory, note.bytes, note.generation, None);
        Ok((window.map_err(|e| e.to_string())?, None))
    }

    fn spoilt(&self, m: &mut Daemon, id: WindowId) {
        let Some(a) = m.rim.windows.get(&id) else { return };
        // No program that looks at it anew would take it for a window.
        match a.window.header_is_itself() {
            false => m.take_down(id, "its guest overwrote its header"),
            true => m.write_header_again(id),
        }
    }

    fn lost(&self, m: &mut Daemon, id: WindowId, why: &'static str) {
        let Some(a) = m.rim.windows.get(&id) else { return };
        let client = a.client;
        m.window_gone(id);
        m.lay_out_later(client, id, why);
    }

    fn describe(&self, m: &Daemon, client: &Client) -> Place {
        Place { window_file: Some(self.file(m, client)), ..Place::default() }
    }

    fn remove(&self, m: &mut Daemon, client: &Client) {
        let file = self.file(m, client);
        if m.remove_window_file(&client.name, &file) {
            self.tidy(&file);
        }
    }
}

/// Makes the file of a client's window, or opens the one that is there; in its `folder`,
/// if it has one of its own.
fn make(
    folder: Option<&OwnedFd>,
    file: &Path,
    client: &Client,
    bytes: u64,
) -> Result<OwnedFd, String> {
    let at = |what: &str, e: io::Error| format!("the window {} {what}: {e}", file.display());
    // Others can write to the directory: no link is followed, and a file
    // that somebody else put there is refused.
    let (within, name) = match (folder, file.file_name()) {
        (Some(folder), Some(name)) => (folder.as_fd(), Path::new(name)),
        _ => (rustix::fs::CWD, file),
    };
    let fd = rustix::fs::openat(
        within,
        name,
        OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            // A program that can write here must not hold up the manager by what it put there.
            | OFlags::NONBLOCK
            | OFlags::NOCTTY,
        Mode::RUSR | Mode::WUSR,
    )
    .map_err(|e| at("cannot be opened", e.into()))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| at("cannot be looked at", e.into()))?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(format!("the window {} is not a file: remove it", file.display()));
    }
    if stat.st_uid != rustix::process::getuid().as_raw() || stat.st_nlink != 1 {
        return Err(format!("the window {} belongs to another user: remove it", file.display()));
    }
    if stat.st_size == 0 {
        rustix::fs::ftruncate(&fd, bytes).map_err(|e| at("cannot be sized", e.into()))?;
    } else if stat.st_size as u64 != bytes {
        return Err(format!(
            "the window {} has {} bytes, that of client {} has {bytes}: turn its VM off and remove the file",
            file.display(),
            stat.st_size,
            client.name,
        ));
    }
    // All of it now: shared memory that runs out later would end whoever
    // touches the next page with SIGBUS, this manager included.
    match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(fd),
        Err(e) => {
            if stat.st_size == 0 {
                let _ = rustix::fs::unlinkat(within, name, AtFlags::empty()); // made just now
            }
            Err(at(&format!("needs {bytes} bytes of its file system"), e.into()))
        }
    }
}

impl Daemon {
    /// Where windows' files are.
    pub(super) fn window_folder(&self) -> &Path {
        &self.config.window_dir
    }

    /// Looks whether windows' files are still those that are mapped, and whole.
    pub(in crate::rim) fn look_at_files(&mut self) {
        let in_files: Vec<(WindowId, u32)> = self
            .rim
            .windows
            .iter()
            .filter(|(_, a)| a.transport.in_file())
            .map(|(id, a)| (*id, a.client))
            .collect();
        let clients: BTreeSet<u32> = in_files.iter().map(|(_, client)| *client).collect();
        self.replaced.retain(|client| clients.contains(client));
        in_files.into_iter().for_each(|(id, client)| self.look_at_file(id, client));
    }

    fn look_at_file(&mut self, id: WindowId, client: u32) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let Ok(stat) = rustix::fs::fstat(a.window.fd().as_fd()) else { return };
        if (stat.st_size as u64) < a.window.file_bytes() {
            return self.window_lost(id);
        }
        let Some(c) = self.rim.core.catalog().clients.get(&client) else { return };
        let Some(file) = super::of(c.transport).describe(self, c).window_file else { return };
        let name = c.name.clone();
        let there = std::fs::symlink_metadata(&file).ok().map(|m| (m.dev(), m.ino()));
        if there == Some((stat.st_dev, stat.st_ino)) {
            self.replaced.remove(&client);
        } else if self.replaced.insert(client) {
            let what = if there.is_some() { "replaced by another" } else { "removed" };
            tracing::warn!(
                "client {name}: the file {} of its window was {what}: the VM that runs goes on with the old one; before it starts again, turn it off, remove the file, and declare the client anew",
                file.display()
            );
        }
    }
}
