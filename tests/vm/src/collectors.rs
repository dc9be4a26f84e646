//! Collectors of what a switch tells about the frames that it sees: sFlow, NetFlow and IPFIX.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many frames somebody was told of, in the network namespace of the thread that made it. Its own
/// thread lives as long as the test's process.
pub struct Collector(Arc<AtomicU64>);

/// What a datagram makes of the count so far.
type Counts = fn(&[u8], u64) -> Option<u64>;

impl Collector {
    /// Version 5: each sampled frame is a sample.
    pub fn sflow(port: u16) -> Self {
        Collector::start(port, |bytes, so_far| Some(so_far + sflow_samples(bytes)?))
    }

    /// Version 5: each record says how many frames of a flow there were.
    pub fn netflow(port: u16) -> Self {
        Collector::start(port, |bytes, so_far| Some(so_far + netflow_frames(bytes)?))
    }

    /// Each sampled frame is a record, if the switch keeps none back.
    pub fn ipfix(port: u16) -> Self {
        Collector::start(port, |bytes, so_far| Some(so_far.max(ipfix_records(bytes)?)))
    }

    fn start(port: u16, counts: Counts) -> Self {
        let socket = crate::pinger::socket(([127, 0, 0, 1], port).into());
        let count = Arc::new(AtomicU64::new(0));
        let to = count.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok(n) = socket.recv(&mut bytes) {
                let so_far = to.load(Ordering::Relaxed);
                let now = counts(&bytes[..n], so_far);
                let now = now.unwrap_or_else(|| panic!("no such datagram: {:?}", &bytes[..n]));
                to.store(now, Ordering::Relaxed);
            }
        });
        Collector(count)
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(word.try_into().ok()?).into())
}

/// Samples of frames in a datagram: those of counters are others.
pub fn sflow_samples(bytes: &[u8]) -> Option<u64> {
    const FRAME: u64 = 1;
    // The agent has an address of IPv4.
    let is_right = (number(bytes, 0)?, number(bytes, 4)?) == (5, 1);
    let all = is_right.then(|| number(bytes, 24))??;
    let (mut at, mut frames) = (28, 0);
    for _ in 0..all {
        frames += u64::from(number(bytes, at)? == FRAME);
        at += 8 + number(bytes, at + 4)? as usize;
    }
    Some(frames)
}

/// Frames of all flows in a datagram.
pub fn netflow_frames(bytes: &[u8]) -> Option<u64> {
    let [_, 5, _, records] = *bytes.get(..4)? else { return None };
    (0..usize::from(records)).map(|n| number(bytes, 24 + 48 * n + 16)).sum()
}

/// Records up to this message: it says how many there were before, and holds one if it holds any.
pub fn ipfix_records(bytes: &[u8]) -> Option<u64> {
    const FIRST_OF_DATA: u8 = 1;
    let (&[0, 10], before) = (bytes.get(..2)?, number(bytes, 8)?) else { return None };
    Some(before + u64::from(bytes.get(16)? >= &FIRST_OF_DATA))
}
