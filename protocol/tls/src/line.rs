//! A connection, plain or encrypted.

use crate::files::{Client, Server};
use crate::limits::{RECV_WAIT, SEAL_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::Connection;
use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A connection, plain or encrypted. One thread reads at a time and one writes
/// (the caller sees to that); these two need not be the same.
#[derive(Debug)]
pub struct Line {
    tcp: TcpStream,
    /// Locked for as long as it computes, never while the socket waits.
    tls: Option<Mutex<Connection>>,
}

/// The socket, without waiting.
struct Raw<'a>(&'a TcpStream);

impl Read for Raw<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, room, RecvFlags::DONTWAIT)?.0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until the socket is ready for `flags`; false if it is not in time.
fn ready(tcp: &TcpStream, flags: PollFlags, wait: Duration) -> io::Result<bool> {
    let ts = Timespec {
        tv_sec: wait.as_secs().min(1 << 30) as i64,
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(tcp, flags)], Some(&ts)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn wrong(e: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, e)
}

/// Shakes hands, until then.
fn handshake(tcp: &TcpStream, tls: &mut Connection, until: Instant) -> io::Result<()> {
    let late = || io::Error::new(ErrorKind::TimedOut, "the TLS handshake took too long");
    loop {
        let flags = match (tls.wants_write(), tls.is_handshaking()) {
            (true, _) => PollFlags::OUT,
            (false, true) => PollFlags::IN,
            (false, false) => return Ok(()),
        };
        let done = match flags {
            PollFlags::OUT => tls.write_tls(&mut Raw(tcp)).map(drop),
            _ => match tls.read_tls(&mut Raw(tcp)) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => tls.process_new_packets().map(drop).map_err(|e| {
                    // The other side is told why, as far as it listens.
                    let _ = tls.write_tls(&mut Raw(tcp));
                    wrong(e)
                }),
                Err(e) => Err(e),
            },
        };
        match done {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || (!ready(tcp, flags, left)? && Instant::now() >= until) {
                    return Err(late());
                }
            }
            Err(e) => return Err(e),
        }
        // Whoever sends a byte now and then gets no more time than others.
        if Instant::now() >= until {
            return Err(late());
        }
    }
}

impl Line {
    /// One that is not encrypted.
    pub fn plain(tcp: TcpStream) -> Self {
        Line { tcp, tls: None }
    }

    /// The gateway's end of an encrypted one; the handshake must be done then.
    ///
    /// # Errors
    /// Of the socket, `TimedOut`, or `InvalidData` with a [`rustls::Error`],
    /// which [`crate::of_caller`] puts into words.
    pub fn accept(tcp: TcpStream, server: &Server, until: Instant) -> io::Result<Self> {
        let tls = rustls::ServerConnection::new(server.config()).map_err(wrong)?;
        Self::shake(tcp, tls.into(), until)
    }

    /// The caller's end; errors as for [`Line::accept`], for [`crate::of_gateway`].
    pub fn connect(tcp: TcpStream, client: &Client, until: Instant) -> io::Result<Self> {
        let tls = rustls::ClientConnection::new(client.config(), client.name()).map_err(wrong)?;
        Self::shake(tcp, tls.into(), until)
    }

    fn shake(tcp: TcpStream, mut tls: Connection, until: Instant) -> io::Result<Self> {
        // What is encrypted is taken out at once; nothing piles up inside.
        tls.set_buffer_limit(None);
        handshake(&tcp, &mut tls, until)?;
        Ok(Line { tcp, tls: Some(Mutex::new(tls)) })
    }

    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether it is encrypted.
    pub fn encrypted(&self) -> bool {
        self.tls.is_some()
    }

    fn lock(tls: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
        tls.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Bytes that have come, 0 at the end. With `wait`, waits for some: for as
    /// long as the socket's timeout says, an encrypted line at most
    /// [`RECV_WAIT`]; then, or without `wait`, `WouldBlock`.
    pub fn recv(&self, room: &mut [u8], wait: bool) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
            return Ok(recv(&self.tcp, room, flags)?.0);
        };
        match Self::decrypted(tls, &self.tcp, room) {
            Err(e) if wait && e.kind() == ErrorKind::WouldBlock => {
                ready(&self.tcp, PollFlags::IN, RECV_WAIT)?;
                Self::decrypted(tls, &self.tcp, room)
            }
            done => done,
        }
    }

    fn decrypted(tls: &Mutex<Connection>, tcp: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
        let mut tls = Self::lock(tls);
        loop {
            match tls.reader().read(room) {
                // Frames say themselves how long they are, so that a connection
                // that was cut is known by what is missing.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if tls.read_tls(&mut Raw(tcp))? == 0 {
                return Ok(0);
            }
            if let Err(e) = tls.process_new_packets() {
                let _ = tls.write_tls(&mut Raw(tcp));
                return Err(wrong(e));
            }
        }
    }

    /// Whether bytes are here that the socket does not show any more.
    pub fn holds_some(&self) -> bool {
        let Some(tls) = &self.tls else { return false };
        let mut tls = Self::lock(tls);
        // Only looks: no packet is new since they were last processed.
        tls.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Bytes as they are to go through the socket, in pieces, in order: whoever
    /// seals must also send before another does.
    pub fn sealed<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = io::Result<Cow<'a, [u8]>>> + 'a {
        let piece = if self.encrypted() { SEAL_BYTES } else { bytes.len().max(1) };
        bytes.chunks(piece).map(|piece| {
            let Some(tls) = &self.tls else { return Ok(Cow::Borrowed(piece)) };
            let mut tls = Self::lock(tls);
            tls.writer().write_all(piece)?;
            let mut out = Vec::with_capacity(piece.len() + 1024);
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
            Ok(Cow::Owned(out))
        })
    }
}
