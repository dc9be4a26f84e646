//! The vFunction `sha256`: the SHA-256 digest (FIPS 180-4) of the arguments,
//! 32 bytes.
//!
//! The arguments are copied through a private block, so that each byte is read
//! once: the digest is that of bytes which were there at some moment, whatever
//! a caller does to them meanwhile.

use sha2::{Digest, Sha256};
use vfun_sdk::{Args, DriverError, Out};

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;
const BLOCK_BYTES: usize = 16 << 10;

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let mut hash = Sha256::new();
    let mut block = [0; BLOCK_BYTES];
    args.for_each_chunk(0, &mut block, |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    out.put(&hash.finalize())
}

vfun_sdk::export_function!(
    call,
    name = "sha256",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = 32,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        let mut room = [0; 32];
        let mut out = Out::private(&mut room);
        call(&Args::private(bytes), &mut out).unwrap();
        assert_eq!(out.len(), 32);
        room.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn known_digests() {
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            hex(&vec![b'a'; 1_000_000]),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }
}
