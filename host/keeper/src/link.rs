//! The manager's side.

use crate::{
    BATCH_BYTES, Change, FromKeeper, NOTE_BYTES, PACKET_BYTES, ToKeeper, TooLong, Will, packets,
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use vfun_window::fdpass;

/// How long the keeper may take to make room for a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait; there is one manager.
const BACKLOG: i32 = 4;

/// Something that was kept.
#[derive(Debug)]
pub struct Kept {
    pub name: String,
    /// What was noted of it.
    pub note: String,
    /// Descriptors that were given with it, in their order.
    pub fds: Vec<OwnedFd>,
}

/// A connection to a keeper.
pub struct Keeper {
    socket: OwnedFd,
    /// If this process started it.
    child: Option<Child>,
}

impl Keeper {
    /// Connects to the keeper at `path` and takes a copy of all that it keeps.
    pub fn connect(path: &Path) -> io::Result<(Self, Vec<Kept>)> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        for direction in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, direction, Some(PATIENCE))?;
        }
        let mut kept = vec![];
        let mut room = vec![0; PACKET_BYTES];
        loop {
            let (n, fds) = fdpass::receive(&socket, &mut room)?;
            if n == 0 {
                return Err(io::Error::other("the keeper hung up"));
            }
            match serde_json::from_slice(&room[..n])? {
                FromKeeper::Kept { name, note } => kept.push(Kept { name, note, fds }),
                FromKeeper::All => return Ok((Keeper { socket, child: None }, kept)),
            }
        }
    }

    /// Starts a keeper that serves `path`, and connects to it. It has nothing yet.
    pub fn start(program: &Path, path: &Path) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let _ = std::fs::remove_file(path); // a dead keeper's
        let listener = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let child = Command::new(program)
            .arg(path)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            // Of its own: a terminal's Ctrl-C is not for it.
            .process_group(0)
            .spawn()?;
        let (mut keeper, _) = Self::connect(path)?;
        keeper.child = Some(child);
        Ok(keeper)
    }

    fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        fdpass::send(&self.socket, &serde_json::to_vec(message)?, fds)
    }

    /// Notes what changed, as [`packets`] cuts it.
    pub fn change(&self, changes: Vec<Change>) -> io::Result<Vec<TooLong>> {
        packets(changes, BATCH_BYTES, |packet| self.send(&ToKeeper::Change(packet), &[]))
    }

    /// Keeps descriptors under a name, in place of those that were there, with
    /// what is to be done if this manager goes without a word.
    pub fn hold(
        &self,
        name: &str,
        note: &str,
        will: Option<Will>,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        if note.len() > NOTE_BYTES {
            return Err(io::Error::other(format!(
                "the note of {name} has {} bytes, {NOTE_BYTES} at most",
                note.len()
            )));
        }
        self.send(&ToKeeper::Hold { name: name.into(), note: note.into(), will }, fds)
    }

    /// Lets go of everything and ends the keeper.
    pub fn end(mut self) {
        let _ = self.send(&ToKeeper::End, &[]);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

impl AsFd for Keeper {
    /// Hangs up when the keeper ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // One that ended by itself leaves nothing behind; one that lives goes on.
        if let Some(child) = &mut self.child {
            let _ = child.try_wait();
        }
    }
}
