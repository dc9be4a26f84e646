//! How windows get to their other end: one trait, a file for each transport.
//!
//! Which transports there are, and what is true of each, is the table in
//! `vfun_admin::transport`; what the manager does for each is here.
//!
//! - [`host`]: programs of this machine, over the manager's socket.
//! - [`ivshmem_doorbell`]: the server of ivshmem-doorbell devices.
//! - [`ivshmem_plain`]: files that QEMU maps. [`pmem`]: files that a VMM maps as
//!   persistent memory. [`dir`]: files in folders that are mounted.
//! - [`file`]: what all windows in files share. [`owner`]: which manager has one.

mod dir;
pub(super) mod file;
pub(super) mod host;
pub(super) mod ivshmem_doorbell;
mod ivshmem_plain;
pub(super) mod owner;
mod pmem;

use super::{Daemon, Kind};
use crate::core::WindowId;
use crate::core::catalog::{Vm, VmId, VmOf};
use crate::limits::RINGERS_LEFT_MAX;
use crate::window::HostWindow;
use rustix::event::epoll::EventFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use vfun_admin::Transport;
use vfun_rim::keep::WindowNote;
use vfun_rim::methods::*;
use vfun_window::Bell;
use vfun_wire::limits::VECTORS;

/// A window of this manager.
pub(super) type Attached = vfun_rim::Attached<Option<UnixStream>>;

/// What the other end of a VM's window is given, for people and tools.
#[derive(Default)]
pub(super) struct Place {
    /// The file that its VM maps.
    pub window_file: Option<PathBuf>,
    /// The socket that its VM connects to.
    pub socket: Option<PathBuf>,
    /// Whether a VM is connected there.
    pub connected: bool,
}

/// Whose a window is: a VM's, or a program's of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Number of the client, as on the wire.
    pub client: u32,
    pub vm: Option<String>,
}

impl Owner {
    /// A program of this client.
    pub fn program(client: u32) -> Self {
        Owner { client, vm: None }
    }
}

impl From<VmId> for Owner {
    fn from(id: VmId) -> Self {
        Owner { client: id.client, vm: Some(id.vm) }
    }
}

/// What the manager does for one transport.
pub(super) trait Wiring: Sync {
    /// Gives a VM what it needs before it starts.
    ///
    /// # Errors
    /// A sentence for people; the VM has no window then.
    fn prepare(&self, m: &mut Daemon, vm: VmOf<'_>) -> Result<(), String>;

    /// Whether it has been given that.
    fn prepared(&self, m: &Daemon, vm: VmOf<'_>) -> bool;

    /// Somebody connects: to a VM's own socket, or to that of all programs (number 0).
    fn accept(&self, m: &mut Daemon, socket: u32);

    /// What the keeper gets of a window, besides its memory, in the order in which
    /// [`Wiring::take_up`] finds it.
    fn keep<'a>(&self, a: &'a Attached) -> Vec<BorrowedFd<'a>> {
        let bells = a.window.bells().into_iter().flat_map(|b| b.to_host.iter().chain(&b.to_app));
        a.peer.as_ref().map(AsFd::as_fd).into_iter().chain(bells.map(AsFd::as_fd)).collect()
    }

    /// Takes a window up that an earlier manager had.
    ///
    /// # Errors
    /// A sentence for people; the window is gone then.
    fn take_up(
        &self,
        m: &mut Daemon,
        note: &WindowNote,
        memory: OwnedFd,
        kept: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Option<UnixStream>), String>;

    /// The guest overwrote the header. Writes it again, or takes the window down.
    fn spoilt(&self, m: &mut Daemon, id: WindowId);

    /// The window cannot go on as it is. Its grants have ended when this returns.
    fn lost(&self, m: &mut Daemon, id: WindowId, why: &'static str);

    /// What the other end of a VM's window is given.
    fn describe(&self, m: &Daemon, vm: VmOf<'_>) -> Place;

    /// The VM is removed: takes back what [`Wiring::prepare`] gave.
    fn remove(&self, m: &mut Daemon, vm: VmOf<'_>);
}

/// What the manager does for a transport.
pub(super) fn of(transport: Transport) -> &'static dyn Wiring {
    match transport {
        Transport::Host => &host::Host,
        Transport::IvshmemDoorbell => &ivshmem_doorbell::Doorbell,
        Transport::IvshmemPlain => &ivshmem_plain::Plain,
        Transport::Pmem => &pmem::Pmem,
        Transport::Dir => &dir::Dir,
    }
}

/// Splits what was kept of a window with a connection and bells.
fn split(kept: Vec<OwnedFd>) -> Result<(UnixStream, [Vec<Bell>; 2]), String> {
    let vectors = usize::from(VECTORS);
    let mut kept = kept.into_iter();
    let peer = kept.next().ok_or("no connection was kept of it")?;
    if kept.len() != 2 * vectors {
        return Err(format!("{} bells were kept of it, not {}", kept.len(), 2 * vectors));
    }
    let mut to_host: Vec<Bell> = kept.map(Bell::from_fd).collect();
    let to_app = to_host.split_off(vectors);
    Ok((peer.into(), [to_host, to_app]))
}

impl Daemon {
    /// Takes a window up whose descriptors were kept, in the order in which they were.
    pub(super) fn window_of(
        &mut self,
        id: WindowId,
        note: &WindowNote,
        mut kept: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Option<UnixStream>), String> {
        if kept.is_empty() {
            return Err("no memory was kept of it".into());
        }
        let memory = kept.remove(0);
        let client = self.rim.core.catalog().clients.get(&note.client);
        let undeclared = match (client, &note.vm) {
            (Some(client), Some(vm)) if client.vm(vm).is_none() => {
                Some(format!("client {} has no VM '{vm}' any more", client.name))
            }
            _ => None,
        };
        let (mut window, peer) = of(note.transport).take_up(self, note, memory, kept)?;
        if let Some(why) = undeclared {
            // Its programs learn it at once.
            window.set_state(vfun_wire::header::host_state::ENDED);
            self.remove_undeclared(note);
            return Err(why);
        }
        if let Some(client) = self.rim.core.catalog().clients.get(&note.client) {
            window.expect_header(note.client, &client.name);
        }
        self.hear(id, &window, peer.as_ref()).map_err(|e| e.to_string())?;
        Ok((window, peer))
    }

    /// Takes back what a VM was given that no manifest names any more, as if it was removed
    /// now: nobody else would find its file and its lock.
    fn remove_undeclared(&mut self, note: &WindowNote) {
        let client = self.rim.core.catalog().clients.get(&note.client).cloned();
        let (Some(client), Some(name)) = (client, note.vm.clone()) else { return };
        let vm = Vm { name, transport: note.transport, window_bytes: note.bytes };
        of(note.transport).remove(self, VmOf { client: &client, vm: &vm });
    }

    /// Hears a window's control bell and the end of its connection, if it has them.
    fn hear(&self, id: WindowId, window: &HostWindow, peer: Option<&UnixStream>) -> io::Result<()> {
        if let Some(peer) = peer {
            self.watch(peer, Kind::Peer, id, EventFlags::RDHUP)?;
        }
        if let Some(bells) = window.bells() {
            self.watch(&bells.to_host[0], Kind::Bell, id, EventFlags::IN | EventFlags::ET)?;
        }
        Ok(())
    }

    /// A window that was just laid out.
    pub(super) fn attached(
        &self,
        window: HostWindow,
        of: Owner,
        transport: Transport,
        peer: Option<UnixStream>,
    ) -> Attached {
        window.set_state(self.serving_state());
        let Owner { client, vm } = of;
        let intake = self.intake(client);
        Attached { window, client, vm, transport, peer, proven: false, handing: false, intake }
    }

    /// The windows of a VM.
    pub(super) fn windows_of(&self, vm: VmOf<'_>) -> Vec<WindowId> {
        self.rim.windows.iter().filter(|(_, a)| a.is_of(vm)).map(|(id, _)| *id).collect()
    }

    /// Whether so many ringers of a VM's windows, or of those of a client's programs, hang
    /// that it gets no further window.
    pub(super) fn ringers_hang(&mut self, of: &Owner) -> bool {
        self.ringers.retain(|(_, thread)| !thread.is_finished());
        self.ringers.iter().filter(|(o, _)| o == of).count() >= RINGERS_LEFT_MAX
    }
}
