//! The vFunction `resize`: an image in another size, by convolution with
//! Lanczos' kernel of 3 lobes.
//!
//! Arguments: width, height, new width, new height, each u32, then the pixels:
//! rows from the top, 4 bytes a pixel (red, green, blue, alpha; alpha not
//! multiplied into the rest). Result: the new pixels, in the same order.
//!
//! The pixels are copied once, as the kernel reads each of them several times.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{PixelType, ResizeOptions, Resizer};
use vfun_sdk::{Args, DriverError, Out};

/// Longest arguments and results: a copy of both must fit into the memory that
/// a service has by default.
pub const MOST_BYTES: u32 = 256 << 20;
const HEAD_BYTES: usize = 16;
const PIXEL_BYTES: u64 = 4;

fn bytes(what: &str, width: u32, height: u32) -> Result<usize, DriverError> {
    let bytes = u64::from(width) * u64::from(height);
    match bytes.checked_mul(PIXEL_BYTES) {
        Some(0) => Err(DriverError::bad_args(format!("{what} {width} x {height} has no pixel"))),
        Some(bytes) if bytes <= u64::from(MOST_BYTES) => Ok(bytes as usize),
        _ => Err(DriverError::bad_args(format!(
            "{what} {width} x {height} is too large: at most {} pixels",
            u64::from(MOST_BYTES) / PIXEL_BYTES
        ))),
    }
}

fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
    let (width, height) = (args.u32_at(0)?, args.u32_at(4)?);
    let (to_width, to_height) = (args.u32_at(8)?, args.u32_at(12)?);
    let given = bytes("an image of", width, height)?;
    let wanted = bytes("an image of", to_width, to_height)?;
    if args.len() - HEAD_BYTES != given {
        return Err(DriverError::bad_args(format!(
            "{width} x {height} pixels take {given} bytes, and there are {}",
            args.len() - HEAD_BYTES
        )));
    }
    // Before the work, not after it.
    out.set_len(wanted)?;
    let mut pixels = vec![0; given];
    args.read_at(HEAD_BYTES, &mut pixels)?;
    let wrong = |e: &dyn std::fmt::Display| DriverError::bad_args(format!("resize: {e}"));
    let from = ImageRef::new(width, height, &pixels, PixelType::U8x4).map_err(|e| wrong(&e))?;
    let mut to = Image::new(to_width, to_height, PixelType::U8x4);
    Resizer::new().resize(&from, &mut to, &ResizeOptions::new()).map_err(|e| wrong(&e))?;
    out.put(to.buffer())
}

vfun_sdk::export_function!(
    call,
    name = "resize",
    version = (1, 0),
    max_args = MOST_BYTES + 16,
    max_result = MOST_BYTES,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn resized(head: [u32; 4], pixels: &[u8], room: usize) -> Result<Vec<u8>, DriverError> {
        let head: Vec<u8> = head.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut room = vec![0; room];
        let mut out = Out::private(&mut room);
        call(&Args::private(&[&head, pixels].concat()), &mut out)?;
        let len = out.len();
        room.truncate(len);
        Ok(room)
    }

    #[test]
    fn one_colour_stays_and_the_same_size_changes_nothing() {
        let colour = [10, 200, 30, 255];
        let grown = resized([5, 3, 40, 17], &colour.repeat(15), 40 * 17 * 4).unwrap();
        assert_eq!(grown, colour.repeat(40 * 17));
        let image: Vec<u8> =
            (0..16 * 9).flat_map(|i| [i as u8, (i * 7) as u8, (i * 3) as u8, 255]).collect();
        assert_eq!(resized([16, 9, 16, 9], &image, image.len()).unwrap(), image);
    }

    #[test]
    fn a_ramp_stays_a_ramp_between_its_ends() {
        let ramp: Vec<u8> = (0..64u8).flat_map(|x| [x * 4, x * 4, x * 4, 255]).collect();
        let half = resized([64, 1, 32, 1], &ramp, 32 * 4).unwrap();
        // Each new pixel lies between the two old ones: 8 x + 2.
        for (x, pixel) in half.chunks(4).enumerate().skip(3).take(26) {
            assert!((i32::from(pixel[0]) - (8 * x as i32 + 2)).abs() <= 1, "{x}: {pixel:?}");
        }
    }

    #[test]
    fn wrong_sizes_are_named() {
        let said = |head, pixels: &[u8], room| resized(head, pixels, room).unwrap_err().to_string();
        assert!(said([0, 1, 1, 1], b"", 4).contains("0 x 1 has no pixel"));
        assert!(said([1, 1, u32::MAX, u32::MAX], &[0; 4], 4).contains("too large"));
        assert!(said([2, 2, 1, 1], &[0; 4], 4).contains("take 16 bytes, and there are 4"));
        assert!(resized([1, 1, 2, 2], &[0; 4], 15).is_err());
    }
}
