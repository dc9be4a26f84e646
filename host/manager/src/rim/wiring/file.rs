//! Windows in files, which VMs map by name: what all such transports share.
//!
//! The file stays when its VM ends, so a window that is spoilt is made again in
//! it. Others may write to it, so it can be truncated or replaced.

use super::owner::Whose;
use super::{Place, Wiring};
use crate::core::WindowId;
use crate::core::catalog::{VmId, VmOf};
use crate::rim::Daemon;
use crate::window::{HostWindow, Memory};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
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
    const TRANSPORT: Transport;

    /// Where the file of a VM is: in shared memory, named so that libvirt finds
    /// it too.
    fn file(&self, m: &Daemon, vm: VmOf<'_>) -> PathBuf {
        m.window_folder().join(format!("virtfun-{}", vm.name().file_name()))
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
    fn prepare(&self, m: &mut Daemon, vm: VmOf<'_>) -> Result<(), String> {
        let (client, name) = (vm.client, vm.name());
        m.own_window(&name)?;
        let file = self.file(m, vm);
        let folder = self.make_room(&file)?;
        let (bytes, origin) = (vm.vm.window_bytes, Self::TRANSPORT.row().origin);
        let of = format_args!("client {name}");
        let fd = make(folder.as_ref(), &file, &of, origin + bytes, OldFile::Stays)?;
        let at = |e: &dyn std::fmt::Display| format!("the window {}: {e}", file.display());
        self.prefix(fd.as_fd(), bytes).map_err(|e| at(&e))?;
        let (memory, generation) = (Memory { file: fd, origin }, m.next_window_generation());
        let window = HostWindow::lay_out(memory, bytes, generation, client.id, &client.name, None)
            .map_err(|e| at(&e))?;
        if let Err(e) = m.tree.window(&name, &file) {
            tracing::warn!("the tree could not show a window: {e}");
        }
        let id = m.fresh_id();
        let attached = m.attached(window, vm.id().into(), Self::TRANSPORT, None);
        m.window_up(id, attached);
        Ok(())
    }

    fn prepared(&self, m: &Daemon, vm: VmOf<'_>) -> bool {
        m.rim.windows.values().any(|w| w.is_of(vm) && w.transport == Self::TRANSPORT)
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
        let vm = note.vm.clone().map(|vm| VmId { client: note.client, vm });
        if let Some(name) = vm.and_then(|id| Some(m.rim.core.catalog().vm(&id)?.name())) {
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
        let vm = a.vm_id();
        m.window_gone(id);
        if let Some(vm) = vm {
            m.lay_out_later(vm, id, why);
        }
    }

    fn describe(&self, m: &Daemon, vm: VmOf<'_>) -> Place {
        Place { window_file: Some(self.file(m, vm)), ..Place::default() }
    }

    fn remove(&self, m: &mut Daemon, vm: VmOf<'_>) {
        let file = self.file(m, vm);
        if m.remove_window_file(&Whose::Vm(&vm.name()), &file) {
            self.tidy(&file);
        }
    }
}

/// What becomes of what is in a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rim) enum OldFile {
    /// It stays, but for what is laid out anew.
    Stays,
    /// It goes: the window may have been another VM's.
    Goes,
}

/// Why the file of a window was not made.
pub(in crate::rim) struct NotMade {
    /// A sentence for people.
    pub sentence: String,
    /// There is no memory for it.
    pub no_memory: bool,
}

impl From<NotMade> for String {
    fn from(not: NotMade) -> String {
        not.sentence
    }
}

impl From<String> for NotMade {
    fn from(sentence: String) -> NotMade {
        NotMade { sentence, no_memory: false }
    }
}

/// Makes the file of a window, or opens the one that is there; in its `folder`, if it
/// has one of its own. `of` is who has the window; `found` is for what is in it.
pub(in crate::rim) fn make(
    folder: Option<&OwnedFd>,
    file: &Path,
    of: &dyn std::fmt::Display,
    bytes: u64,
    found: OldFile,
) -> Result<OwnedFd, NotMade> {
    let at = |what: &str, e: Errno| NotMade {
        sentence: format!("the window {} {what}: {}", file.display(), io::Error::from(e)),
        no_memory: matches!(e, Errno::NOMEM | Errno::NOSPC | Errno::DQUOT),
    };
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
    .map_err(|e| at("cannot be opened", e))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| at("cannot be looked at", e))?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(format!("the window {} is not a file: remove it", file.display()).into());
    }
    if stat.st_uid != rustix::process::getuid().as_raw() || stat.st_nlink != 1 {
        let theirs = format!("the window {} belongs to another user: remove it", file.display());
        return Err(theirs.into());
    }
    if stat.st_size == 0 {
        rustix::fs::ftruncate(&fd, bytes).map_err(|e| at("cannot be sized", e))?;
    } else if stat.st_size as u64 != bytes {
        let other = format!(
            "the window {} has {} bytes, that of {} has {bytes}: turn its VM off and remove the file",
            file.display(),
            stat.st_size,
            of,
        );
        return Err(other.into());
    } else if found == OldFile::Goes {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&fd, hole, 0, bytes)
            .map_err(|e| at("cannot be emptied, so remove it", e))?;
    }
    // All of it now: shared memory that runs out later would end whoever
    // touches the next page with SIGBUS, this manager included.
    match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(fd),
        Err(e) => {
            if stat.st_size == 0 {
                let _ = rustix::fs::unlinkat(within, name, AtFlags::empty()); // made just now
            }
            Err(at(&format!("needs {bytes} bytes of its file system"), e))
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
        let in_files: Vec<(WindowId, VmId)> = self
            .rim
            .windows
            .iter()
            .filter(|(_, a)| a.transport.in_file())
            .filter_map(|(id, a)| Some((*id, a.vm_id()?)))
            .collect();
        let vms: BTreeSet<&VmId> = in_files.iter().map(|(_, vm)| vm).collect();
        self.replaced.retain(|vm| vms.contains(vm));
        in_files.into_iter().for_each(|(id, vm)| self.look_at_file(id, vm));
    }

    fn look_at_file(&mut self, id: WindowId, vm: VmId) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let Ok(stat) = rustix::fs::fstat(a.window.fd().as_fd()) else { return };
        if (stat.st_size as u64) < a.window.file_bytes() {
            return self.window_lost(id);
        }
        let Some(of) = self.rim.core.catalog().vm(&vm) else { return };
        let place = super::of(of.vm.transport).describe(self, of);
        let (Some(file), name) = (place.window_file, of.name()) else { return };
        let there = std::fs::symlink_metadata(&file).ok().map(|m| (m.dev(), m.ino()));
        if there == Some((stat.st_dev, stat.st_ino)) {
            self.replaced.remove(&vm);
        } else if self.replaced.insert(vm) {
            let what = if there.is_some() { "replaced by another" } else { "removed" };
            tracing::warn!(
                "client {name}: the file {} of its window was {what}: the VM that runs goes on with the old one; before it starts again, turn it off, remove the file, and declare the client again",
                file.display()
            );
        }
    }
}
