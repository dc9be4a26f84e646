//! The vFunction `zstd`: one Zstandard frame (RFC 8878) of the data.
//!
//! Arguments: the level, u32, 1 to 19 (0: the library's own choice, 3), then the
//! data. Result: the frame, which says how long the data is and ends with a
//! checksum; `zstd -d` and every Zstandard library read it. It needs at most
//! the data's length, 1/256 of it and 64 bytes of room; with less the call
//! fails and says so.
//!
//! The data is copied through a private block, so that each byte is read once.

use std::io::{self, Write};
use vfun_sdk::{Args, DriverError, Out};
use zstd::stream::write::Encoder;

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;
/// Levels beyond take up to 1 GiB of memory each, more than a service has.
pub const MOST_LEVEL: u32 = 19;
const LEVEL_BYTES: usize = 4;
const BLOCK_BYTES: usize = 64 << 10;

/// Writes one piece after the other into the results.
struct Results<'a, 'b> {
    out: &'a mut Out<'b>,
    at: usize,
}

impl Write for Results<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_at(self.at, bytes).map_err(io::Error::other)?;
        self.at += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(e: io::Error) -> DriverError {
    match e.downcast::<DriverError>() {
        Ok(of_the_results) => of_the_results,
        Err(e) => DriverError::bad_args(format!("zstd: {e}")),
    }
}

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let level = args.u32_at(0)?;
    if level > MOST_LEVEL {
        return Err(DriverError::bad_args(format!("level {level}: at most {MOST_LEVEL}")));
    }
    let mut encoder = Encoder::new(Results { out, at: 0 }, level.cast_signed()).map_err(failed)?;
    let bytes = (args.len() - LEVEL_BYTES) as u64;
    encoder
        .include_checksum(true)
        .and_then(|()| encoder.set_pledged_src_size(Some(bytes)))
        .map_err(failed)?;
    let mut block = [0; BLOCK_BYTES];
    args.for_each_chunk(LEVEL_BYTES, &mut block, |bytes| encoder.write_all(bytes).map_err(failed))?;
    let Results { out, at } = encoder.finish().map_err(failed)?;
    out.set_len(at)
}

vfun_sdk::export_function!(
    call,
    name = "zstd",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = MOST_BYTES,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(level: u32, data: &[u8], room: usize) -> Result<Vec<u8>, DriverError> {
        let mut room = vec![0; room];
        let mut out = Out::private(&mut room);
        call(&Args::private(&[&level.to_le_bytes(), data].concat()), &mut out)?;
        let len = out.len();
        room.truncate(len);
        Ok(room)
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let text = b"of windows and of functions ".repeat(10_000);
        let noise: Vec<u8> =
            (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for data in [&b""[..], b"a", &text, &noise] {
            for level in [0, 1, 3, MOST_LEVEL] {
                let frame = compressed(level, data, data.len() + data.len() / 256 + 64).unwrap();
                assert_eq!(zstd::decode_all(&frame[..]).unwrap(), data, "level {level}");
            }
        }
        assert!(compressed(3, &text, text.len()).unwrap().len() < text.len() / 100);
    }

    #[test]
    fn wrong_levels_and_want_of_room_are_said() {
        let error = compressed(20, b"", 64).unwrap_err().to_string();
        assert!(error.contains("level 20: at most 19"), "{error}");
        let noise: Vec<u8> =
            (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert!(compressed(3, &noise, 100).is_err());
        let mut room = [0; 64];
        assert!(call(&Args::private(b"ab"), &mut Out::private(&mut room)).is_err());
    }
}
