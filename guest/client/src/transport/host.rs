//! The manager of this machine: one question over its socket brings the
//! window and its bells; then the socket only says that both sides live.

use super::{BellPlace, Bells, DoorbellWaiter, HUGETLBFS, Transport};
use crate::buffer::FileKind;
use crate::endpoint::TransportKind;
use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfun_window::{Access, Bell, BellWaiter, MapError, Mapping, fdpass};
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::limits::VECTORS;
use vfun_wire::nack::{Nack, NackCode};
use zerocopy::{FromZeros, IntoBytes};

/// The manager's root if `VFUN_ROOT` names none: the same as vfund's own default.
const ROOT: &str = "/var/lib/virtfun";
/// How long the manager may take to answer the question.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// The manager's socket: as asked, or in the root.
pub(crate) fn socket_path(asked: Option<&Path>) -> PathBuf {
    match asked {
        Some(path) => path.to_path_buf(),
        None => match std::env::var_os("VFUN_ROOT") {
            Some(root) if !root.is_empty() => PathBuf::from(root).join("host.sock"),
            _ => Path::new(ROOT).join("host.sock"),
        },
    }
}

struct Host {
    path: PathBuf,
    socket: UnixStream,
    window: OwnedFd,
    bytes: u64,
    /// Its memory is not of huge pages.
    plain_pages: bool,
    /// Bells that ring the host, by vector.
    out: Vec<Bell>,
    /// Bells that ring this side, by vector.
    inn: Vec<Bell>,
}

/// Asks the manager at `asked` (or the default socket) for a window.
pub(crate) fn attach(asked: Option<&Path>, question: &Attach) -> Result<Arc<dyn Transport>> {
    let path = socket_path(asked);
    let failed = |source| Error::HostSocket { path: path.clone(), source };
    let mut socket = UnixStream::connect(&path).map_err(failed)?;
    socket.set_read_timeout(Some(ATTACH_TIMEOUT)).map_err(failed)?;
    fdpass::send(&socket, question.as_bytes(), &[]).map_err(failed)?;
    let mut ack = AttachAck::new_zeroed();
    let (got, fds) = fdpass::receive(&socket, ack.as_mut_bytes()).map_err(failed)?;
    if got == 0 {
        return Err(failed(std::io::Error::other("it hung up without an answer")));
    }
    socket.read_exact(&mut ack.as_mut_bytes()[got..]).map_err(failed)?;
    socket.set_read_timeout(None).map_err(failed)?;
    check(&ack)?;
    let (vectors, bytes) = (usize::from(ack.vectors.get()), ack.window_bytes.get());
    if fds.len() != 1 + 2 * vectors {
        return Err(Error::HostNonsense(format!(
            "the manager's answer to attach came with {} descriptors where {} were due",
            fds.len(),
            1 + 2 * vectors
        )));
    }
    let mut fds = fds.into_iter();
    let window = fds.next().ok_or_else(|| Error::HostNonsense("no window came".into()))?;
    let out = fds.by_ref().take(vectors).map(Bell::from_fd).collect();
    let inn = fds.map(Bell::from_fd).collect();
    let plain_pages = rustix::fs::fstatfs(&window).is_ok_and(|s| s.f_type != HUGETLBFS);
    Ok(Arc::new(Host { path, socket, window, bytes, plain_pages, out, inn }))
}

/// Checks an answer that was read once.
fn check(ack: &AttachAck) -> Result<()> {
    if ack.magic.get() != ATTACH_MAGIC {
        return Err(Error::HostNonsense(
            "the answer to attach is not one: is this the manager's socket?".into(),
        ));
    }
    if ack.code.get() != 0 {
        let text =
            ack.sentence.get(..usize::from(ack.sentence_len.get())).unwrap_or(b"(unreadable)");
        let sentence = String::from_utf8_lossy(text).into_owned();
        let code = NackCode::from_wire(ack.code.get()).unwrap_or(NackCode::Unsupported);
        return Err(Error::Refused(Nack::new(code, sentence)));
    }
    match ack.vectors.get() {
        0 | VECTORS => Ok(()),
        n => Err(Error::HostNonsense(format!(
            "the window comes with {n} bells where 0 or {VECTORS} are due"
        ))),
    }
}

impl Transport for Host {
    fn kind(&self) -> TransportKind {
        TransportKind::Host
    }
    fn place(&self) -> String {
        self.path.display().to_string()
    }
    fn window_bytes(&self) -> u64 {
        self.bytes
    }
    fn map(
        &self,
        off: u64,
        len: usize,
        access: Access,
    ) -> std::result::Result<Arc<Mapping>, MapError> {
        Mapping::new(&self.window, off, len, access)
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, FileKind)> {
        self.plain_pages.then(|| (self.window.as_fd(), FileKind::Memory))
    }
    fn bells(&self) -> Result<Bells> {
        let works = !self.out.is_empty();
        Ok(Bells { ring: works, rung: works })
    }
    fn ring(&self, at: BellPlace) {
        if let Some(bell) = self.out.get(usize::from(at.out)) {
            bell.ring();
        }
    }
    fn waiter(&self, at: BellPlace) -> Option<std::io::Result<Box<dyn DoorbellWaiter>>> {
        let bell = self.inn.get(usize::from(at.inn))?;
        Some(BellWaiter::new(bell).map(|w| Box::new(w) as Box<dyn DoorbellWaiter>))
    }
    fn bell(&self, at: BellPlace) -> Option<std::io::Result<Bell>> {
        self.inn.get(usize::from(at.inn)).cloned().map(Ok)
    }
    fn host_gone(&self) -> Option<bool> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Some(match poll(&mut fds, Some(&now)) {
            Ok(0) | Err(_) => false,
            Ok(_) => {
                fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
            }
        })
    }
    fn device_gone(&self) -> bool {
        false
    }
}

impl DoorbellWaiter for BellWaiter {
    fn wait(&mut self, timeout: Duration) {
        // A wait that fails is a look too early: whoever waits looks again.
        if BellWaiter::wait(self, Some(timeout)).is_err() {
            std::thread::sleep(timeout.min(Duration::from_millis(1)));
        }
    }
}
