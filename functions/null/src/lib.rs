//! The vFunction `null`: looks at nothing and answers nothing. However long its
//! arguments are, a call takes as long as their way to the service, so it shows
//! what written in place costs: no copy.

use vfun_sdk::{Args, DriverError, Out};

/// Longest arguments: a cell's largest data space.
pub const MOST_BYTES: u32 = 1 << 30;

#[inline]
fn call(_: &Args<'_>, _: &mut Out<'_>) -> Result<(), DriverError> {
    Ok(())
}

vfun_sdk::export_function!(
    call,
    name = "null",
    version = (1, 0),
    max_args = MOST_BYTES,
    max_result = 0,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_of_anything() {
        for args in [&[][..], &[1; 1000]] {
            let mut out = Out::private(&mut []);
            call(&Args::private(args), &mut out).unwrap();
            assert!(out.is_empty());
        }
    }
}
