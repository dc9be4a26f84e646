//! A channel's place: its kind, shape and vectors, and the ranges it is made of.

use crate::kind::{self, ChannelKind, RequiredRanges, Shape};
use crate::limits::*;
use crate::message::ActivateAck;
use crate::range::{self, Access, Heap, PlaceError, Range};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

/// A channel's place. Its shape and ranges fit its kind; whether they lie where they
/// may, [`ChannelPlace::check`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelPlace {
    kind: ChannelKind,
    shape: Shape,
    vectors: (u16, u16),
    ranges: [Range; RANGES_MAX],
    count: usize,
}

impl ChannelPlace {
    /// A place of the given kind; `vectors` are the one the app rings and the one the
    /// host rings. Fails where shape, ranges and kind do not fit each other.
    pub fn new(
        kind: ChannelKind,
        shape: Shape,
        vectors: (u16, u16),
        ranges: &[Range],
    ) -> Result<Self, PlaceError> {
        kind::row(kind).check(&shape, ranges)?;
        let mut all = [Range::NONE; RANGES_MAX];
        let room = all.get_mut(..ranges.len()).ok_or(PlaceError("too many ranges"))?;
        room.copy_from_slice(ranges);
        Ok(ChannelPlace { kind, shape, vectors, ranges: all, count: ranges.len() })
    }

    /// Reads an ack of activate, with the handle of its channel.
    pub fn read(ack: &[u8]) -> Result<(u64, Self), PlaceError> {
        let short = PlaceError("the answer has not the length of its ranges");
        let (head, rest) = ActivateAck::read_from_prefix(ack).map_err(|_| short)?;
        let count = usize::from(head.count.get());
        if count > RANGES_MAX {
            return Err(PlaceError("too many ranges"));
        }
        let ranges = <[Range]>::ref_from_bytes_with_elems(rest, count).map_err(|_| short)?;
        let kind = ChannelKind::from_wire(head.kind.get());
        let kind = kind.ok_or(PlaceError("unknown kind of channel"))?;
        let vectors = (head.vector_out.get(), head.vector_in.get());
        Ok((head.channel.get(), Self::new(kind, head.shape, vectors, ranges)?))
    }

    /// As an ack of activate.
    pub fn ack(&self, channel: u64) -> Vec<u8> {
        let head = ActivateAck {
            channel: U64::new(channel),
            kind: U16::new(self.kind.to_wire()),
            count: U16::new(self.count as u16),
            vector_out: U16::new(self.vectors.0),
            vector_in: U16::new(self.vectors.1),
            shape: self.shape,
            reserved: U64::ZERO,
        };
        [head.as_bytes(), self.ranges().as_bytes()].concat()
    }

    /// Checks that the channel lies in one of `heaps`, its head in the control window,
    /// and rings vectors that a window has (R-RNG-1, R-RNG-3, R-CHN-1).
    pub fn check(&self, heaps: &[Heap]) -> Result<(), PlaceError> {
        range::check(self.ranges(), heaps)?;
        if self.head().window.get() != 0 {
            return Err(PlaceError("a channel's head lies outside the control window"));
        }
        match self.vectors.0 < VECTORS && self.vectors.1 < VECTORS {
            true => Ok(()),
            false => Err(PlaceError("a doorbell vector is beyond the window's")),
        }
    }

    /// What the channel carries.
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// How large it is, in the words of its kind.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The vector the app rings.
    pub fn vector_out(&self) -> u16 {
        self.vectors.0
    }

    /// The vector the host rings.
    pub fn vector_in(&self) -> u16 {
        self.vectors.1
    }

    /// Its ranges, in the order of its kind.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// What its kind asks of each range.
    pub fn wants(&self) -> RequiredRanges {
        (kind::row(self.kind).wants)(&self.shape).expect("checked when it was made")
    }

    /// The range that begins with the channel's head page: the first that the host
    /// alone writes (R-RNG-3).
    pub fn head(&self) -> &Range {
        let host = |r: &&Range| r.access == Access::HostWrites.to_wire();
        self.ranges().iter().find(host).expect("every kind has one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{line_off, side_bytes, spaces_off};
    use crate::kind::{Calls, CallsShape};
    use proptest::prelude::*;

    const WINDOW: u64 = 64 << 20;
    const HEAP: &[Heap] = &[Heap { window: 0, from: 90112, to: WINDOW }];

    fn at(out: u64, inn: u64, vectors: (u16, u16)) -> ChannelPlace {
        let side = side_bytes(64, 4096).unwrap();
        ChannelPlace::new(
            ChannelKind::Calls,
            CallsShape::new(64, 4096).shape(),
            vectors,
            &[
                Range::new(0, Access::AppWrites, out, side),
                Range::new(0, Access::HostWrites, inn, side),
            ],
        )
        .unwrap()
    }

    #[test]
    fn a_place_survives_the_wire_and_is_read_as_calls() {
        let p = at(1 << 20, 2 << 20, (1, 2));
        let ack = p.ack(7);
        assert_eq!(ack.len(), 40 + 2 * 24);
        assert_eq!(ChannelPlace::read(&ack), Ok((7, p)));
        assert_eq!(p.check(HEAP), Ok(()));
        assert_eq!(p.head().offset.get(), 2 << 20);
        assert_eq!((p.vector_out(), p.vector_in()), (1, 2));
        let calls = Calls::of(&p).unwrap();
        assert_eq!((calls.dataout, calls.datain), (1 << 20, 2 << 20));
        assert_eq!((calls.depth, calls.cell_bytes), (64, 4096));
        assert_eq!(calls.side_bytes, p.wants()[0].bytes);
    }

    #[test]
    fn wrong_places_are_refused() {
        let why = |p: ChannelPlace| p.check(HEAP).unwrap_err().0;
        assert!(why(at(1 << 20, (1 << 20) + 4096, (1, 1))).contains("overlap"));
        assert!(why(at(u64::MAX - 4095, 1 << 20, (1, 1))).contains("outside"));
        assert!(why(at(4096, 1 << 20, (1, 1))).contains("outside"), "below the heap");
        assert!(why(at(1 << 20, 2 << 20, (VECTORS, 1))).contains("vector"));
        assert!(why(at(1 << 20, 2 << 20, (1, VECTORS))).contains("vector"));
        let other = Heap { window: 1, ..HEAP[0] };
        assert!(at(1 << 20, 2 << 20, (1, 1)).check(&[other]).is_err(), "another window");
        let mut away = at(1 << 20, 2 << 20, (1, 1));
        away.ranges[0].window = U16::new(1);
        assert_eq!(away.check(&[HEAP[0], other]), Ok(()));
        away.ranges[1].window = U16::new(1);
        assert!(away.check(&[HEAP[0], other]).unwrap_err().0.contains("head"));
    }

    #[test]
    fn wrong_answers_are_refused() {
        let good = at(1 << 20, 2 << 20, (1, 1)).ack(7);
        let why = |change: fn(&mut Vec<u8>)| {
            let mut ack = good.clone();
            change(&mut ack);
            ChannelPlace::read(&ack).unwrap_err().0
        };
        assert!(why(|a| a.truncate(39)).contains("length"));
        assert!(why(|a| a.truncate(87)).contains("length"));
        assert!(why(|a| a.push(0)).contains("length"));
        assert!(why(|a| a[10] = 1).contains("length"), "count");
        assert!(why(|a| a[10] = 9).contains("too many"));
        assert!(why(|a| a[8] = 5).contains("unknown kind"));
        assert!(why(|a| a[16] = 65).contains("limit"), "depth");
        assert!(why(|a| a[18] = 1).contains("reserved"), "shape");
        assert!(why(|a| a.drain(40..64).for_each(drop)).contains("length"));
    }

    proptest! {
        /// No answer that passes reaches outside the heap, whatever its bytes; and what
        /// the calls' lines and spaces take lies inside their ranges.
        #[test]
        fn what_passes_is_inside(
            noise in proptest::collection::vec((0usize..88, any::<u8>()), 0..4),
            out in 0u64..20_000, inn in 0u64..20_000, depth in 0u32..12, cell in 0u32..2000,
        ) {
            let shape = CallsShape::new(1u16.checked_shl(depth).unwrap_or(3), cell * 64);
            let side = side_bytes(shape.depth.get(), cell * 64).unwrap_or(4096);
            let head = ActivateAck {
                kind: U16::new(1), count: U16::new(2), shape: shape.shape(),
                channel: U64::new(1), vector_out: U16::new(1), vector_in: U16::new(1),
                reserved: U64::ZERO,
            };
            let ranges = [
                Range::new(0, Access::AppWrites, out * 4096, side),
                Range::new(0, Access::HostWrites, inn * 4096, side),
            ];
            let mut ack = [head.as_bytes(), ranges.as_bytes()].concat();
            for (at, byte) in noise {
                ack[at] = byte;
            }
            if let Ok((_, p)) = ChannelPlace::read(&ack) && p.check(HEAP).is_ok() {
                let c = Calls::of(&p).unwrap();
                let spaces = c.depth as u64 * c.cell_bytes as u64;
                let last = spaces_off(c.depth) as u64 + spaces;
                prop_assert!(line_off(c.depth as usize) <= spaces_off(c.depth));
                prop_assert!(last <= c.side_bytes);
                for from in [c.dataout, c.datain] {
                    prop_assert!(from >= 90112 && from + c.side_bytes <= WINDOW);
                }
                prop_assert!(c.dataout + last <= c.datain || c.datain + last <= c.dataout);
            }
        }
    }
}
