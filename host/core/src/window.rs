//! One window: its memories, and who has which line.

use super::further::Further;
use super::grant::Shape;
use super::memory::{HELD_MAX, Memory};
use super::place::{CONTROL_WINDOW, Place};
use std::collections::BTreeMap;
use vfun_wire::Handle;
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS, VECTORS};

/// One control window: its memory, its sessions and what it was last told.
#[derive(Debug)]
pub(crate) struct Window {
    pub client: u32,
    /// The VM that it is in; none of a program on the host or over TCP.
    pub vm: Option<String>,
    /// Where its control cells and channels lie.
    pub control: Memory,
    /// Its other memories, by their number: buffers alone lie there.
    pub data: BTreeMap<u16, Memory>,
    /// The further windows that its table names, by their number.
    pub further: BTreeMap<u16, Further>,
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
            vm: None,
            control: Memory::control(bytes),
            data: BTreeMap::new(),
            further: BTreeMap::new(),
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
        let place = Place::take(&mut self.control.heap, shape, least)?;
        self.vectors[usize::from(place.vector())] += 1;
        Some(place)
    }

    /// Takes the room of a place that was noted; false if another one has some of it.
    pub fn take_again(&mut self, place: &Place) -> bool {
        self.vectors[usize::from(place.vector())] += 1;
        place.take_again(&mut self.control.heap)
    }

    /// Gives the room of a place back; it is held back for a while from `held`, if
    /// that is a time.
    pub fn give(&mut self, place: &Place, held: Option<u64>) {
        self.vectors[usize::from(place.vector())] -= 1;
        for range in place.ranges() {
            self.give_range(CONTROL_WINDOW, range, held);
        }
    }

    /// Gives a range of one of its memories back; it is held back for
    /// [`HOLD_MS`](super::memory::HOLD_MS) from `held`, if that is a time.
    pub fn give_range(&mut self, index: u16, (off, bytes): (u64, u64), held: Option<u64>) {
        let Some(memory) = self.memory_mut(index) else { return };
        let Some(now) = held else { return memory.heap.give(off, bytes) };
        memory.hold_back(now, off, bytes);
        self.bound_held();
    }

    /// Sees to it that no more than [`HELD_MAX`] ranges are held back one by one.
    fn bound_held(&mut self) {
        while self.memories().map(|(_, m)| m.held.len()).sum::<usize>() > HELD_MAX {
            if let Some(most) = self.memories_mut().max_by_key(|m| m.held.len()) {
                most.shut();
            }
        }
    }

    /// The sessions in it.
    pub fn sessions(&self) -> impl Iterator<Item = Handle> {
        self.lines.iter().copied().flatten()
    }

    /// One of its memories.
    pub fn memory_mut(&mut self, index: u16) -> Option<&mut Memory> {
        match index {
            CONTROL_WINDOW => Some(&mut self.control),
            _ => self.data.get_mut(&index),
        }
    }

    /// All of its memories, with their numbers.
    pub fn memories(&self) -> impl Iterator<Item = (u16, &Memory)> {
        let data = self.data.iter().map(|(index, m)| (*index, m));
        std::iter::once((CONTROL_WINDOW, &self.control)).chain(data)
    }

    fn memories_mut(&mut self) -> impl Iterator<Item = &mut Memory> {
        std::iter::once(&mut self.control).chain(self.data.values_mut())
    }

    /// Takes room for a buffer: in which memory, and where. One that is for data is
    /// better: channels can lie in the control window alone. `further`: the app can map
    /// them.
    pub fn take_buffer(
        &mut self,
        now: u64,
        further: bool,
        bytes: u64,
        align: u64,
        contiguous: bool,
    ) -> Option<(u16, u64)> {
        let data = self.data.iter_mut().filter(|_| further).map(|(index, m)| (*index, m));
        let mut all = data.chain(std::iter::once((CONTROL_WINDOW, &mut self.control)));
        all.find_map(|(index, m)| Some((index, m.take(now, bytes, align, contiguous)?)))
    }

    /// Bytes given out.
    pub fn given_out(&self) -> u64 {
        self.memories().map(|(_, m)| m.given_out()).sum()
    }

    /// Whether something is held back.
    pub fn holds_back(&self) -> bool {
        self.memories().any(|(_, m)| m.holds_back())
    }

    /// Whether something was held back for long enough.
    pub fn held_is_due(&self, now: u64) -> bool {
        self.memories().any(|(_, m)| m.held_is_due(now))
    }

    /// Gives out again what was held back for long enough.
    pub fn give_held(&mut self, now: u64) {
        self.memories_mut().for_each(|m| m.give_held(now));
    }

    /// Takes what is held back out of heaps that do not know of it.
    pub fn take_held(&mut self) {
        self.memories_mut().for_each(Memory::take_held);
        // What is free of a range that was one may be several.
        self.bound_held();
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::HOLD_MS;
    use super::super::notes::{WindowNote, text};
    use super::*;
    use vfun_keeper::NOTE_BYTES;
    use vfun_wire::PAGE;
    use vfun_wire::limits::{NAME_BYTES, WINDOW_BYTES_MAX, WINDOWS_MAX};

    const MIB: u64 = 1 << 20;
    const PAGE_BYTES: u64 = PAGE as u64;

    /// Takes pages of a memory, and holds every other one back.
    fn hold_some(w: &mut Window, index: u16, now: u64, some: usize) {
        let memory = w.memory_mut(index).unwrap();
        let pages: Vec<u64> =
            (0..2 * some).map(|_| memory.heap.take(PAGE_BYTES).unwrap()).collect();
        for page in pages.into_iter().step_by(2) {
            w.give_range(index, (page, PAGE_BYTES), Some(now));
        }
    }

    fn held(w: &Window) -> Vec<usize> {
        w.memories().map(|(_, m)| m.held.len()).collect()
    }

    #[test]
    fn the_memory_with_most_ranges_held_back_is_shut_when_a_window_has_too_many() {
        let mut w = Window::new(1, 64 * MIB, true, true);
        for index in [1, 2] {
            w.data.insert(index, Memory::data(64 * MIB, PAGE_BYTES));
        }
        hold_some(&mut w, 0, 5, 100);
        hold_some(&mut w, 1, 7, 150);
        hold_some(&mut w, 2, 9, HELD_MAX - 250);
        assert_eq!(held(&w), [100, 150, HELD_MAX - 250]);
        hold_some(&mut w, 2, 9, 1);
        assert_eq!(held(&w), [100, 0, HELD_MAX - 249], "the longest gives way");
        let shut = |w: &Window| w.memories().map(|(_, m)| m.shut).collect::<Vec<_>>();
        assert_eq!(shut(&w), [None, Some(7 + HOLD_MS), None]);
        let taken = |w: &mut Window, index| {
            w.memory_mut(index).unwrap().take(10, PAGE_BYTES, PAGE_BYTES, false)
        };
        assert!(taken(&mut w, 1).is_none() && taken(&mut w, 2).is_some());
        // One memory alone: it is shut when it has all of them and one more.
        hold_some(&mut w, 0, 11, 400);
        assert_eq!(shut(&w), [Some(11 + HOLD_MS), Some(7 + HOLD_MS), None]);
        assert!(held(&w).iter().sum::<usize>() <= HELD_MAX);
        w.give_held(11 + HOLD_MS);
        assert!(!w.holds_back() && taken(&mut w, 1).is_some());
    }

    #[test]
    fn no_note_of_a_window_is_too_long_for_the_keeper() {
        let mut w = Window::new(u32::MAX, WINDOW_BYTES_MAX, false, false);
        w.vm = Some("n".repeat(NAME_BYTES));
        w.ended = [Some(u32::MAX); CONTROL_CELLS];
        let (bytes, page) = (WINDOW_BYTES_MAX, WINDOW_BYTES_MAX);
        for index in (1..=u16::MAX).rev().take(WINDOWS_MAX) {
            w.data.insert(index, Memory::data(bytes, page));
            let key = [u64::MAX; 2];
            w.further.insert(index, Further { index, key, bytes, page, link: true, here: false });
        }
        // The longest numbers there are, in whichever memories they lie.
        let indices: Vec<u16> = w.memories().map(|(index, _)| index).collect();
        for i in 0..HELD_MAX {
            let memory = w.memory_mut(indices[i % indices.len()]).unwrap();
            memory.held.push((u64::MAX, u64::MAX, u64::MAX));
            memory.shut = Some(u64::MAX);
        }
        w.bound_held();
        assert_eq!(held(&w).iter().sum::<usize>(), HELD_MAX);
        let note = text(&WindowNote::of(&w));
        assert!(note.len() <= NOTE_BYTES, "{} bytes", note.len());
        assert!(note.len() > NOTE_BYTES / 2, "it is the longest: {} bytes", note.len());
    }
}
