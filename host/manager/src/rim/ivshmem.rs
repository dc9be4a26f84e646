//! The server of ivshmem-doorbell devices: one socket for each VM's client.
//!
//! QEMU connects, is given an id, a window and its bells, and says nothing
//! more; the end of its connection is the end of its VM. Each connection gets
//! a fresh, sealed window, so that nothing of one VM's life is seen in the next
//! one, and services that still let go of the old window hold nobody up.
//! Source of the protocol: docs/specs/ivshmem-spec.rst of QEMU.

use super::{Attached, Daemon, Kind};
use crate::core::catalog::{Client, ClientKind};
use crate::limits::{ACCEPTS_A_TURN, CONNECTS, RINGERS_LEFT_MAX};
use crate::window::{Bells, HostWindow};
use rustix::event::epoll::EventFlags;
use rustix::fs::FallocateFlags;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use vfun_rim::methods::*;
use vfun_window::{fdpass, memfd};
use vfun_wire::ivshmem::{FIRST_VM_PEER, HOST_PEER};

/// Version of QEMU's protocol.
const PROTOCOL: i64 = 0;
/// Says that the memory comes.
const MEMORY: i64 = -1;
/// No message of QEMU's protocol, at no point of it: QEMU gives up with an
/// error. A mere hang-up in the middle lets it read for ever, its whole VM
/// with it (seen with 7.2).
const REFUSED: i64 = -2;
/// The group whose members run VMs, where there is one: libvirt's QEMU is in it.
const GROUP: &str = "kvm";

/// Name of this transport in reports and manifests.
pub(super) const DOORBELL: &str = "ivshmem-doorbell";
/// The other one: a file and no bells.
pub(super) const PLAIN: &str = "ivshmem-plain";

/// Where a client's VM connects.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Daemon {
    /// Gives a VM's client what its transport needs before the VM starts.
    pub(super) fn prepare_vm(&mut self, client: &Client) -> Result<(), String> {
        debug_assert_eq!(client.kind, ClientKind::Vm);
        match client.doorbell {
            true => self.listen_for_vm(client),
            false => self.vm_window(client),
        }
    }

    /// Whether it has been given that.
    pub(super) fn prepared(&self, client: &Client) -> bool {
        match client.doorbell {
            true => self.vm_sockets.contains_key(&client.id),
            false => {
                self.rim.windows.values().any(|w| w.client == client.id && w.transport == PLAIN)
            }
        }
    }

    fn listen_for_vm(&mut self, client: &Client) -> Result<(), String> {
        let path = self.tree.vm_socket(&client.name);
        let at = |e: io::Error| format!("the VM's socket {}: {e}", path.display());
        let _ = std::fs::remove_file(&path); // an earlier manager's; this one holds the lock
        let listener = UnixListener::bind(&path).map_err(at)?;
        listener.set_nonblocking(true).map_err(at)?;
        // Whoever can connect is this VM, so not everybody can.
        let mode = match kvm_group() {
            Some(gid) if rustix::fs::chown(&path, None, Some(gid)).is_ok() => 0o660,
            _ => 0o600,
        };
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(at)?;
        self.watch(&listener, Kind::VmListener, client.id, EventFlags::IN).map_err(at)?;
        self.vm_sockets.insert(client.id, Socket { listener, path });
        Ok(())
    }

    /// Takes QEMU's connections.
    pub(super) fn accept_vm(&mut self, client: u32) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(socket) = self.vm_sockets.get(&client) else { return };
            let stream = match socket.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => return self.refuse_for_want_of_descriptors(&e),
            };
            let Some(c) = self.rim.core.catalog().clients.get(&client).cloned() else { return };
            let now = self.now();
            if !self.connects.take(now, client) {
                self.warn_of(client, format_args!(
                    "its VM connects again and again: it may do so {} times in a row and {} times a second",
                    CONNECTS.burst, CONNECTS.per_s
                ));
                refuse(&stream);
                continue;
            }
            let taken = self
                .rim
                .windows
                .iter()
                .find(|(_, w)| w.client == client && w.transport == DOORBELL);
            if let Some((id, old)) = taken {
                // A VM that ended a moment ago may not have been noticed yet.
                if old.peer.as_ref().is_some_and(alive) {
                    self.warn_of(client, format_args!(
                        "a second VM wants this client's window and is refused: each VM needs a client of its own"
                    ));
                    refuse(&stream);
                    continue;
                }
                let id = *id;
                self.window_gone(id);
            }
            let again = stream.try_clone();
            if self.ringers_hang(client) {
                self.warn_of(client, format_args!(
                    "a VM is refused: threads that rang its windows before hang, as only a QEMU can make them that tampers with its bells; end that QEMU"
                ));
                refuse(&stream);
                continue;
            }
            if let Err(e) = self.welcome_vm(&c, stream) {
                again.iter().for_each(refuse);
                self.warn_of(
                    client,
                    format_args!(
                        "a VM could not be given its window: {}",
                        crate::in_flight::words(&e)
                    ),
                );
            }
            // A window is memory to fill: one at a time.
            return;
        }
    }

    /// Whether so many ringers of a client's windows hang that it gets no further window.
    pub(super) fn ringers_hang(&mut self, client: u32) -> bool {
        self.ringers.retain(|(_, thread)| !thread.is_finished());
        self.ringers.iter().filter(|(c, _)| *c == client).count() >= RINGERS_LEFT_MAX
    }

    fn welcome_vm(&mut self, client: &Client, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let bytes = client.window_bytes;
        let fd = memfd(&format!("virtfun-{}", client.name), bytes)?;
        // All of it now: memory that runs out later would end whoever touches
        // the next page with SIGBUS.
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes).map_err(|e| {
            io::Error::other(format!("there is no memory for a window of {bytes} bytes: {e}"))
        })?;
        let (to_host, to_app) = Bells::new_pair()?;
        let control = to_host[0].clone();
        let bells = Bells::of_vm(to_host, to_app)?;
        let generation = self.next_window_generation();
        let mut window =
            HostWindow::lay_out(fd, bytes, generation, client.id, &client.name, Some(bells))
                .map_err(io::Error::other)?;
        // From its first call on an app can tell whether it moves.
        window.beat();
        window.set_state(self.serving_state());
        let peer = self.records.next_peer(&client.name, FIRST_VM_PEER);
        self.note_numbers();
        let id = self.fresh_id();
        self.watch(&stream, Kind::Peer, id, EventFlags::RDHUP)?;
        self.watch(&control, Kind::Bell, id, EventFlags::IN | EventFlags::ET)?;
        let attached = Attached {
            window,
            client: client.id,
            transport: DOORBELL,
            peer: Some(stream),
            heartbeats: true,
            proven: false,
            handing: true,
            intake: self.intake(client.id),
        };
        // Kept before the VM has it: it cannot ask for another one.
        self.window_given(id, attached, |daemon| match daemon.rim.windows.get(&id) {
            Some(Attached { peer: Some(stream), window, .. }) => hand_over(stream, peer, window),
            _ => Err(io::Error::other("its window is gone")),
        })?;
        if self.may_say(&self.client_words(client.id)) {
            tracing::info!(client = client.name, peer, "a VM is connected");
        }
        self.settle();
        Ok(())
    }
}

impl Socket {
    /// Takes one connection and sends it away.
    pub(super) fn turn_away(&self) {
        if let Ok((stream, _)) = self.listener.accept() {
            refuse(&stream);
        }
    }
}

/// Sends a VM away.
pub(super) fn refuse(stream: &UnixStream) {
    let _ = fdpass::send(stream, &REFUSED.to_le_bytes(), &[]);
}

/// What a newcomer is told, in QEMU's order.
fn hand_over(stream: &UnixStream, peer: u16, window: &HostWindow) -> io::Result<()> {
    let say = |value: i64, fd: Option<BorrowedFd<'_>>| {
        fdpass::send(stream, &value.to_le_bytes(), fd.as_slice())
    };
    let file = window.fd();
    let bells = window.bells().expect("a doorbell window has bells");
    say(PROTOCOL, None)?;
    say(peer.into(), None)?;
    say(MEMORY, Some(file.as_fd()))?;
    for bell in &bells.to_host {
        say(HOST_PEER.into(), Some(bell.as_fd()))?;
    }
    for bell in &bells.to_app {
        say(peer.into(), Some(bell.as_fd()))?;
    }
    Ok(())
}

/// Whether the other end of a connection is there.
fn alive(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

/// The group of those who run VMs.
fn kvm_group() -> Option<rustix::fs::Gid> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    let line = groups.lines().find(|l| l.split(':').next() == Some(GROUP))?;
    line.split(':').nth(2)?.parse().ok().map(rustix::fs::Gid::from_raw)
}
