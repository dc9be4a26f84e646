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

/// The function itself. The arguments' errors name what is wrong with them.
pub fn call(args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
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
