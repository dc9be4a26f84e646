//! Sums of floats side by side: the same result on every machine. `sum_f64`
//! is made of this file too.

/// Sums of floats side by side.
pub const LANES: usize = 16;

/// Adds an array's next numbers; all calls but the last with a multiple of [`LANES`].
pub fn add_floats<const N: usize>(
    lanes: &mut [f64; LANES],
    bytes: &[u8],
    number: impl Fn([u8; N]) -> f64,
) {
    let (rows, rest) = bytes.as_chunks::<N>().0.as_chunks::<LANES>();
    for row in rows {
        for (lane, b) in lanes.iter_mut().zip(row) {
            *lane += number(*b);
        }
    }
    for (lane, b) in lanes.iter_mut().zip(rest) {
        *lane += number(*b);
    }
}

/// The sum of all, added up in order.
pub fn total(lanes: &[f64; LANES]) -> f64 {
    lanes.iter().fold(0.0, |sum, lane| sum + lane)
}
