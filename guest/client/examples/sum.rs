//! Sums an array of doubles on the host without copying it:
//! `cargo run --release -p vfun --example sum -- [COUNT [ENDPOINT]]`
//!
//! The same task as sum.c beside it. A borrowed cell is memory that the host's
//! service reads: the array is made in it, so that there is nothing to copy.
//! 8 Mi doubles are 64 MiB, and a channel has as much again for results, so that
//! the client's window must be larger than 128 MiB (`vfun client add NAME
//! --window 256MiB`); a smaller COUNT fits a smaller one.

use std::time::Instant;
use vfun::{ConnectOptions, FunctionRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().map_or(Ok(8 << 20), |n| n.parse())?;
    let endpoint = args.next().unwrap_or_else(|| "auto".into()).parse()?;

    let session = ConnectOptions::new("sum-rs").endpoint(endpoint).connect()?;
    eprintln!("{}", session.describe());

    // One call at a time, with a data space for the kind of number (8 bytes)
    // and the array.
    let bytes = 8 + 8 * count;
    let wanted = FunctionRequest::new("sum").depth(1).cell_bytes(u32::try_from(bytes)?);
    let sum = session.negotiate(&wanted)?.activate()?;

    // Its bytes are written where the service reads them.
    let mut slot = sum.borrow()?;
    let (kind, array) = slot[..bytes].split_at_mut(8);
    kind.copy_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0]); // doubles
    for (i, number) in array.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *number = ((i % 1000) as f64).to_le_bytes();
    }

    // The slot is gone with this, so that nobody can touch the array any more.
    let start = Instant::now();
    let pending = slot.submit(bytes)?;
    // There would be time for other work here.
    let mut result = [0; 8];
    let len = pending.wait_into(&mut result)?;
    if len != result.len() {
        return Err(format!("the result has {len} bytes where 8 were due").into());
    }
    let took = start.elapsed();
    println!("{:.0}", f64::from_le_bytes(result));
    let rate = (8 * count) as f64 / took.as_secs_f64() / 1e9;
    eprintln!("{count} numbers in {:.2} ms, {rate:.1} GB/s", took.as_secs_f64() * 1e3);

    sum.release()?;
    session.close()?;
    Ok(())
}
