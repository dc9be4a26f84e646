//! A channel of packets: a port of a VM. Its first range is the program's side, which the
//! app writes, its second the host's side, which the service writes ([`crate::kind`]).
//!
//! Each side begins with a head page as in a channel of queues ([`crate::queues`]). At
//! [`SIDE_OFF`] follows a side of packets: its header page, and its ring (section 16 of
//! docs/protocol.md).

use crate::PAGE;
use crate::kind::{ChannelKind, RequiredRange, RequiredRanges, Shape};
use crate::limits::{PACKETS_RING_MAX, PACKETS_RING_MIN, PORTS_MAX};
use crate::place::ChannelPlace;
use crate::queues::Queues;
use crate::range::{Access, PlaceError};
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the side of packets begins, in bytes from the range's start: behind the head page.
pub const SIDE_OFF: usize = PAGE;
/// Bytes of a range before its ring: the head page, and the header page of the packets.
pub const RING_OFF: usize = 2 * PAGE;

wire_struct! {
    /// Shape of [`ChannelKind::Packets`]. It has no defaults.
    PacketsShape = 16 {
        /// Bytes of each ring, a power of two.
        ring_bytes: U32,
        /// Which port of the VM: its place in the table of ports ([`crate::header::PortEntry`]).
        port: U16,
        reserved0: U16,
        reserved1: U64,
    }
}

impl PacketsShape {
    /// The shape of a port.
    pub const fn new(ring_bytes: u32, port: u16) -> Self {
        PacketsShape {
            ring_bytes: U32::new(ring_bytes),
            port: U16::new(port),
            reserved0: U16::ZERO,
            reserved1: U64::ZERO,
        }
    }

    /// From the bytes of a message, with their reserved part checked.
    ///
    /// # Errors
    /// Reserved bytes are not zero, or there is no such port in any table.
    pub fn read(shape: &Shape) -> Result<Self, PlaceError> {
        let s: PacketsShape = zerocopy::transmute!(*shape);
        if s.reserved0.get() != 0 || s.reserved1.get() != 0 {
            return Err(PlaceError("reserved bytes of the shape are not zero"));
        }
        match usize::from(s.port.get()) < PORTS_MAX {
            true => Ok(s),
            false => Err(PlaceError("the number of the port is beyond a limit")),
        }
    }

    /// As the bytes of a message.
    pub fn shape(self) -> Shape {
        zerocopy::transmute!(self)
    }

    /// The program's side, then the host's, equally large. A ring need not be zero.
    pub(crate) fn wants(shape: &Shape) -> Result<RequiredRanges, PlaceError> {
        let ring = PacketsShape::read(shape)?.ring_bytes.get();
        if !ring.is_power_of_two() || !(PACKETS_RING_MIN..=PACKETS_RING_MAX).contains(&ring) {
            return Err(PlaceError("the bytes of a ring are no power of two within the limits"));
        }
        let bytes = RING_OFF as u64 + u64::from(ring);
        let side = |access| RequiredRange { access, bytes, zeroed: RING_OFF as u64 };
        Ok(RequiredRanges::of([side(Access::AppWrites), side(Access::HostWrites)]))
    }
}

/// A channel of packets, in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Which port of the VM.
    pub port: u16,
    /// Bytes of each ring.
    pub ring_bytes: u32,
    /// The two sides, with their head pages.
    pub sides: Queues,
}

impl Packets {
    /// `None` for a channel of another kind.
    pub fn of(place: &ChannelPlace) -> Option<Self> {
        if place.kind() != ChannelKind::Packets {
            return None;
        }
        let s = PacketsShape::read(&place.shape()).ok()?;
        let sides = Queues::of(place)?;
        Some(Packets { port: s.port.get(), ring_bytes: s.ring_bytes.get(), sides })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::row;
    use crate::range::Range;

    #[test]
    fn two_sides_follow_from_a_ring() {
        let shape = PacketsShape::new(1 << 20, 3).shape();
        let wants = (row(ChannelKind::Packets).wants)(&shape).unwrap();
        let found: Vec<_> = wants.iter().map(|w| (w.access, w.bytes, w.zeroed)).collect();
        let (bytes, zeroed) = ((1 << 20) + 8192, 8192);
        let due = [(Access::AppWrites, bytes, zeroed), (Access::HostWrites, bytes, zeroed)];
        assert_eq!(found, due);
        let ranges = [
            Range::new(0, Access::AppWrites, 1 << 20, bytes),
            Range::new(0, Access::HostWrites, 4 << 20, bytes),
        ];
        let place = ChannelPlace::new(ChannelKind::Packets, shape, (1, 2), &ranges).unwrap();
        let packets = Packets::of(&place).unwrap();
        assert_eq!((packets.port, packets.ring_bytes), (3, 1 << 20));
        assert_eq!((packets.sides.program, packets.sides.host), (1 << 20, 4 << 20));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let why = |s: Shape| (row(ChannelKind::Packets).wants)(&s).unwrap_err().0;
        for ring in [0, PACKETS_RING_MIN - 1, PACKETS_RING_MIN + 1, PACKETS_RING_MAX << 1] {
            assert!(why(PacketsShape::new(ring, 0).shape()).contains("ring"), "{ring}");
        }
        let beyond = PacketsShape::new(1 << 20, PORTS_MAX as u16).shape();
        assert!(why(beyond).contains("port"));
        for at in [6, 7, 8, 15] {
            let mut shape = PacketsShape::new(1 << 20, 0).shape();
            shape[at] = 1;
            assert!(why(shape).contains("reserved"), "byte {at}");
        }
    }
}
