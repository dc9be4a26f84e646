//! Where a grant lies in its window. What its ranges are is known here alone, from the
//! row of its kind.

use super::grant::Shape;
use super::heap;
use serde::{Deserialize, Serialize};
use vfun_supervise::Place as Noted;
use vfun_wire::PAGE;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::kind::{CallsShape, ChannelKind, RequiredRanges, row};
use vfun_wire::limits::WINDOW_BYTES_MAX;
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::{Heap, PlaceError, Range};

/// Index of the window in which channels lie: the one with the control cells.
pub(super) const CONTROL_WINDOW: u16 = 0;

/// The pages of a channel, and the vector by which its ends are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Noted", into = "Noted")]
pub struct Place(ChannelPlace);

impl From<Place> for Noted {
    fn from(place: Place) -> Self {
        Noted::of(&place.0)
    }
}

impl TryFrom<Noted> for Place {
    type Error = PlaceError;
    fn try_from(noted: Noted) -> Result<Self, PlaceError> {
        noted.read().map(Place)
    }
}

impl Shape {
    /// The ranges of a place of this shape; an error beyond what a channel can be.
    pub(super) fn wants(&self) -> Result<RequiredRanges, PlaceError> {
        (row(self.kind).wants)(&self.shape)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.wants().ok().and_then(|w| w.bytes()).unwrap_or(u64::MAX)
    }

    /// Its cells, if it is of a kind that has them; else a shape without any.
    pub fn cells(&self) -> CallsShape {
        match self.kind {
            ChannelKind::Calls | ChannelKind::Floor => CallsShape::read(&self.shape).ok(),
            ChannelKind::Queues | ChannelKind::Packets => None,
        }
        .unwrap_or(CallsShape::new(0, 0))
    }
}

impl Place {
    /// Takes room for a channel of this shape; `None` if there is not as much.
    pub(super) fn take(heap: &mut heap::Heap, shape: &Shape, vector: u16) -> Option<Place> {
        let mut taken: Vec<Range> = vec![];
        for want in shape.wants().ok()?.iter() {
            let Some(off) = heap.take(want.bytes) else {
                taken.iter().for_each(|r| heap.give(r.offset.get(), r.bytes.get()));
                return None;
            };
            taken.push(Range::new(CONTROL_WINDOW, want.access, off, want.bytes));
        }
        ChannelPlace::new(shape.kind, shape.shape, (vector, vector), &taken).ok().map(Place)
    }

    /// Takes the room of this very place; false if not all of it is free, or if some of
    /// it lies in another window than the heap's.
    pub(super) fn take_again(&self, heap: &mut heap::Heap) -> bool {
        let here = self.0.ranges().iter().all(|r| r.window.get() == CONTROL_WINDOW);
        here && self.ranges().all(|(off, bytes)| heap.take_at(off, bytes))
    }

    /// Its ranges: where each begins, and its bytes.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.ranges().iter().map(|r| (r.offset.get(), r.bytes.get()))
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|(_, bytes)| bytes).sum()
    }

    /// The vector that the app rings.
    pub fn vector(&self) -> u16 {
        self.0.vector_out()
    }

    /// What apps and services are told of it.
    pub fn channel(&self) -> ChannelPlace {
        self.0
    }

    /// Whether it can be a place of this shape. That it ends inside its window shows
    /// when its room is taken.
    pub(super) fn check(&self, shape: &Shape) -> Result<(), String> {
        let heap = Heap { window: CONTROL_WINDOW, from: HEAP_OFF as u64, to: WINDOW_BYTES_MAX };
        self.0.check(&[heap]).map_err(|e| e.to_string())?;
        match (self.0.kind(), self.0.shape()) == (shape.kind, shape.shape) {
            true => Ok(()),
            false => Err("its channel has another kind or shape than was granted".into()),
        }
    }
}

/// Whether a range is one that some [`Heap`](heap::Heap) could give out.
pub(super) fn in_pages(off: u64, bytes: u64) -> bool {
    let page = PAGE as u64;
    off.is_multiple_of(page)
        && bytes >= page
        && bytes.is_multiple_of(page)
        && off.checked_add(bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_another_window_is_not_taken_from_this_one() {
        let (from, end) = (HEAP_OFF as u64, 1 << 20);
        let shape = Shape { kind: ChannelKind::Calls, shape: CallsShape::new(8, 64).shape() };
        let place = Place::take(&mut heap::Heap::new(from, end), &shape, 1).unwrap();
        let mut heap = heap::Heap::new(from, end);
        let total = heap.total();
        for at in 0..2 {
            let mut noted = Noted::from(place);
            noted.ranges[at].0 = 1;
            let other = Place::try_from(noted).unwrap();
            assert!(other.check(&shape).unwrap_err().contains("a window that is not here"));
            assert!(!other.take_again(&mut heap));
            assert_eq!(heap.free_bytes(), total, "nothing of it was taken");
        }
        assert!(place.take_again(&mut heap) && heap.free_bytes() < total);
    }
}
