//! Messages with file descriptors over a UNIX socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors of one message: a window and its bells, with room.
pub const FDS_MAX: usize = 32;

/// Sends `bytes` (not empty) and `fds` as one message.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    if fds.len() > FDS_MAX || bytes.is_empty() {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags)
    })?;
    if sent == bytes.len() { Ok(()) } else { Err(Error::from(ErrorKind::WriteZero)) }
}

/// Whether [`send`] failed as there is no room for descriptors now: of a user's only so
/// many may be sent and not received yet, or the kernel has no memory for the message.
/// It may help to try again.
pub fn no_room(e: &Error) -> bool {
    let full = [rustix::io::Errno::TOOMANYREFS, rustix::io::Errno::NOBUFS];
    e.raw_os_error().is_some_and(|n| full.iter().any(|f| f.raw_os_error() == n))
}

/// Receives one message into `bytes`: how many bytes came (0: the peer is
/// gone), and the descriptors, all close-on-exec.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    Ok((got.bytes, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_travel() {
        let (a, b) = UnixStream::pair().unwrap();
        let fd = crate::memfd("t", 4096).unwrap();
        send(&a, b"hi", &[fd.as_fd(), fd.as_fd()]).unwrap();
        let mut buf = [0; 16];
        let (n, fds) = receive(&b, &mut buf).unwrap();
        assert_eq!((&buf[..n], fds.len()), (&b"hi"[..], 2));
        drop(a);
        assert_eq!(receive(&b, &mut buf).unwrap().0, 0);
    }
}
