//! Where a link's memory is, as one word tells a VM.

use vfun_packet::LinkPlace;
use vfun_packet::limits::{RING_MAX, RING_MIN};

#[test]
fn a_word_says_what_was_put_in_and_nothing_else_is_one() {
    let place = LinkPlace { window: 7, ring: 1 << 20, is_second: true };
    assert_eq!(LinkPlace::of(place.word()), Some(place));
    assert_eq!(place.sides(), (4096 + 4096 + (1 << 20), 4096));
    for wrong in [
        0,
        u64::MAX,
        LinkPlace { window: 0, ..place }.word(),
        LinkPlace { ring: RING_MIN / 2, ..place }.word(),
        LinkPlace { ring: RING_MAX * 2, ..place }.word(),
        place.word() | 2,
        place.word() | 1 << 39,
    ] {
        assert_eq!(LinkPlace::of(wrong), None, "{wrong:x}");
    }
}

#[test]
fn two_sides_have_room_in_the_window() {
    assert_eq!(LinkPlace::largest_ring(1 << 20), Some(256 << 10));
    assert_eq!(LinkPlace::largest_ring(8 << 20), Some(2 << 20));
    assert_eq!(LinkPlace::largest_ring(4096), None);
    for power in 20..37 {
        let ring = LinkPlace::largest_ring(1 << power).unwrap();
        let place = LinkPlace { window: 1, ring, is_second: false };
        assert!(place.end() <= 1 << power && LinkPlace::of(place.word()) == Some(place));
    }
}
