//! The server of ivshmem-doorbell devices: one socket for each VM.
//!
//! QEMU connects, is given an id, a window and its bells, and says nothing
//! more; the end of its connection is the end of its VM. Each connection gets
//! a fresh, sealed window, so that nothing of one VM's life is seen in the next
//! one, and services that still let go of the old window hold nobody up.
//! Source of the protocol: docs/specs/ivshmem-spec.rst of QEMU.

use super::{Attached, Place, Wiring, split};
use crate::core::WindowId;
use crate::core::catalog::{VmId, VmOf};
use crate::limits::{ACCEPTS_A_TURN, CONNECTS};
use crate::rim::{Daemon, Kind};
use crate::window::{Bells, HostWindow};
use rustix::event::epoll::EventFlags;
use rustix::fs::FallocateFlags;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use vfun_admin::Transport;
use vfun_rim::keep::WindowNote;
use vfun_rim::methods::*;
use vfun_window::{fdpass, memfd};
use vfun_wire::ivshmem::{FIRST_VM_PEER, HOST_PEER};

/// Which transport this is.
const TRANSPORT: Transport = Transport::IvshmemDoorbell;

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

/// The transport `ivshmem-doorbell`.
pub(in crate::rim) struct Doorbell;

/// Where a VM connects.
pub(in crate::rim) struct Socket {
    vm: VmId,
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Wiring for Doorbell {
    fn prepare(&self, m: &mut Daemon, vm: VmOf<'_>) -> Result<(), String> {
        m.listen_for_vm(vm)
    }

    fn prepared(&self, m: &Daemon, vm: VmOf<'_>) -> bool {
        let id = vm.id();
        m.vm_sockets.values().any(|s| s.vm == id)
    }

    fn accept(&self, m: &mut Daemon, socket: u32) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(socket) = m.vm_sockets.get(&socket) else { return };
            let id = socket.vm.clone();
            let stream = match socket.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => return m.refuse_for_want_of_descriptors(&e),
            };
            let Some(c) = m.rim.core.catalog().clients.get(&id.client).cloned() else { return };
            let Some(vm) = c.vm(&id.vm) else { return };
            match m.vm_may_connect(vm) {
                // A window is memory to fill: one at a time.
                Ok(()) => return m.let_vm_in(vm, stream),
                Err(why) => {
                    m.warn_of(c.id, format_args!("{why}"));
                    refuse(&stream);
                }
            }
        }
    }

    fn take_up(
        &self,
        _: &mut Daemon,
        note: &WindowNote,
        memory: OwnedFd,
        kept: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Option<UnixStream>), String> {
        let (peer, [to_host, to_app]) = split(kept)?;
        if note.handing {
            // A mere hang-up would let its QEMU wait for ever.
            refuse(&peer);
            return Err("its manager was killed while it told the VM of it".into());
        }
        let bells = Bells::of_vm(to_host, to_app).map_err(|e| e.to_string())?;
        let window = HostWindow::take_up(memory, note.bytes, note.generation, Some(bells));
        Ok((window.map_err(|e| e.to_string())?, Some(peer)))
    }

    fn spoilt(&self, m: &mut Daemon, id: WindowId) {
        // It was made for this VM alone.
        m.write_header_again(id);
    }

    fn lost(&self, m: &mut Daemon, id: WindowId, _: &'static str) {
        // The VM gets another one when it connects again.
        m.window_gone(id);
    }

    fn describe(&self, m: &Daemon, vm: VmOf<'_>) -> Place {
        let its = |w: &Attached| w.is_of(vm) && w.transport == TRANSPORT;
        Place {
            socket: Some(m.tree.vm_socket(&vm.name())),
            connected: m.rim.windows.values().any(its),
            ..Place::default()
        }
    }

    fn remove(&self, m: &mut Daemon, vm: VmOf<'_>) {
        let id = vm.id();
        m.vm_sockets.retain(|_, s| s.vm != id);
    }
}

impl Daemon {
    fn listen_for_vm(&mut self, vm: VmOf<'_>) -> Result<(), String> {
        let path = self.tree.vm_socket(&vm.name());
        let at = |e: io::Error| format!("the VM's socket {}: {e}", path.display());
        let listener = listen_for_qemu(&path).map_err(at)?;
        let id = self.fresh_id();
        self.watch(&listener, Kind::VmListener, id, EventFlags::IN).map_err(at)?;
        self.vm_sockets.insert(id, Socket { vm: vm.id(), listener, path });
        Ok(())
    }

    /// Whether a VM that connects may have a window now; or why not.
    fn vm_may_connect(&mut self, vm: VmOf<'_>) -> Result<(), String> {
        let (now, name) = (self.now(), vm.name());
        // Each VM by itself: one that crashes and comes again keeps no other one of its
        // client out. How many there are is the operator's choice.
        if !self.connects.take(now, vm.id()) {
            return Err(format!(
                "its VM {name} connects again and again: it may do so {} times in a row and {} times a second",
                CONNECTS.burst, CONNECTS.per_s
            ));
        }
        let mut windows = self.rim.windows.iter();
        let taken = windows.find(|(_, w)| w.is_of(vm) && w.transport == TRANSPORT);
        if let Some((id, old)) = taken {
            // A VM that ended a moment ago may not have been noticed yet.
            if old.peer.as_ref().is_some_and(alive) {
                let client = &vm.client.name;
                return Err(format!(
                    "another VM connects as VM {name}, which is connected, and is refused: give it a name of its own, `vfun client add {client} --vm NAME`"
                ));
            }
            let id = *id;
            self.window_gone(id);
        }
        if self.ringers_hang(&vm.id().into()) {
            return Err(format!(
                "VM {name} is refused: threads that rang its windows before hang, as only a QEMU can make them that tampers with its bells; end that QEMU"
            ));
        }
        Ok(())
    }

    fn let_vm_in(&mut self, vm: VmOf<'_>, stream: UnixStream) {
        let again = stream.try_clone();
        if let Err(e) = self.welcome_vm(vm, stream) {
            again.iter().for_each(refuse);
            let why = crate::in_flight::words(&e);
            let (client, name) = (vm.client.id, vm.name());
            self.warn_of(client, format_args!("VM {name} could not be given its window: {why}"));
        }
    }

    fn welcome_vm(&mut self, vm: VmOf<'_>, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        let (client, name) = (vm.client, vm.name());
        let bytes = vm.vm.window_bytes;
        let fd = memfd(&format!("virtfun-{}", name.file_name()), bytes)?;
        // All of it now: memory that runs out later would end whoever touches
        // the next page with SIGBUS.
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes).map_err(|e| {
            io::Error::other(format!("there is no memory for a window of {bytes} bytes: {e}"))
        })?;
        let (to_host, to_app) = Bells::new_pair()?;
        let bells = Bells::of_vm(to_host, to_app)?;
        let generation = self.next_window_generation();
        let mut window =
            HostWindow::lay_out(fd, bytes, generation, client.id, &client.name, Some(bells))
                .map_err(io::Error::other)?;
        // From its first call on an app can tell whether it moves.
        window.beat();
        let peer = self.records.next_peer(&name.file_name(), FIRST_VM_PEER);
        self.note_numbers();
        let id = self.fresh_id();
        self.hear(id, &window, Some(&stream))?;
        let attached = self.attached(window, vm.id().into(), TRANSPORT, Some(stream));
        // Kept before the VM has it: it cannot ask for another one.
        self.window_given(id, attached, |daemon| match daemon.rim.windows.get(&id) {
            Some(Attached { peer: Some(stream), window, .. }) => hand_over(stream, peer, window),
            _ => Err(io::Error::other("its window is gone")),
        })?;
        if self.may_say(&self.client_words(client.id)) {
            tracing::info!(client = client.name, vm = vm.vm.name, peer, "a VM is connected");
        }
        self.settle();
        Ok(())
    }
}

impl Socket {
    /// Takes one connection and sends it away.
    pub(in crate::rim) fn turn_away(&self) {
        if let Ok((stream, _)) = self.listener.accept() {
            refuse(&stream);
        }
    }
}

/// Sends a VM away.
pub(in crate::rim) fn refuse(stream: &UnixStream) {
    let _ = fdpass::send(stream, &REFUSED.to_le_bytes(), &[]);
}

/// A socket for the QEMU of a VM.
pub(in crate::rim) fn listen_for_qemu(path: &Path) -> io::Result<UnixListener> {
    let _ = std::fs::remove_file(path); // an earlier manager's; this one holds the lock
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    // Whoever can connect is this VM, so not everybody can.
    let mode = match kvm_group() {
        Some(gid) if rustix::fs::chown(path, None, Some(gid)).is_ok() => 0o660,
        _ => 0o600,
    };
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Hands memory over for a device that nobody rings.
pub(in crate::rim) fn hand_memory_over(
    stream: &UnixStream,
    memory: BorrowedFd<'_>,
) -> io::Result<()> {
    for (value, fd) in [(PROTOCOL, None), (FIRST_VM_PEER.into(), None), (MEMORY, Some(memory))] {
        fdpass::send(stream, &value.to_le_bytes(), fd.as_slice())?;
    }
    Ok(())
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
    uzers::get_group_by_name(GROUP).map(|g| rustix::fs::Gid::from_raw(g.gid()))
}
