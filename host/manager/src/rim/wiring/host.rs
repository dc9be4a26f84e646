//! Windows of programs on this machine: a memfd and its bells, handed over the
//! manager's socket. Who may have one is decided in [`attach`](super::super::attach).

use super::{Attached, Owner, Place, Wiring, split};
use crate::core::WindowId;
use crate::core::catalog::{Client, VmOf};
use crate::rim::Daemon;
use crate::window::{Bells, HostWindow};
use rustix::event::epoll::{self, EventFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vfun_admin::Transport;
use vfun_rim::keep::WindowNote;
use vfun_rim::methods::*;
use vfun_window::{Bell, fdpass, memfd};
use vfun_wire::attach::{ATTACH_MAGIC, AttachAck};
use vfun_wire::limits::VECTORS;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// The transport `host`.
pub(in crate::rim) struct Host;

impl Wiring for Host {
    fn prepare(&self, _: &mut Daemon, _: VmOf<'_>) -> Result<(), String> {
        Ok(())
    }

    fn prepared(&self, _: &Daemon, _: VmOf<'_>) -> bool {
        true
    }

    fn accept(&self, m: &mut Daemon, _: u32) {
        m.accept_programs();
    }

    fn take_up(
        &self,
        _: &mut Daemon,
        note: &WindowNote,
        memory: OwnedFd,
        kept: Vec<OwnedFd>,
    ) -> Result<(HostWindow, Option<UnixStream>), String> {
        let (peer, [to_host, to_app]) = split(kept)?;
        let bells = Bells::of_program(to_host, to_app);
        let window = HostWindow::take_up(memory, note.bytes, note.generation, Some(bells));
        Ok((window.map_err(|e| e.to_string())?, Some(peer)))
    }

    fn spoilt(&self, _: &mut Daemon, _: WindowId) {
        // A program has a window of its own, and the library copied the header.
    }

    fn lost(&self, m: &mut Daemon, id: WindowId, _: &'static str) {
        m.window_gone(id);
    }

    fn describe(&self, _: &Daemon, _: VmOf<'_>) -> Place {
        Place::default()
    }

    fn remove(&self, _: &mut Daemon, _: VmOf<'_>) {}
}

/// Makes a program's window and hands it over. `proven`: each app in it must show
/// who it is.
///
/// # Errors
/// Of the system: there is no window then, and the program has nothing of it.
pub(in crate::rim) fn hand_over(
    m: &mut Daemon,
    id: WindowId,
    stream: UnixStream,
    client: &Client,
    proven: bool,
) -> io::Result<()> {
    let bytes = client.window_bytes;
    let (to_host, to_app) = Bells::new_pair()?;
    let bells = Bells::of_program(to_host, to_app);
    let fd = memfd(&format!("virtfun-{}", client.name), bytes)?;
    let generation = m.next_window_generation();
    let window = HostWindow::lay_out(fd, bytes, generation, client.id, &client.name, Some(bells))
        .map_err(io::Error::other)?;
    let made = m.attached(window, Owner::program(client.id), Transport::Host, Some(stream));
    let attached = Attached { proven, ..made };
    give(&attached)?;
    m.hear(id, &attached.window, attached.peer.as_ref())?;
    m.window_up(id, attached);
    Ok(())
}

/// Sends a window with its bells to its program.
fn give(a: &Attached) -> io::Result<()> {
    let (Some(stream), Some(bells)) = (&a.peer, a.window.bells()) else {
        return Err(io::Error::other("a program's window has a connection and bells"));
    };
    let ack = AttachAck {
        magic: U64::new(ATTACH_MAGIC),
        code: U32::new(0),
        sentence_len: U16::new(0),
        vectors: U16::new(VECTORS),
        window_bytes: U64::new(a.window.bytes()),
        sentence: [0; _],
    };
    let file = a.window.fd();
    let heard = bells.to_app.iter().map(ear).collect::<io::Result<Vec<_>>>()?;
    let mut fds = vec![file.as_fd()];
    fds.extend(bells.to_host.iter().map(AsFd::as_fd));
    fds.extend(heard.iter().map(AsFd::as_fd));
    fdpass::send(stream, ack.as_bytes(), &fds)
}

/// What the app waits on instead of the bell itself: an epoll that holds the
/// bell. Whoever has an eventfd's descriptor can fill its counter and take
/// O_NONBLOCK from it, for everybody; the next ring would then hold up the
/// ringer, manager included, for ever.
fn ear(bell: &Bell) -> io::Result<OwnedFd> {
    let ear = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&ear, bell, epoll::EventData::new_u64(0), EventFlags::IN)?;
    Ok(ear)
}
