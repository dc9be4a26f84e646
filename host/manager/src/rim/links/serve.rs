//! Where the QEMU of a VM takes a window that was made for links: a socket for this one window and
//! this VM, as long as the window is on its way in. The window is a memfd, which nobody finds by a
//! name. Source of the protocol: docs/specs/ivshmem-spec.rst of QEMU.

use crate::core::WindowId;
use crate::rim::wiring::ivshmem_doorbell::{hand_memory_over, listen_for_qemu, refuse};
use crate::rim::{Daemon, Kind};
use rustix::event::epoll::EventFlags;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use vfun_rim::methods::*;

/// A window and which of its two VMs.
pub(super) type MadeFor = (WindowId, usize);

/// One of those sockets.
struct ServedWindow {
    of: MadeFor,
    listener: UnixListener,
    path: PathBuf,
}

impl ServedWindow {
    /// Takes one connection and sends it away.
    fn turn_away(&self) -> bool {
        self.listener.accept().is_ok_and(|(stream, _)| {
            refuse(&stream);
            true
        })
    }
}

impl Drop for ServedWindow {
    fn drop(&mut self) {
        // A QEMU that finds its connection closed hangs.
        while self.turn_away() {}
        let _ = fs::remove_file(&self.path);
    }
}

/// All of them, by the number of the socket, and the connections of QEMUs that took a window. A
/// QEMU that finds its connection closed while it takes the window hangs, so they stay.
#[derive(Default)]
pub(super) struct ServedWindows {
    sockets: BTreeMap<u32, ServedWindow>,
    taken: BTreeMap<MadeFor, UnixStream>,
}

impl ServedWindows {
    /// The window is not on its way into this VM any more.
    pub fn end(&mut self, of: MadeFor) {
        self.sockets.retain(|_, served| served.of != of);
    }

    /// Sends one away from each socket: the manager is out of file descriptors.
    pub fn turn_away(&self) {
        for served in self.sockets.values() {
            served.turn_away();
        }
    }

    /// The window is there no more.
    pub fn forget(&mut self, window: WindowId) {
        self.sockets.retain(|_, served| served.of.0 != window);
        self.taken.retain(|of, _| of.0 != window);
    }

    /// Connections of QEMUs that have it.
    pub fn of(&self, window: WindowId) -> impl Iterator<Item = &UnixStream> {
        self.taken.iter().filter(move |(of, _)| of.0 == window).map(|(_, stream)| stream)
    }
}

impl Daemon {
    /// Hands a window over to the one who connects next, for this VM.
    pub(super) fn serve_made(&mut self, of: MadeFor) -> Result<PathBuf, String> {
        let d = self.rim.further.get(&of.0).ok_or("the window is gone")?;
        let path = self.tree.made_socket(&d.note().name, of.1);
        let at = |e: io::Error| format!("the window's socket {}: {e}", path.display());
        self.links.served.end(of);
        let listener = listen_for_qemu(&path).map_err(at)?;
        let id = self.fresh_id();
        self.watch(&listener, Kind::MadeListener, id, EventFlags::IN).map_err(at)?;
        let served = ServedWindow { of, listener, path: path.clone() };
        self.links.served.sockets.insert(id, served);
        Ok(path)
    }

    /// Somebody connects. One takes it: the QEMU that is told to at this moment.
    pub(in crate::rim) fn accept_for_made(&mut self, id: u32) {
        let Some(served) = self.links.served.sockets.get(&id) else { return };
        let of = served.of;
        let stream = match served.listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) => return self.refuse_for_want_of_descriptors(&e),
        };
        self.links.served.sockets.remove(&id);
        let Some(d) = self.rim.further.get(&of.0) else { return refuse(&stream) };
        let handed = stream
            .set_nonblocking(true)
            .and_then(|()| hand_memory_over(&stream, d.pages().fd().as_fd()));
        match handed {
            Ok(()) => {
                self.links.served.taken.insert(of, stream);
                // If this manager is killed now, the keeper keeps the connection open.
                self.hold_further(of.0);
            }
            Err(e) => {
                refuse(&stream);
                let name = d.note().name.clone();
                tracing::warn!("window {name} could not be handed over: {e}");
            }
        }
    }

    /// What a manager that was killed left of such sockets.
    pub(super) fn remove_old_served(&self) {
        for path in self.tree.made_sockets() {
            let _ = fs::remove_file(path);
        }
    }

    /// Connections of QEMUs to a window, which the keeper keeps.
    pub(in crate::rim) fn taken_of(&self, window: WindowId) -> impl Iterator<Item = &UnixStream> {
        self.links.served.of(window)
    }
}

#[cfg(test)]
impl Daemon {
    /// Takes everybody in who has connected.
    pub(super) fn accept_all_made(&mut self) {
        let all: Vec<u32> = self.links.served.sockets.keys().copied().collect();
        all.into_iter().for_each(|id| self.accept_for_made(id));
    }
}
