//! Copies within one process: what moving data costs at least.

use super::Clock;
use super::samples::{rate, warm_up};
use crate::Result;
use crate::report::{Domain, Kind, LatencyRow};
use std::hint::black_box;
use std::time::Duration;

/// A row of copies of `bytes` from one private buffer to another.
pub fn copies(
    clock: &Clock,
    domain: Domain,
    bytes: u64,
    rounds: u32,
    time: Duration,
) -> Result<LatencyRow> {
    let from = vec![1u8; bytes as usize];
    let mut to = vec![0u8; bytes as usize];
    let mut copy = || {
        black_box(&mut to[..]).copy_from_slice(black_box(&from));
        black_box(&to);
        Ok(())
    };
    // As many copies between two readings as move a quarter of a mebibyte.
    let batch = ((256 << 10) / bytes.max(1)).clamp(1, 1 << 16) as u32;
    let (mut per_s, mut ns) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        warm_up(clock, 10, time / 4, &mut copy)?;
        let (copies, seconds) = rate(clock, time, batch, &mut copy)?;
        per_s.push((copies * bytes) as f64 / seconds);
        ns.push(seconds * 1e9 / copies as f64);
    }
    let row = LatencyRow::new(domain, "none", Kind::Memcpy);
    Ok(row.with_p50_ns(&ns).with_bytes_per_s(bytes, None, &per_s))
}
