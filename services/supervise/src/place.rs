//! A channel's place, as text for messages and notes.

use serde::{Deserialize, Serialize};
use vfun_wire::kind::{ChannelKind, Shape};
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::{Access, PlaceError, Range};

/// A [`ChannelPlace`] as it stands in JSON. Whoever reads one checks it by
/// [`Place::read`].
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Place {
    /// A [`ChannelKind`].
    pub kind: u16,
    /// How large it is, in the words of its kind.
    pub shape: Shape,
    /// The vector the app rings, and the one the host rings.
    pub vectors: (u16, u16),
    /// Of each range the window's index, its [`Access`], its offset and its length in bytes.
    pub ranges: Vec<(u16, u8, u64, u64)>,
}

impl Place {
    /// Notes a place.
    pub fn of(place: &ChannelPlace) -> Self {
        let range = |r: &Range| (r.window.get(), r.access, r.offset.get(), r.bytes.get());
        Place {
            kind: place.kind().to_wire(),
            shape: place.shape(),
            vectors: (place.vector_out(), place.vector_in()),
            ranges: place.ranges().iter().map(range).collect(),
        }
    }

    /// The place, if kind, shape and ranges fit each other. Where it lies is not looked
    /// at ([`ChannelPlace::check`]).
    pub fn read(&self) -> Result<ChannelPlace, PlaceError> {
        let kind = ChannelKind::from_wire(self.kind);
        let kind = kind.ok_or(PlaceError("unknown kind of channel"))?;
        let range = |&(window, access, offset, bytes): &(u16, u8, u64, u64)| {
            let access = Access::from_wire(access);
            let access = access.ok_or(PlaceError("who writes a range is unknown"))?;
            Ok(Range::new(window, access, offset, bytes))
        };
        let ranges: Vec<Range> = self.ranges.iter().map(range).collect::<Result<_, _>>()?;
        ChannelPlace::new(kind, self.shape, self.vectors, &ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_wire::channel::side_bytes;
    use vfun_wire::kind::CallsShape;

    #[test]
    fn a_place_survives_its_text_and_a_wrong_one_is_refused() {
        let side = side_bytes(64, 4096).unwrap();
        let ranges = [
            Range::new(0, Access::AppWrites, 1 << 20, side),
            Range::new(0, Access::HostWrites, 2 << 20, side),
        ];
        let shape = CallsShape::new(64, 4096).shape();
        let place = ChannelPlace::new(ChannelKind::Calls, shape, (1, 2), &ranges).unwrap();
        let text = serde_json::to_string(&Place::of(&place)).unwrap();
        let noted: Place = serde_json::from_str(&text).unwrap();
        assert_eq!(noted.read(), Ok(place));
        let wrong = |change: fn(&mut Place)| {
            let mut p = noted.clone();
            change(&mut p);
            p.read().unwrap_err().0
        };
        assert!(wrong(|p| p.kind = 9).contains("kind"));
        assert!(wrong(|p| p.shape[0] = 65).contains("limit"));
        assert!(wrong(|p| p.ranges[0].1 = 0).contains("who writes"));
        assert!(wrong(|p| p.ranges[1].3 = 4096).contains("size"));
        assert!(wrong(|p| p.ranges.clear()).contains("number"));
    }
}
