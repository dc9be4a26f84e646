//! Images in other sizes, and sizes that are wrong. Not in the library itself: it
//! would be compiled once more for that, for half a minute.

use vfun_fn_resize::call;
use vfun_sdk::{Args, DriverError, Out};

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
