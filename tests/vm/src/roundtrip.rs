//! How long a packet takes to a guest and back: one at a time, the next when it is back.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The times of a measurement.
pub struct RoundTrips {
    took: Vec<Duration>,
    /// Packets that nobody answered.
    pub lost: usize,
}

impl RoundTrips {
    /// Sends packets for so long to a program that sends all back.
    pub fn measure(from: SocketAddr, to: SocketAddr, span: Duration) -> Self {
        let socket = UdpSocket::bind(from).unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (begin, mut trips) = (Instant::now(), RoundTrips { took: vec![], lost: 0 });
        let mut number = 0_u64;
        while begin.elapsed() < span {
            number += 1;
            match one(&socket, number) {
                Some(took) => trips.took.push(took),
                None => trips.lost += 1,
            }
        }
        trips.took.sort();
        trips
    }

    /// Half took at most so long; none if none came back.
    pub fn median(&self) -> Option<Duration> {
        self.took.get(self.took.len() / 2).copied()
    }

    /// Packets that came back.
    pub fn count(&self) -> usize {
        self.took.len()
    }
}

/// Answers to earlier packets are passed over.
fn one(socket: &UdpSocket, number: u64) -> Option<Duration> {
    let (sent, bytes) = (Instant::now(), number.to_le_bytes());
    socket.send(&bytes).ok()?;
    let mut room = [0; 64];
    while sent.elapsed() < PATIENCE {
        let n = socket.recv(&mut room).ok()?;
        if room[..n] == bytes {
            return Some(sent.elapsed());
        }
    }
    None
}
