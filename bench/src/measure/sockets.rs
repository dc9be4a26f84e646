//! Round trips of 8 bytes over sockets: what a call would stand on without shared memory.

use super::Clock;
use super::samples::{chain, percentiles, warm_up};
use crate::Result;
use crate::error::Doing;
use crate::lab::pin;
use crate::report::stats::Percentiles;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_window::pause;

const BYTES: usize = 8;
const WARM: u32 = 500;
const WARM_FOR: Duration = Duration::from_millis(50);

/// A stream socket with 8 bytes to and fro, waiting asleep (blocking) or spinning (busy).
pub enum Socket {
    /// A UNIX socket: both ends are on one machine.
    Unix(UnixStream),
    /// Over a network, be it the loopback.
    Tcp(TcpStream),
}

impl Socket {
    /// A TCP connection without delay.
    pub fn tcp(address: &str) -> Result<Self> {
        let stream =
            TcpStream::connect(address).doing(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true).doing(|| "cannot set TCP_NODELAY".into())?;
        Ok(Socket::Tcp(stream))
    }

    /// Two ends on this machine: a UNIX pair, or TCP over the loopback.
    pub fn pair(tcp: bool) -> Result<(Self, Self)> {
        let doing = || "cannot make a pair of sockets".to_owned();
        if !tcp {
            let (a, b) = UnixStream::pair().doing(doing)?;
            return Ok((Socket::Unix(a), Socket::Unix(b)));
        }
        let listener = TcpListener::bind("127.0.0.1:0").doing(doing)?;
        let ours = Self::tcp(&listener.local_addr().doing(doing)?.to_string())?;
        let (theirs, _) = listener.accept().doing(doing)?;
        theirs.set_nodelay(true).doing(doing)?;
        Ok((ours, Socket::Tcp(theirs)))
    }

    fn spin(&self, busy: bool) -> Result<()> {
        match self {
            Socket::Unix(s) => s.set_nonblocking(busy),
            Socket::Tcp(s) => s.set_nonblocking(busy),
        }
        .doing(|| "cannot set a socket's mode".into())
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(s) => s.read(to),
            Socket::Tcp(s) => s.read(to),
        }
    }

    /// All 8 bytes, or false at the end of the stream.
    fn receive(&mut self, bytes: &mut [u8; BYTES]) -> io::Result<bool> {
        let mut got = 0;
        while got < BYTES {
            match self.read(&mut bytes[got..]) {
                Ok(0) => return Ok(false),
                Ok(n) => got += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => pause(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn send(&mut self, bytes: &[u8; BYTES]) -> io::Result<()> {
        // The buffer holds far more than 8 bytes, so a write never blocks.
        match self {
            Socket::Unix(s) => s.write_all(bytes),
            Socket::Tcp(s) => s.write_all(bytes),
        }
    }

    fn echo(mut self) {
        let mut bytes = [0; BYTES];
        while matches!(self.receive(&mut bytes), Ok(true)) && self.send(&bytes).is_ok() {}
    }

    fn trip(&mut self) -> io::Result<()> {
        let mut bytes = [7; BYTES];
        self.send(&bytes)?;
        match self.receive(&mut bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ErrorKind::UnexpectedEof.into()),
            Err(e) => Err(e),
        }
    }

    /// Percentiles of round trips to whoever echoes at the other end.
    pub fn trips(
        mut self,
        clock: &Clock,
        busy: bool,
        rounds: u32,
        samples: u32,
        limit: Duration,
    ) -> Result<Vec<Percentiles>> {
        self.spin(busy)?;
        let mut trip = || self.trip().doing(|| "a socket's round trip failed".into());
        warm_up(clock, WARM, WARM_FOR, &mut trip)?;
        (0..rounds)
            .map(|_| Ok(percentiles(clock, chain(clock, samples, limit, &mut trip)?)))
            .collect()
    }
}

/// Percentiles of round trips between this thread and another on processor `cpu`.
pub fn socket_trips(
    clock: &Clock,
    (tcp, busy): (bool, bool),
    cpu: Option<usize>,
    rounds: u32,
    samples: u32,
    limit: Duration,
) -> Result<Vec<Percentiles>> {
    let (ours, theirs) = Socket::pair(tcp)?;
    theirs.spin(busy)?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin::to(cpu);
            theirs.echo();
        });
        // Dropped at its end, which ends the other thread.
        ours.trips(clock, busy, rounds, samples, limit)
    })
}

/// Echoes whatever 8 bytes come over TCP, until dropped.
pub struct EchoServer {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Listens on the loopback.
    pub fn start(cpu: Option<usize>) -> Result<Self> {
        let doing = || "cannot listen on the loopback".to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").doing(doing)?;
        let address = listener.local_addr().doing(doing)?;
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = std::thread::spawn(move || {
            pin::to(cpu);
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::Acquire) {
                    return;
                }
                if stream.set_nodelay(true).is_ok() {
                    Socket::Tcp(stream).echo();
                }
            }
        });
        Ok(EchoServer { address, ended, thread: Some(thread) })
    }

    /// The TCP port on which it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the listener; connections end when their callers do.
        if TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_goes_round() {
        let clock = Clock::calibrate();
        let limit = Duration::from_millis(20);
        for way in [(false, false), (false, true), (true, false), (true, true)] {
            let got = socket_trips(&clock, way, None, 2, 50, limit).unwrap();
            assert!(got.len() == 2 && got.iter().all(|p| 0 < p.p50 && p.p50 <= p.p999), "{got:?}");
        }
        let server = EchoServer::start(None).unwrap();
        let socket = Socket::tcp(&format!("127.0.0.1:{}", server.port())).unwrap();
        assert_eq!(socket.trips(&clock, false, 1, 20, limit).unwrap().len(), 1);
    }
}
