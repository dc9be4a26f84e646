//! One window: its memories, and who has which line.

use super::further::Further;
use super::grant::Shape;
use super::memory::Memory;
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
        for (off, bytes) in place.ranges() {
            self.control.give(off, bytes, held);
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
    }
}
