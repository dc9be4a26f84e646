//! The kinds of channel, and the one table of them: what a kind's shape means,
//! and which ranges follow from it.

use crate::channel::{side_bytes, spaces_off};
use crate::limits::*;
use crate::open_enum::wire_enum;
use crate::packets::PacketsShape;
use crate::place::ChannelPlace;
use crate::queues::QueuesShape;
use crate::range::{Access, PlaceError, Range};
use crate::version::Features;
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How large a channel is, in the words of its kind.
pub type Shape = [u8; SHAPE_BYTES];

/// A range that follows from a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredRange {
    /// The side that may write the range.
    pub access: Access,
    /// Its bytes, whole pages.
    pub bytes: u64,
    /// Bytes from its start that the host sets to zero before it hands the range out.
    pub zeroed: u64,
}

/// The ranges that follow from a shape, in order.
#[derive(Clone, Copy, Debug)]
pub struct RequiredRanges {
    list: [RequiredRange; RANGES_MAX],
    count: usize,
}

impl RequiredRanges {
    pub(crate) fn of<const N: usize>(all: [RequiredRange; N]) -> Self {
        const { assert!(N <= RANGES_MAX) };
        let none = RequiredRange { access: Access::HostWrites, bytes: 0, zeroed: 0 };
        let mut list = [none; RANGES_MAX];
        list[..N].copy_from_slice(&all);
        RequiredRanges { list, count: N }
    }

    /// Bytes of all of them; `None` beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.iter().try_fold(0u64, |sum, w| sum.checked_add(w.bytes))
    }
}

impl core::ops::Deref for RequiredRanges {
    type Target = [RequiredRange];
    fn deref(&self) -> &[RequiredRange] {
        &self.list[..self.count]
    }
}

/// One row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    pub kind: ChannelKind,
    /// Features without which no such channel is granted.
    pub needs: Features,
    /// Checks a granted shape and says which ranges follow from it. At least one of
    /// them is the host's alone: it begins with the words of
    /// [`crate::channel::in_header`]'s first line.
    pub wants: fn(&Shape) -> Result<RequiredRanges, PlaceError>,
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $number:literal $text:literal: $wants:path, needs $needs:expr;)*) => {
        wire_enum! {
            /// What a channel carries.
            pub enum ChannelKind: u16 { $($(#[$meta])* $name = $number => $text,)* }
        }
        /// Every kind: number, shape and ranges, feature.
        pub const TABLE: &[KindRow] =
            &[$(KindRow { kind: ChannelKind::$name, needs: $needs, wants: $wants },)*];
    };
}

kinds! {
    /// Cells, as in [`crate::channel`].
    Calls = 1 "calls": CallsShape::wants, needs Features(0);
    /// Raw lines, each answered by its own first word: the floor under a call, for measuring.
    Floor = 2 "floor": CallsShape::wants, needs Features::FLOOR;
    /// Packets of a port, as in [`crate::packets`].
    Packets = 3 "packets": PacketsShape::wants, needs Features::PACKETS;
    /// Queues in two arenas, as in [`crate::queues`].
    Queues = 4 "queues": QueuesShape::wants, needs Features::QUEUES;
}

impl ChannelKind {
    /// Whether its channels have a side of the program and one of the host, each with a head
    /// page as in [`crate::queues`], and no cells.
    pub const fn has_sides(self) -> bool {
        matches!(self, ChannelKind::Queues | ChannelKind::Packets)
    }
}

/// The row of a kind.
pub fn row(kind: ChannelKind) -> &'static KindRow {
    TABLE.iter().find(|r| r.kind == kind).expect("the macro makes a row for every kind")
}

impl KindRow {
    /// Checks that these are the ranges of a channel of this kind and shape, wherever
    /// they lie ([`crate::range::check`]).
    pub fn check(&self, shape: &Shape, ranges: &[Range]) -> Result<(), PlaceError> {
        let wants = (self.wants)(shape)?;
        if wants.len() != ranges.len() {
            return Err(PlaceError("the number of ranges is not that of its kind"));
        }
        for (want, range) in wants.iter().zip(ranges) {
            if range.access != want.access.to_wire() {
                return Err(PlaceError("a range is written by another side than its kind says"));
            }
            if range.bytes.get() != want.bytes {
                return Err(PlaceError("a range's size does not follow from the shape"));
            }
        }
        Ok(())
    }
}

wire_struct! {
    /// Shape of [`ChannelKind::Calls`] and [`ChannelKind::Floor`]. In a request a depth of 0
    /// asks for the default, and cell bytes of `u32::MAX` do.
    CallsShape = 16 {
        /// Cells, a power of two.
        depth: U16,
        reserved0: U16,
        /// Data space of a cell on each side, bytes, a multiple of 64; 0 for none.
        cell_bytes: U32,
        reserved1: U64,
    }
}

impl CallsShape {
    /// A shape of so many cells with so much data space each.
    pub const fn new(depth: u16, cell_bytes: u32) -> Self {
        CallsShape {
            depth: U16::new(depth),
            reserved0: U16::ZERO,
            cell_bytes: U32::new(cell_bytes),
            reserved1: U64::ZERO,
        }
    }

    /// From the bytes of a message, with their reserved part checked.
    pub fn read(shape: &Shape) -> Result<Self, PlaceError> {
        let s: CallsShape = zerocopy::transmute!(*shape);
        match s.reserved0.get() == 0 && s.reserved1.get() == 0 {
            true => Ok(s),
            false => Err(PlaceError("reserved bytes of the shape are not zero")),
        }
    }

    /// As the bytes of a message.
    pub fn shape(self) -> Shape {
        zerocopy::transmute!(self)
    }

    /// `dataout`, then `datain`, equally large.
    fn wants(shape: &Shape) -> Result<RequiredRanges, PlaceError> {
        let s = CallsShape::read(shape)?;
        let bytes = side_bytes(s.depth.get(), s.cell_bytes.get())
            .ok_or(PlaceError("depth or cell size is beyond a limit"))?;
        let zeroed = spaces_off(s.depth.get()) as u64;
        Ok(RequiredRanges::of([
            RequiredRange { access: Access::AppWrites, bytes, zeroed },
            RequiredRange { access: Access::HostWrites, bytes, zeroed },
        ]))
    }
}

/// A channel of calls or of raw lines, in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Start of `dataout`, bytes from its window's start.
    pub dataout: u64,
    /// Start of `datain`, bytes from its window's start.
    pub datain: u64,
    /// Bytes of each side.
    pub side_bytes: u64,
    pub depth: u16,
    /// Data space of a cell on each side, bytes.
    pub cell_bytes: u32,
}

impl Calls {
    /// The place of such a channel in the control window; fails where its shape is
    /// beyond a limit. `side_bytes` follows from the shape and is not read.
    pub fn place(
        &self,
        kind: ChannelKind,
        vectors: (u16, u16),
    ) -> Result<ChannelPlace, PlaceError> {
        let shape = CallsShape::new(self.depth, self.cell_bytes).shape();
        let wants = CallsShape::wants(&shape)?;
        let offsets = [self.dataout, self.datain];
        let range =
            |(want, off): (&RequiredRange, &u64)| Range::new(0, want.access, *off, want.bytes);
        let ranges: Vec<Range> = wants.iter().zip(&offsets).map(range).collect();
        ChannelPlace::new(kind, shape, vectors, &ranges)
    }

    /// `None` for a channel of another kind.
    pub fn of(place: &ChannelPlace) -> Option<Self> {
        let (ChannelKind::Calls | ChannelKind::Floor) = place.kind() else { return None };
        let s = CallsShape::read(&place.shape()).ok()?;
        let [out, inn] = place.ranges() else { return None };
        Some(Calls {
            dataout: out.offset.get(),
            datain: inn.offset.get(),
            side_bytes: out.bytes.get(),
            depth: s.depth.get(),
            cell_bytes: s.cell_bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_and_their_ranges_can_be_laid_out() {
        assert_eq!(TABLE.len(), ChannelKind::ALL.len());
        for (i, r) in TABLE.iter().enumerate() {
            assert_eq!(row(r.kind).kind, r.kind);
            assert!(TABLE[i + 1..].iter().all(|o| o.kind != r.kind));
        }
        for (depth, cell_bytes) in [(1, 0), (64, 4096), (1024, 1 << 30)] {
            for r in TABLE {
                let shape = match r.kind {
                    ChannelKind::Calls | ChannelKind::Floor => {
                        CallsShape::new(depth, cell_bytes).shape()
                    }
                    ChannelKind::Packets => PacketsShape::new(u32::from(depth) << 12, 0).shape(),
                    ChannelKind::Queues => QueuesShape::new(depth.max(2).into(), 2).shape(),
                };
                let wants = (r.wants)(&shape).unwrap();
                let whole = |w: &RequiredRange| {
                    w.bytes.is_multiple_of(crate::PAGE as u64) && w.zeroed <= w.bytes
                };
                assert!(wants.iter().all(whole));
                assert!(wants.iter().any(|w| w.access == Access::HostWrites), "for its head");
                assert!(wants.bytes().unwrap() >= 4 * crate::PAGE as u64);
            }
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let calls = row(ChannelKind::Calls);
        let why = |shape: Shape| (calls.wants)(&shape).unwrap_err().0;
        for (depth, cell_bytes) in [(0, 0), (3, 0), (2048, 0), (1, 63), (1, u32::MAX)] {
            assert!(why(CallsShape::new(depth, cell_bytes).shape()).contains("limit"));
        }
        for at in [2, 3, 8, 15] {
            let mut shape = CallsShape::new(64, 4096).shape();
            shape[at] = 1;
            assert!(why(shape).contains("reserved"), "byte {at}");
        }
    }

    #[test]
    fn ranges_that_are_not_the_kinds_are_refused() {
        let (calls, shape) = (row(ChannelKind::Calls), CallsShape::new(64, 4096).shape());
        let side = side_bytes(64, 4096).unwrap();
        let out = Range::new(0, Access::AppWrites, 0, side);
        let inn = Range::new(0, Access::HostWrites, side, side);
        assert_eq!(calls.check(&shape, &[out, inn]), Ok(()));
        let why = |ranges: &[Range]| calls.check(&shape, ranges).unwrap_err().0;
        assert!(why(&[out]).contains("number of ranges"));
        assert!(why(&[out, inn, inn]).contains("number of ranges"));
        assert!(why(&[inn, out]).contains("another side"));
        assert!(why(&[out, Range::new(0, Access::Both, side, side)]).contains("another side"));
        let short = Range::new(0, Access::HostWrites, side, side - 4096);
        assert!(why(&[out, short]).contains("does not follow"));
    }
}
