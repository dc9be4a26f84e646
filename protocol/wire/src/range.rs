//! Ranges: what of a window belongs to whom, in whole pages.

use crate::PAGE;
use crate::open_enum::wire_enum;
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

wire_enum! {
    /// Who writes a range. Whoever does not write it may only read it.
    pub enum Access: u8 {
        /// The app writes, the service reads.
        AppWrites = 1 => "app writes",
        /// The host: the manager and its services.
        HostWrites = 2 => "host writes",
        /// Both sides write: a buffer.
        Both = 3 => "both write",
    }
}

impl Access {
    /// Whether the app may write.
    pub const fn app(self) -> bool {
        matches!(self, Access::AppWrites | Access::Both)
    }
    /// Whether the host may write.
    pub const fn host(self) -> bool {
        matches!(self, Access::HostWrites | Access::Both)
    }
}

wire_struct! {
    /// Pages of a window, with who writes them.
    Range = 24 {
        /// The window's number ([`crate::header::WindowEntry::index`]); 0: the control window.
        window: U16,
        /// Which side may write: an [`Access`].
        access: u8,
        reserved0: u8,
        reserved1: U32,
        /// Start, bytes from the window's start; a multiple of a page.
        offset: U64,
        /// Length in bytes; a multiple of a page, not 0.
        bytes: U64,
    }
}

impl Range {
    /// No range: all zero, which no check lets pass.
    pub const NONE: Range = Range {
        window: U16::ZERO,
        access: 0,
        reserved0: 0,
        reserved1: U32::ZERO,
        offset: U64::ZERO,
        bytes: U64::ZERO,
    };

    /// A range of the given window.
    pub const fn new(window: u16, access: Access, offset: u64, bytes: u64) -> Self {
        Range {
            window: U16::new(window),
            access: access.to_wire(),
            offset: U64::new(offset),
            bytes: U64::new(bytes),
            ..Range::NONE
        }
    }

    /// Whether the two have a byte in common. Both have passed [`check`].
    pub fn meets(&self, other: &Range) -> bool {
        self.window == other.window
            && self.offset.get() < other.offset.get() + other.bytes.get()
            && other.offset.get() < self.offset.get() + self.bytes.get()
    }
}

/// The part of a window in which ranges may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Number of the window in its VM; 0 for the control window.
    pub window: u16,
    /// Offset of its first byte.
    pub from: u64,
    /// Offset behind its last byte.
    pub to: u64,
}

/// Why ranges, or a channel made of them, are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceError(pub &'static str);

impl core::fmt::Display for PlaceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the layout is impossible: {}", self.0)
    }
}
impl std::error::Error for PlaceError {}

/// What holds for ranges of every kind of channel and for buffers (R-RNG-1): they lie
/// in one of `heaps`, in whole pages, apart from each other.
pub fn check(ranges: &[Range], heaps: &[Heap]) -> Result<(), PlaceError> {
    for (i, r) in ranges.iter().enumerate() {
        if Access::from_wire(r.access).is_none() {
            return Err(PlaceError("who writes a range is unknown"));
        }
        if r.reserved0 != 0 || r.reserved1.get() != 0 {
            return Err(PlaceError("reserved bytes of a range are not zero"));
        }
        let (offset, bytes) = (r.offset.get(), r.bytes.get());
        let page = PAGE as u64;
        if bytes == 0 || !bytes.is_multiple_of(page) || !offset.is_multiple_of(page) {
            return Err(PlaceError("a range is not of whole pages"));
        }
        let heap = heaps.iter().find(|h| h.window == r.window.get());
        let heap = heap.ok_or(PlaceError("a range lies in a window that is not here"))?;
        let end = offset.checked_add(bytes);
        if offset < heap.from || end.is_none_or(|end| end > heap.to) {
            return Err(PlaceError("a range lies outside the window's heap"));
        }
        if ranges[..i].iter().any(|before| before.meets(r)) {
            return Err(PlaceError("two ranges overlap"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAPS: &[Heap] = &[
        Heap { window: 0, from: 90112, to: 1 << 20 },
        Heap { window: 3, from: 4096, to: 1 << 16 },
    ];

    #[test]
    fn each_wrong_field_is_named() {
        let good = Range::new(0, Access::AppWrites, 90112, 8192);
        assert_eq!(check(&[good], HEAPS), Ok(()));
        assert_eq!(check(&[], HEAPS), Ok(()));
        let set = |change: fn(&mut Range)| {
            let mut r = good;
            change(&mut r);
            check(&[r], HEAPS).unwrap_err().0
        };
        for (change, part) in [
            ((|r| r.access = 0) as fn(&mut Range), "who writes"),
            (|r| r.access = 4, "who writes"),
            (|r| r.reserved0 = 1, "reserved"),
            (|r| r.reserved1 = U32::new(1), "reserved"),
            (|r| r.bytes = U64::ZERO, "whole pages"),
            (|r| r.bytes = U64::new(4097), "whole pages"),
            (|r| r.offset = U64::new(90113), "whole pages"),
            (|r| r.window = U16::new(1), "window that is not here"),
            (|r| r.offset = U64::new(86016), "outside"),
            (|r| r.bytes = U64::new(1 << 20), "outside"),
            (|r| r.offset = U64::new(u64::MAX - 4095), "outside"),
            (|r| r.window = U16::new(3), "outside"),
        ] {
            assert!(set(change).contains(part), "{part}: {}", set(change));
        }
        let next = Range::new(0, Access::Both, 90112 + 8192, 4096);
        assert_eq!(check(&[good, next], HEAPS), Ok(()));
        let over = Range::new(0, Access::Both, 90112 + 4096, 4096);
        assert!(check(&[good, over], HEAPS).unwrap_err().0.contains("overlap"));
        assert!(check(&[over, good], HEAPS).unwrap_err().0.contains("overlap"));
        let elsewhere = Range::new(3, Access::Both, 8192, 4096);
        let same = Range::new(0, Access::Both, 94208, 4096);
        assert_eq!(check(&[same, elsewhere], HEAPS), Ok(()));
    }

    /// Ranges that are near to good ones, so that many pass.
    fn some() -> impl Strategy<Value = Range> {
        let near = prop_oneof![(0u64..300).prop_map(|p| p * 4096), any::<u64>(), 0u64..2 << 20];
        let long = prop_oneof![(0u64..40).prop_map(|p| p * 4096), any::<u64>()];
        let window = prop_oneof![Just(0u16), Just(3), any::<u16>()];
        (window, 0u8..5, near, long, prop_oneof![9 => Just(0u8), 1 => any::<u8>()]).prop_map(
            |(window, access, offset, bytes, reserved0)| Range {
                window: U16::new(window),
                access,
                reserved0,
                reserved1: U32::ZERO,
                offset: U64::new(offset),
                bytes: U64::new(bytes),
            },
        )
    }

    proptest! {
        /// Ranges that pass lie inside their heap, and no byte is in two of them.
        #[test]
        fn what_passes_is_inside_and_apart(ranges in proptest::collection::vec(some(), 0..5)) {
            if check(&ranges, HEAPS).is_ok() {
                for (i, r) in ranges.iter().enumerate() {
                    let heap = HEAPS.iter().find(|h| h.window == r.window.get()).unwrap();
                    let (from, to) = (r.offset.get(), r.offset.get() as u128 + r.bytes.get() as u128);
                    prop_assert!(from >= heap.from && to <= heap.to as u128 && (from as u128) < to);
                    for other in &ranges[..i] {
                        let end = other.offset.get() + other.bytes.get();
                        prop_assert!(
                            other.window != r.window
                                || end <= from
                                || to as u64 <= other.offset.get()
                        );
                    }
                }
            }
        }
    }
}
