//! Packets in one direction only, with numbers. What a VM sends teaches the switch where
//! it is; one that only hears depends on what the bond tells the switch by itself.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A packet's number, and when it came, from some moment on.
pub type Arrival = (u64, Duration);

/// Bytes of an arrival in a file: its number, and its time in ns.
const RECORD: usize = 16;

/// How many of these numbers did not come, and the longest time between two that did.
pub fn judge(arrivals: &[Arrival], numbers: Range<u64>) -> (usize, Duration) {
    let of_them = || arrivals.iter().filter(|(n, _)| numbers.contains(n));
    let came: HashSet<u64> = of_them().map(|(n, _)| *n).collect();
    let mut times: Vec<Duration> = of_them().map(|(_, at)| *at).collect();
    times.sort_unstable();
    let gap = times.windows(2).map(|w| w[1] - w[0]).max().unwrap_or_default();
    ((numbers.end - numbers.start) as usize - came.len(), gap)
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().map(u64::from_le_bytes).ok()
}

/// Hears numbers on a port and writes each into a file, with its time; never answers.
pub fn sink(port: u16, file: &Path) -> ! {
    // What comes while this program is not let run waits there.
    let socket = crate::pinger::socket(([0, 0, 0, 0], port).into());
    let (mut file, began) = (File::create(file).expect("a new file"), Instant::now());
    let mut bytes = [0; 64];
    loop {
        if let Ok(n) = socket.recv(&mut bytes)
            && let Some(n) = number(&bytes[..n])
        {
            let ns = began.elapsed().as_nanos() as u64;
            let _ = file.write_all(&[n, ns].map(u64::to_le_bytes).concat());
        }
    }
}

/// What [`sink`] wrote of these numbers: how many did not come, and the longest time between
/// two that did, in ms.
pub fn heard(file: &Path, numbers: Range<u64>) -> (usize, u128) {
    let bytes = std::fs::read(file).expect("what was heard");
    let word = |b: &[u8]| number(b).expect("eight bytes");
    let arrival = |b: &[u8]| (word(&b[..8]), Duration::from_nanos(word(&b[8..])));
    let arrivals: Vec<Arrival> = bytes.chunks_exact(RECORD).map(arrival).collect();
    let (lost, gap) = judge(&arrivals, numbers);
    (lost, gap.as_millis())
}

/// What became of numbers that were sent in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How many did not come.
    pub lost: usize,
    /// How many came that had come already.
    pub repeated: usize,
    /// How many came behind a later one.
    pub late: usize,
}

/// What [`sink`] wrote of these numbers.
pub fn order(file: &Path, sent: Range<u64>) -> Order {
    let bytes = std::fs::read(file).expect("what was heard");
    let came = bytes.chunks_exact(RECORD).map(|b| number(&b[..8]).expect("eight bytes"));
    let (mut seen, mut next, mut repeated, mut late) = (HashSet::new(), 0, 0, 0);
    for n in came.filter(|n| sent.contains(n)) {
        match seen.insert(n) {
            false => repeated += 1,
            true if n < next => late += 1,
            true => next = n,
        }
    }
    Order { lost: (sent.end - sent.start) as usize - seen.len(), repeated, late }
}

/// Times between numbers that [`sink`] wrote one after the other, of these numbers, in µs, in order of length.
pub fn gaps(file: &Path, of: Range<u64>) -> Vec<u64> {
    let bytes = std::fs::read(file).expect("what was heard");
    let word = |b: &[u8]| number(b).expect("eight bytes");
    let all = bytes.chunks_exact(RECORD).map(|b| (word(&b[..8]), word(&b[8..])));
    let at: Vec<u64> = all.filter(|(n, _)| of.contains(n)).map(|(_, ns)| ns / 1000).collect();
    let mut gaps: Vec<u64> = at.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    gaps.sort_unstable();
    gaps
}

/// The last number that [`sink`] wrote, if there is one.
pub fn last(file: &Path) -> Option<u64> {
    let bytes = std::fs::read(file).expect("what was heard");
    number(&bytes.chunks_exact(RECORD).next_back()?[..8])
}

/// Sends so many numbers at an even pace.
pub fn sends(to: SocketAddr, every: Duration, count: u64) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    for n in 0..count {
        let due = Instant::now() + every;
        let _ = socket.send_to(&n.to_le_bytes(), to);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Sends numbers at an even pace until the process ends.
pub fn source(to: SocketAddr, every: Duration) -> ! {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    for n in 0_u64.. {
        let due = Instant::now() + every;
        let _ = socket.send_to(&n.to_le_bytes(), to);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    unreachable!("there are numbers enough")
}

/// Sends them as long as there is a file; how many.
pub fn sends_while(to: SocketAddr, every: Duration, file: &Path) -> u64 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let mut n = 0_u64;
    while file.exists() {
        let due = Instant::now() + every;
        let _ = socket.send_to(&n.to_le_bytes(), to);
        n += 1;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    n
}

/// Hears what [`source`] sends from a guest, in the network namespace of the thread that made
/// it. Its own thread lives as long as the test's process.
pub struct Listener {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    began: Instant,
}

impl Listener {
    pub fn start(at: SocketAddr) -> Self {
        let socket = crate::pinger::socket(at);
        let listener = Listener { arrivals: Arc::default(), began: Instant::now() };
        let (arrivals, began) = (listener.arrivals.clone(), listener.began);
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(n) = socket.recv(&mut bytes) {
                if let Some(n) = number(&bytes[..n]) {
                    let mut all = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push((n, began.elapsed()));
                }
            }
        });
        listener
    }

    /// When the last packet came, if one did.
    pub fn last(&self) -> Option<Instant> {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.last().map(|(_, at)| self.began + *at)
    }

    /// The packets of a time, from the first one that came after its begin to the first one that
    /// came after its end: their numbers, how many of them did not come, and the longest
    /// silence. The caller has waited for late packets. If no packet comes any more, one counts
    /// as lost.
    pub fn count(&self, begin: Instant, end: Instant) -> (Range<u64>, usize, Duration) {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let next = |at: Instant| arrivals.iter().find(|(_, t)| *t >= at - self.began).map(|a| a.0);
        let numbers = match (next(begin), next(end)) {
            (Some(first), Some(last)) if first < last => first..last,
            _ => return (0..1, 1, end - begin),
        };
        let (lost, gap) = judge(&arrivals, numbers.clone());
        (numbers, lost, gap)
    }
}
