//! Sends packets to a guest at an even pace, and knows which came back.

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take before its packet counts as late, unless it is said.
const LATE: Duration = Duration::from_secs(1);
/// How long it is waited for late answers. A busy machine delays packets by seconds, and that
/// is no loss.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy)]
struct Packet {
    sent: Instant,
    back: Option<Instant>,
}

/// A sender with its own thread, in the network namespace of the thread that made it.
pub struct Pinger {
    packets: Arc<Mutex<Vec<Packet>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    late: Duration,
}

/// What became of the packets of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets sent.
    pub sent: usize,
    /// Packets that did not come back.
    pub lost: usize,
    /// Packets that came back, but late. Zero where only one way is counted.
    pub late: usize,
    /// Longest time without an answer.
    pub gap: Duration,
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gap = self.gap.as_millis();
        write!(f, "{} of {} lost, longest silence {gap} ms", self.lost, self.sent)?;
        if self.late > 0 {
            write!(f, ", {} came late", self.late)?;
        }
        Ok(())
    }
}

/// Bytes of packets that the kernel keeps until they are read. Usually it keeps some 270 of
/// ours, and what a QEMU delayed comes all at once.
const KEPT_BYTES: usize = 4 << 20;

/// A socket whose kernel keeps many packets. That needs root.
pub fn socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).unwrap();
    set_socket_recv_buffer_size_force(&socket, KEPT_BYTES).unwrap();
    socket
}

fn lock(packets: &Mutex<Vec<Packet>>) -> MutexGuard<'_, Vec<Packet>> {
    packets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the answers that are there.
fn receive(socket: &UdpSocket, packets: &Mutex<Vec<Packet>>) {
    let mut bytes = [0; 64];
    loop {
        match socket.recv(&mut bytes) {
            Ok(8) => {
                let n = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
                if let Some(packet) = lock(packets).get_mut(n as usize) {
                    packet.back.get_or_insert_with(Instant::now);
                }
            }
            // Nobody may listen yet.
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

impl Pinger {
    /// Sends to a program that sends all back (`vfun-vm-app udp-echo`).
    pub fn start(from: SocketAddr, to: SocketAddr, every: Duration) -> Self {
        let socket = socket(from);
        socket.connect(to).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (packets, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (shared, ends) = (packets.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                receive(&socket, &shared);
                let now = Instant::now();
                if now < due {
                    std::thread::sleep((due - now).min(Duration::from_millis(1)));
                    continue;
                }
                // A thread that was kept off does not catch up by a burst.
                due = now + every;
                let n = {
                    let mut all = lock(&shared);
                    all.push(Packet { sent: now, back: None });
                    all.len() as u64 - 1
                };
                let _ = socket.send(&n.to_le_bytes());
            }
        });
        Pinger { packets, stop, thread: Some(thread), late: LATE }
    }

    /// The same, but an answer may take so long instead of a second.
    pub fn patient(mut self, late: Duration) -> Self {
        self.late = late;
        self
    }

    /// Does something, and counts the packets that were sent meanwhile.
    pub fn during<T>(&self, doing: impl FnOnce() -> T) -> (T, Count) {
        let begin = Instant::now();
        let done = doing();
        (done, self.count(begin, Instant::now()))
    }

    /// Counts the packets that were sent in this time; waits for the last answers.
    pub fn count(&self, begin: Instant, end: Instant) -> Count {
        std::thread::sleep(self.late.saturating_sub(end.elapsed()));
        let of_then = || -> Vec<Packet> {
            let packets = lock(&self.packets);
            packets.iter().filter(|p| p.sent >= begin && p.sent < end).copied().collect()
        };
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience && of_then().iter().any(|p| p.back.is_none()) {
            std::thread::sleep(Duration::from_millis(100));
        }
        let of_then = of_then();
        let mut answers: Vec<Instant> = of_then.iter().filter_map(|p| p.back).collect();
        answers.extend([begin, end]);
        answers.sort();
        let gap = answers.windows(2).map(|w| w[1] - w[0]).max().unwrap_or_default();
        let lost = of_then.iter().filter(|p| p.back.is_none()).count();
        let late = |p: &&Packet| p.back.is_some_and(|back| back - p.sent > self.late);
        Count { sent: of_then.len(), lost, late: of_then.iter().filter(late).count(), gap }
    }

    /// The numbers of the packets that were sent in this time.
    pub fn numbers(&self, begin: Instant, end: Instant) -> std::ops::Range<u64> {
        let packets = lock(&self.packets);
        let before = |at: Instant| packets.partition_point(|p| p.sent < at) as u64;
        before(begin)..before(end)
    }

    /// When the packets of this time were sent that did not come back. To be asked
    /// after [`count`](Self::count), which waits for the last answers.
    pub fn lost_at(&self, begin: Instant, end: Instant) -> Vec<Instant> {
        let packets = lock(&self.packets);
        let of_then = packets.iter().filter(|p| p.sent >= begin && p.sent < end);
        of_then.filter(|p| p.back.is_none()).map(|p| p.sent).collect()
    }

    /// Whether the last packet that must be back came back.
    pub fn answers(&self) -> bool {
        let packets = lock(&self.packets);
        let old = packets.iter().rev().find(|p| p.sent.elapsed() > self.late);
        old.is_some_and(|p| p.back.is_some())
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(20);

    /// Sends every second packet back, long after it came.
    fn sends_half_back_late() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 8];
            while let Ok((8, from)) = socket.recv_from(&mut bytes) {
                if bytes[0].is_multiple_of(2) {
                    std::thread::sleep(LATE * 3);
                    let _ = socket.send_to(&bytes, from);
                }
            }
        });
        at
    }

    #[test]
    fn what_comes_late_is_not_lost() {
        let every = Duration::from_millis(50);
        let at = "127.0.0.1:0".parse().unwrap();
        let pinger = Pinger::start(at, sends_half_back_late(), every).patient(LATE);
        let ((), count) = pinger.during(|| std::thread::sleep(every * 20));
        assert!(count.sent > 2, "{count}");
        assert_eq!(count.lost + count.late, count.sent, "{count}");
        assert!(count.lost.abs_diff(count.late) <= 1, "{count}");
    }
}
