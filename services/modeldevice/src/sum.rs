//! The checksum, and the step that software's work is made of.

use vfun_sdk::{Args, DriverError};

/// Odd, so that a step loses nothing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const BLOCK: usize = 4096;

/// One step. Each needs the one before, so that their time adds up.
#[inline]
pub(crate) fn step(h: u64, word: u64) -> u64 {
    (h ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

/// Of some arguments, as a call's results begin with it.
pub fn checksum(number: u64, units: u32, data: &[u8]) -> u64 {
    let h = step(step(0, number), u64::from(units));
    step(data.chunks(BLOCK).fold(h, block), data.len() as u64)
}

/// The data of a call, each byte read once.
pub(crate) fn of_call(number: u64, units: u32, args: &Args<'_>) -> Result<u64, DriverError> {
    let mut h = step(step(0, number), u64::from(units));
    let mut room = [0; BLOCK];
    args.for_each_chunk(super::arguments::DATA_AT, &mut room, |bytes| {
        h = block(h, bytes);
        Ok(())
    })?;
    Ok(step(h, (args.len() - super::arguments::DATA_AT) as u64))
}

/// Whole words, the last one filled with zeros: blocks are whole words but for the last.
fn block(h: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(h, |h, eight| {
        let mut word = [0; 8];
        word[..eight.len()].copy_from_slice(eight);
        step(h, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments;

    #[test]
    fn a_call_and_a_caller_come_to_the_same() {
        for len in [0, 1, 7, 8, 9, 4095, 4096, 4097, 100_000] {
            let data: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
            let bytes = arguments(5, 6, false, &data);
            let wanted = checksum(5, 6, &data);
            assert_eq!(of_call(5, 6, &Args::private(&bytes)).unwrap(), wanted, "{len} bytes");
        }
    }

    #[test]
    fn everything_counts() {
        let all = [
            checksum(1, 2, b"abc"),
            checksum(2, 2, b"abc"),
            checksum(1, 3, b"abc"),
            checksum(1, 2, b"abd"),
            checksum(1, 2, b"abc\0"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:?}");
        }
    }
}
