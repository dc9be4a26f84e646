//! The vFunction `sum_f64`: as `sum` for f64, without a tag before the array,
//! so that a signature says all there is to know of it.
//!
//! Arguments: the array, little-endian. Result: an f64; 0 for an empty array.
//! It is added up as `sum` does, so that both give the same.

use vfun_sdk::{Args, DriverError, Out};

#[path = "../../sum/src/lanes.rs"]
mod lanes;

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;
/// Read at a time into private memory; fits the first-level cache, and is a
/// multiple of [`lanes::LANES`] numbers.
const BLOCK_BYTES: usize = 16 << 10;

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    if !args.len().is_multiple_of(size_of::<f64>()) {
        return Err(DriverError::bad_args("the array ends inside a number"));
    }
    let (mut lanes, mut block) = ([0.0; lanes::LANES], [0; BLOCK_BYTES]);
    args.for_each_chunk(0, &mut block, |bytes| {
        lanes::add_floats(&mut lanes, bytes, f64::from_le_bytes);
        Ok(())
    })?;
    out.put(&lanes::total(&lanes).to_le_bytes())
}

vfun_sdk::export_function!(
    call,
    name = "sum_f64",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = 8,
);
