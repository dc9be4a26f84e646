//! The vFunction `echo`: answers its arguments. With none it is the null call,
//! whose time is all VirtFun's own.

use vfun_sdk::{Args, DriverError, Out};

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;

#[inline]
fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    out.put_args(args)
}

vfun_sdk::export_function!(
    call,
    name = "echo",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = MOST_BYTES,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut room = [0; 256];
        for n in [0, 1, 48, 256] {
            let mut out = Out::private(&mut room);
            call(&Args::private(&bytes[..n]), &mut out).unwrap();
            assert_eq!(out.len(), n);
            assert_eq!(&room[..n], &bytes[..n]);
        }
        let e = call(&Args::private(&bytes), &mut Out::private(&mut room[..255])).unwrap_err();
        assert_eq!(e.code, vfun_sdk::abi::RESULT_TOO_LARGE);
    }
}
