//! Asks an address how long a packet takes there and back, by ICMP echo: the policy `gain`
//! gives VFs to the VMs whose packets they make faster.

use crate::limits::{PROBE_EVERY, PROBE_PATIENCE, PROBES};
use crate::log::Causes;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{connect, ipproto, recv, send, socket_with};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a question: the header of ICMP, and eight that come back.
const QUESTION: usize = 16;

/// Types of ICMP: the question's and the answer's.
fn types(of: IpAddr) -> (u8, u8) {
    match of {
        IpAddr::V4(_) => (8, 0),
        IpAddr::V6(_) => (128, 129),
    }
}

/// The question with this number. The kernel fills in identifier and checksum.
fn question(of: IpAddr, number: u64) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    bytes[0] = types(of).0;
    bytes[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Whether these bytes answer it.
fn answers(of: IpAddr, number: u64, bytes: &[u8]) -> bool {
    bytes.len() == QUESTION && bytes[0] == types(of).1 && bytes[8..] == number.to_le_bytes()
}

#[derive(Default)]
struct Times {
    all: VecDeque<Duration>,
    /// Grows when times of before count no more.
    path: u64,
}

/// The times of the last questions.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<Times>>);

impl Probe {
    /// Asks this address until the process ends, in a thread of its own.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(of: IpAddr) -> std::io::Result<Self> {
        let probe = Probe::default();
        let times = probe.clone();
        std::thread::Builder::new().name("probe".into()).spawn(move || times.ask(of))?;
        Ok(probe)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets take another path from now on: what was measured counts no more.
    pub fn forget(&self) {
        let mut times = self.times();
        times.all.clear();
        times.path += 1;
    }

    /// The median of the last answers, µs; none before there are enough.
    pub fn median_us(&self) -> Option<u32> {
        let mut all: Vec<Duration> = self.times().all.iter().copied().collect();
        if all.len() < PROBES {
            return None;
        }
        all.sort_unstable();
        Some(u32::try_from(all[all.len() / 2].as_micros()).unwrap_or(u32::MAX))
    }

    /// A question of this path was answered.
    fn add(&self, path: u64, time: Duration) {
        let mut times = self.times();
        if times.path == path {
            times.all.push_back(time);
            let more = times.all.len().saturating_sub(PROBES);
            times.all.drain(..more);
        }
    }

    fn ask(&self, of: IpAddr) {
        let mut causes = Causes::default();
        let mut number = 0;
        loop {
            let begun = Instant::now();
            let (asked, path) = (open(of), self.times().path);
            let time = asked.and_then(|fd| ask(&fd, of, number));
            match &time {
                Ok(time) => self.add(path, *time),
                Err(e) => causes.once("probe", &format!("{of} cannot be asked for latency: {e}")),
            }
            number += 1;
            std::thread::sleep(PROBE_EVERY.saturating_sub(begun.elapsed()));
        }
    }
}

fn open(of: IpAddr) -> std::io::Result<OwnedFd> {
    let (family, protocol) = match of {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let fd = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(protocol)).map_err(
        |e| match e {
            rustix::io::Errno::ACCESS => std::io::Error::other(
                "net.ipv4.ping_group_range of this machine does not let this program ask",
            ),
            e => e.into(),
        },
    )?;
    connect(&fd, &SocketAddr::new(of, 0))?;
    set_socket_timeout(&fd, Timeout::Recv, Some(PROBE_PATIENCE))?;
    Ok(fd)
}

/// Asks once.
fn ask(fd: &OwnedFd, of: IpAddr, number: u64) -> std::io::Result<Duration> {
    let sent = Instant::now();
    send(fd, &question(of, number), SendFlags::empty())?;
    let mut bytes = [0; QUESTION + 1];
    while sent.elapsed() < PROBE_PATIENCE {
        let (n, _) = recv(fd, &mut bytes[..], RecvFlags::empty())?;
        if answers(of, number, &bytes[..n]) {
            return Ok(sent.elapsed());
        }
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_needs_enough_answers_by_one_path() {
        let probe = Probe::default();
        let us = Duration::from_micros;
        (1..PROBES as u64).for_each(|n| probe.add(0, us(n)));
        assert_eq!(probe.median_us(), None);
        probe.add(0, Duration::from_secs(3));
        assert_eq!(probe.median_us(), Some(PROBES as u32 / 2 + 1), "one that was late is nothing");
        (0..100).for_each(|_| probe.add(0, us(9)));
        assert_eq!(probe.median_us(), Some(9));
        probe.forget();
        (0..100).for_each(|_| probe.add(0, us(9)));
        assert_eq!(probe.median_us(), None, "those were asked by the path before");
    }

    #[test]
    fn only_its_own_answer_is_one() {
        for of in ["127.0.0.1", "::1"].map(|a| a.parse::<IpAddr>().unwrap()) {
            let mut answer = question(of, 7);
            assert!(!answers(of, 7, &answer), "its own question");
            answer[0] = types(of).1;
            assert!(answers(of, 7, &answer));
            assert!(!answers(of, 8, &answer) && !answers(of, 7, &answer[..15]));
        }
    }

    #[test]
    fn this_machine_answers() {
        let of = "127.0.0.1".parse().unwrap();
        match open(of).and_then(|fd| ask(&fd, of, 1)) {
            Ok(time) => assert!(time < PROBE_PATIENCE),
            // Where the kernel lets nobody ask, it says so.
            Err(e) => assert!(e.to_string().contains("ping_group_range"), "{e}"),
        }
    }
}
