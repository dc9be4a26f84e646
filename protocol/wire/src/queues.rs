//! A channel of queues: its first range is the program's side, which the app writes, its
//! second the host's side, which the service writes ([`crate::kind`]).
//!
//! Each side begins with one head page; the rest is an arena, in which the two parties lay
//! out queues as they agree in calls. All of both sides is zero when the channel opens.

use crate::PAGE;
use crate::kind::{RequiredRange, RequiredRanges, Shape};
use crate::limits::{QUEUES_PAGES_MAX, QUEUES_PAGES_MIN};
use crate::place::ChannelPlace;
use crate::range::{Access, PlaceError};
use crate::wire_struct::wire_struct;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Words of the head page of the program's side (word index from the page's start). From
/// [`program_head::FREE`] on they are the function's.
pub mod program_head {
    use crate::LINE_WORDS;
    /// How many of the app's threads sleep on the channel's vector.
    pub const SLEEPERS: usize = 0;
    /// Random, so that a call can name the channel and nobody else can: lower half.
    pub const TOKEN0: usize = LINE_WORDS;
    /// The upper half of it.
    pub const TOKEN1: usize = LINE_WORDS + 1;
    /// The first word that means nothing to the protocol.
    pub const FREE: usize = 8 * LINE_WORDS;
}

/// Words of the head page of the host's side. The first line is that of
/// [`crate::channel::in_header`], as of every kind of channel.
pub mod host_head {
    use crate::LINE_WORDS;
    /// Not 0 while the service sleeps on the channel's vector.
    pub const SLEEPS: usize = LINE_WORDS;
    /// Counts up at least every two seconds while the service has the channel.
    pub const LIFE: usize = 2 * LINE_WORDS;
    /// Times the service rang the app.
    pub const RANG: usize = 3 * LINE_WORDS + 5;
    /// What was done in the channel, by the service's word: pieces of work that ended, with
    /// errors too.
    pub const DONE: usize = 4 * LINE_WORDS;
    /// Of these with an error.
    pub const FAILED: usize = 4 * LINE_WORDS + 1;
    /// Bytes that they moved.
    pub const BYTES: usize = 4 * LINE_WORDS + 2;
    /// Eight words that the function says of the channel, for people.
    pub const FACTS: usize = 5 * LINE_WORDS;
    /// How many.
    pub const FACTS_WORDS: usize = LINE_WORDS;
    /// The first word that means nothing to the protocol.
    pub const FREE: usize = 8 * LINE_WORDS;
}

wire_struct! {
    /// Shape of [`ChannelKind::Queues`]. It has no defaults.
    QueuesShape = 16 {
        /// Pages of the program's side, its head page included.
        program_pages: U32,
        /// Pages of the host's side, its head page included.
        host_pages: U32,
        reserved: U64,
    }
}

impl QueuesShape {
    /// A shape of two sides of so many pages.
    pub const fn new(program_pages: u32, host_pages: u32) -> Self {
        QueuesShape {
            program_pages: U32::new(program_pages),
            host_pages: U32::new(host_pages),
            reserved: U64::ZERO,
        }
    }

    /// From the bytes of a message, with their reserved part checked.
    pub fn read(shape: &Shape) -> Result<Self, PlaceError> {
        let s: QueuesShape = zerocopy::transmute!(*shape);
        match s.reserved.get() == 0 {
            true => Ok(s),
            false => Err(PlaceError("reserved bytes of the shape are not zero")),
        }
    }

    /// As the bytes of a message.
    pub fn shape(self) -> Shape {
        zerocopy::transmute!(self)
    }

    /// The program's side, then the host's.
    pub(crate) fn wants(shape: &Shape) -> Result<RequiredRanges, PlaceError> {
        let s = QueuesShape::read(shape)?;
        let side = |access, pages: U32| {
            let within = (QUEUES_PAGES_MIN..=QUEUES_PAGES_MAX).contains(&pages.get());
            let bytes = u64::from(pages.get()) * PAGE as u64;
            let refused = PlaceError("the pages of a side are beyond a limit");
            within.then_some(RequiredRange { access, bytes, zeroed: bytes }).ok_or(refused)
        };
        Ok(RequiredRanges::of([
            side(Access::AppWrites, s.program_pages)?,
            side(Access::HostWrites, s.host_pages)?,
        ]))
    }
}

/// A channel of queues, in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Start of the program's side, bytes from its window's start.
    pub program: u64,
    pub program_bytes: u64,
    /// Start of the host's side, bytes from its window's start.
    pub host: u64,
    pub host_bytes: u64,
}

impl Queues {
    /// The two sides of a channel of queues or of packets; `None` for another kind.
    pub fn of(place: &ChannelPlace) -> Option<Self> {
        if !place.kind().has_sides() {
            return None;
        }
        let [program, host] = place.ranges() else { return None };
        Some(Queues {
            program: program.offset.get(),
            program_bytes: program.bytes.get(),
            host: host.offset.get(),
            host_bytes: host.bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{ChannelKind, row};
    use crate::range::{Heap, Range};

    #[test]
    fn two_sides_follow_from_a_shape_and_are_zeroed_whole() {
        let shape = QueuesShape::new(3, 1000).shape();
        let wants = (row(ChannelKind::Queues).wants)(&shape).unwrap();
        let of =
            |access, pages: u64| RequiredRange { access, bytes: pages << 12, zeroed: pages << 12 };
        assert_eq!(wants[..], [of(Access::AppWrites, 3), of(Access::HostWrites, 1000)]);
        let ranges = [
            Range::new(0, Access::AppWrites, 1 << 20, 3 << 12),
            Range::new(0, Access::HostWrites, 2 << 20, 1000 << 12),
        ];
        let place = ChannelPlace::new(ChannelKind::Queues, shape, (1, 2), &ranges).unwrap();
        let plain = Queues {
            program: 1 << 20,
            program_bytes: 3 << 12,
            host: 2 << 20,
            host_bytes: 1000 << 12,
        };
        assert_eq!(Queues::of(&place), Some(plain));
        assert_eq!(crate::kind::Calls::of(&place), None);
        assert_eq!(place.head().offset.get(), 2 << 20, "the host's side has the head");
        assert_eq!(place.check(&[Heap { window: 0, from: 90112, to: 64 << 20 }]), Ok(()));
        assert_eq!(ChannelPlace::read(&place.ack(9)), Ok((9, place)));
    }

    #[test]
    fn sides_beyond_the_limits_are_refused() {
        let wants = row(ChannelKind::Queues).wants;
        let why = |shape: Shape| wants(&shape).unwrap_err().0;
        let most = QUEUES_PAGES_MAX;
        for (program, host) in [(0, 2), (2, 0), (1, 2), (2, 1), (most + 1, 2), (2, u32::MAX)] {
            assert!(why(QueuesShape::new(program, host).shape()).contains("beyond a limit"));
        }
        assert!(wants(&QueuesShape::new(QUEUES_PAGES_MIN, most).shape()).is_ok());
        for at in 8..16 {
            let mut shape = QueuesShape::new(2, 2).shape();
            shape[at] = 1;
            assert!(why(shape).contains("reserved"), "byte {at}");
        }
    }
}
