//! The vFunction `sum`: the sum of an array of numbers.
//!
//! Arguments: one byte that says what the numbers are (1: u8, 2: f32, 3: f64,
//! 4: u64), seven zero bytes, then the array, little-endian. Result, 8 bytes:
//! for whole numbers their sum modulo 2^64, a u64; for f32 and f64 an f64. An
//! empty array's sum is 0.
//!
//! Floats are summed as f64 in [`LANES`] sums side by side (number i goes to
//! sum i modulo [`LANES`]), which are then added up in order: the result is the
//! same on every machine, but not that of adding from left to right.

mod lanes;

pub use lanes::LANES;
use lanes::add_floats;
use vfun_sdk::{Args, DriverError, Out};

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;

/// Bytes before the array.
const HEAD_BYTES: usize = 8;
/// Read at a time into private memory; fits the first-level cache, and is a
/// multiple of [`LANES`] numbers of any kind.
const BLOCK_BYTES: usize = 16 << 10;

/// The numbers' kinds, by their byte.
const U8: u8 = 1;
const F32: u8 = 2;
const F64: u8 = 3;
const U64: u8 = 4;

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let head: [u8; HEAD_BYTES] = args.array_at(0)?;
    if head[1..] != [0; 7] {
        return Err(DriverError::bad_args("bytes 1 to 7 must be zero"));
    }
    let each = match head[0] {
        U8 => 1,
        F32 => 4,
        F64 | U64 => 8,
        kind => return Err(DriverError::bad_args(format!("{kind} is no kind of number: 1 to 4"))),
    };
    if !(args.len() - HEAD_BYTES).is_multiple_of(each) {
        return Err(DriverError::bad_args("the array ends inside a number"));
    }
    let mut block = [0; BLOCK_BYTES];
    match head[0] {
        U8 | U64 => {
            let add = if head[0] == U8 { sum_u8 } else { sum_u64 };
            let mut sum = 0u64;
            args.for_each_chunk(HEAD_BYTES, &mut block, |bytes| {
                sum = sum.wrapping_add(add(bytes));
                Ok(())
            })?;
            out.put_u64(sum)
        }
        kind => {
            let mut lanes = [0.0; LANES];
            args.for_each_chunk(HEAD_BYTES, &mut block, |bytes| {
                if kind == F32 {
                    add_floats(&mut lanes, bytes, |b: [u8; 4]| f32::from_le_bytes(b).into());
                } else {
                    add_floats(&mut lanes, bytes, f64::from_le_bytes);
                }
                Ok(())
            })?;
            out.put(&lanes::total(&lanes).to_le_bytes())
        }
    }
}

fn sum_u8(bytes: &[u8]) -> u64 {
    // In 32 bits: a block's sum fits, and twice as many fit a register.
    bytes.iter().map(|&b| u32::from(b)).sum::<u32>().into()
}

fn sum_u64(bytes: &[u8]) -> u64 {
    bytes.as_chunks().0.iter().fold(0, |sum, b| sum.wrapping_add(u64::from_le_bytes(*b)))
}

vfun_sdk::export_function!(
    call,
    name = "sum",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = 8,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(kind: u8, array: &[u8]) -> Result<[u8; 8], DriverError> {
        let args = [&[kind, 0, 0, 0, 0, 0, 0, 0], array].concat();
        let mut room = [0; 8];
        call(&Args::private(&args), &mut Out::private(&mut room)).map(|()| room)
    }

    #[test]
    fn whole_numbers() {
        for n in [0usize, 1, 7, 16_384, 16_385, 100_003] {
            let bytes: Vec<u8> = (0..n).map(|i| (i * 7) as u8).collect();
            let want: u64 = bytes.iter().map(|&b| u64::from(b)).sum();
            assert_eq!(sum(U8, &bytes).unwrap(), want.to_le_bytes(), "{n} bytes");
            let words: Vec<u64> = (0..n as u64).map(|i| i << 40 | i).collect();
            let want = words.iter().fold(0u64, |s, w| s.wrapping_add(*w));
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(sum(U64, &bytes).unwrap(), want.to_le_bytes(), "{n} words");
        }
        let most = [u64::MAX.to_le_bytes(), 2u64.to_le_bytes()].concat();
        assert_eq!(sum(U64, &most).unwrap(), 1u64.to_le_bytes(), "wraps");
        assert_eq!(sum(U8, &[255; 1 << 20]).unwrap(), (255u64 << 20).to_le_bytes());
    }

    #[test]
    fn floats() {
        for n in [0usize, 1, 15, 16, 17, 5000, 70_001] {
            // Halves and small whole numbers: exact in any order.
            let numbers: Vec<f32> = (0..n).map(|i| (i % 100) as f32 * 0.5).collect();
            let want = numbers.iter().fold(0.0, |sum, &x| sum + f64::from(x));
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            assert_eq!(sum(F32, &bytes).unwrap(), want.to_le_bytes(), "{n} f32");
            let bytes: Vec<u8> = numbers.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
            assert_eq!(sum(F64, &bytes).unwrap(), want.to_le_bytes(), "{n} f64");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (args, words) in [
            (&[][..], "8 at 0"),
            (&[1, 0, 0, 0, 0, 0, 0], "8 at 0"),
            (&[1, 1, 0, 0, 0, 0, 0, 0], "must be zero"),
            (&[9, 0, 0, 0, 0, 0, 0, 0], "no kind"),
            (&[3, 0, 0, 0, 0, 0, 0, 0, 1], "inside a number"),
        ] {
            let mut room = [0; 8];
            let e = call(&Args::private(args), &mut Out::private(&mut room)).unwrap_err();
            assert_eq!(e.code, vfun_sdk::abi::BAD_ARGS);
            assert!(e.sentence.contains(words), "{e}");
        }
    }
}
