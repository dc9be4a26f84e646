//! What [`Mode::Buffer`](crate::Mode::Buffer) does with a buffer of the app.
//!
//! Arguments: byte 0 the mode, byte 1 an [`Op`], byte 2 a value; from 8 on three u64:
//! the buffer's handle, where to begin in it, and how many bytes.

use std::time::Duration;
use vfun_sdk::{Args, DriverError, Out};

/// What a call does with a buffer.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Answer the sum of the bytes, u64.
    Sum = 0,
    /// Set each byte to the value.
    Fill = 1,
    /// Set the first byte to 1, wait for so many times ten milliseconds as the value says,
    /// then set each byte to 1.
    SlowFill = 2,
}

/// The arguments of a call.
pub fn args(op: Op, value: u8, handle: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![crate::Mode::Buffer as u8, op as u8, value, 0, 0, 0, 0, 0];
    bytes.extend([handle, offset, len].map(u64::to_le_bytes).concat());
    bytes
}

pub(crate) fn enter(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let [_, op, value] = args.array_at(0)?;
    let buffer = out.buffer(args.u64_at(8)?)?;
    let (offset, len) = (args.u64_at(16)? as usize, args.u64_at(24)? as usize);
    match op {
        0 => {
            let mut sum = 0;
            buffer.for_each_chunk(offset, len, &mut [0; 4096], |piece| {
                sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                Ok(())
            })?;
            out.put_u64(sum)
        }
        1 | 2 => {
            let slow = op == 2;
            if slow {
                buffer.write_at(offset, &[1])?;
                std::thread::sleep(Duration::from_millis(10 * u64::from(value)));
            }
            let piece = [if slow { 1 } else { value }; 4096];
            let mut done = 0;
            while done < len {
                let n = piece.len().min(len - done);
                buffer.write_at(offset + done, &piece[..n])?;
                done += n;
            }
            Ok(())
        }
        other => Err(DriverError::bad_args(format!("no operation {other}"))),
    }
}
