//! One window: which of its ranges are given out, who has which line, and what
//! is held back for a moment.

use super::grant::Shape;
use super::heap::Heap;
use super::place::Place;
use vfun_wire::Handle;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS, VECTORS};

/// How long pages of a grant that the host takes away are held back before
/// they are given out again: a guest whose processor takes no interrupt for as
/// long has other troubles.
pub const HOLD_MS: u64 = 1_000;
/// Ranges of a window that are held back one by one. They are noted with it,
/// and a note has a longest length: beyond it nothing of the window is given
/// out until all of them are due.
pub const HELD_MAX: usize = 256;

/// One window.
#[derive(Debug)]
pub(crate) struct Window {
    pub client: u32,
    pub heap: Heap,
    /// Ranges taken from programs that may not know yet: until when (ms), where,
    /// and how many bytes. By place; none touches the next.
    pub held: Vec<(u64, u64, u64)>,
    /// Nothing is given out until then, ms.
    pub shut: Option<u64>,
    pub doorbell: bool,
    pub death_seen: bool,
    /// Each app in it must show a credential or a token.
    pub proven: bool,
    /// How many places each vector wakes.
    pub vectors: [u32; VECTORS as usize],
    /// Which session has which line of the guest's page.
    pub lines: [Option<Handle>; SESSIONS],
    /// Of each line the last heartbeat seen, and when it last moved.
    pub beats: [(u64, u64); SESSIONS],
    /// Of each control cell the last request by which something ended: read
    /// again, because a manager was killed before it had answered, it finds
    /// nothing that it could name.
    pub ended: [Option<u32>; CONTROL_CELLS],
}

impl Window {
    /// A window with nobody in it.
    pub fn new(client: u32, bytes: u64, doorbell: bool, death_seen: bool) -> Self {
        Window {
            client,
            heap: Heap::new(HEAP_OFF as u64, bytes),
            held: vec![],
            shut: None,
            doorbell,
            death_seen,
            proven: false,
            vectors: [0; VECTORS as usize],
            lines: [None; SESSIONS],
            beats: [(0, 0); SESSIONS],
            ended: [None; CONTROL_CELLS],
        }
    }

    /// Takes room for a channel of this shape, and the vector that wakes fewest places;
    /// `None` if there is not as much.
    pub fn take(&mut self, shape: &Shape) -> Option<Place> {
        let least = (1..VECTORS).min_by_key(|v| self.vectors[usize::from(*v)])?;
        let place = Place::take(&mut self.heap, shape, least)?;
        self.vectors[usize::from(place.vector())] += 1;
        Some(place)
    }

    /// Takes the room of a place that was noted; false if another one has some of it.
    pub fn take_again(&mut self, place: &Place) -> bool {
        self.vectors[usize::from(place.vector())] += 1;
        place.take_again(&mut self.heap)
    }

    /// Gives the room of a place back; it is held back for [`HOLD_MS`] from `held`, if
    /// that is a time.
    pub fn give(&mut self, place: &Place, held: Option<u64>) {
        self.vectors[usize::from(place.vector())] -= 1;
        for (off, bytes) in place.ranges() {
            match held {
                Some(now) => self.hold_back(now, off, bytes),
                None => self.heap.give(off, bytes),
            }
        }
    }

    /// The sessions in it.
    pub fn sessions(&self) -> impl Iterator<Item = Handle> {
        self.lines.iter().copied().flatten()
    }

    /// Bytes given out to channels.
    pub fn given_out(&self) -> u64 {
        let held: u64 = self.held.iter().map(|(_, _, bytes)| bytes).sum();
        self.heap.total() - self.heap.free_bytes() - held
    }

    /// Holds a range back that was given out, for [`HOLD_MS`] from `now`.
    pub fn hold_back(&mut self, now: u64, off: u64, bytes: u64) {
        let (mut until, mut off, mut bytes) = (now + HOLD_MS, off, bytes);
        let at = self.held.partition_point(|h| h.1 < off);
        // With its neighbours it is one, as long as the last of them is.
        if let Some(&(t, o, b)) = self.held.get(at)
            && off + bytes == o
        {
            (until, bytes) = (until.max(t), bytes + b);
            self.held.remove(at);
        }
        let mut at = at;
        if let Some(&(t, o, b)) = at.checked_sub(1).and_then(|i| self.held.get(i))
            && o + b == off
        {
            (until, off, bytes) = (until.max(t), o, bytes + b);
            at -= 1;
            self.held.remove(at);
        }
        if self.held.len() < HELD_MAX {
            return self.held.insert(at, (until, off, bytes));
        }
        let all = std::mem::take(&mut self.held);
        self.shut = all.iter().map(|h| h.0).chain(self.shut).chain([until]).max();
        for (_, off, bytes) in all.into_iter().chain([(until, off, bytes)]) {
            self.heap.give(off, bytes);
        }
    }

    /// Whether something is held back.
    pub fn holds_back(&self) -> bool {
        !self.held.is_empty() || self.shut.is_some()
    }

    /// Whether something was held back for long enough.
    pub fn held_is_due(&self, now: u64) -> bool {
        self.held.iter().map(|h| h.0).chain(self.shut).any(|until| until <= now)
    }

    /// Gives out again what was held back for long enough.
    pub fn give_held(&mut self, now: u64) {
        let heap = &mut self.heap;
        self.held.retain(|&(until, off, bytes)| {
            if until <= now {
                heap.give(off, bytes);
            }
            until > now
        });
        self.shut = self.shut.filter(|until| *until > now);
    }

    /// Takes what is held back out of a heap that does not know of it. A
    /// manager was killed between two notes: of what a grant still has by its
    /// own note nothing was given up yet.
    pub fn take_held(&mut self) {
        let heap = &mut self.heap;
        let mut held: Vec<(u64, u64, u64)> = std::mem::take(&mut self.held)
            .into_iter()
            .flat_map(|(until, off, bytes)| {
                let free = heap.take_free(off, bytes);
                free.into_iter().map(move |(off, bytes)| (until, off, bytes))
            })
            .collect();
        held.sort_unstable_by_key(|h| h.1);
        self.held = held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn neighbours_are_held_back_as_one_and_too_many_shut_the_window() {
        let mut w = Window::new(1, 64 * MIB, true, true);
        let pages: Vec<u64> = (0..4000).map(|_| w.heap.take(4096).unwrap()).collect();
        for (now, page) in [(0, 1), (5, 2), (7, 0)] {
            w.hold_back(now, pages[page], 4096);
        }
        assert_eq!(w.held, [(7 + HOLD_MS, pages[0], 3 * 4096)]);
        assert!(!w.held_is_due(HOLD_MS + 6) && w.held_is_due(HOLD_MS + 7));
        // Every other page, so that none touches the next.
        for page in pages[4..].iter().step_by(2) {
            w.hold_back(9, *page, 4096);
            assert!(w.held.len() <= HELD_MAX);
        }
        assert_eq!(w.shut, Some(9 + HOLD_MS), "what is not held by itself is behind this");
        w.give_held(9 + HOLD_MS);
        assert!(!w.holds_back());
        for page in [3].into_iter().chain((5..4000).step_by(2)) {
            w.heap.give(pages[page], 4096);
        }
        assert_eq!((w.heap.longest(), w.given_out()), (w.heap.total(), 0));
    }
}
