//! One memory of a window: which of its ranges are given out, and what is held back for
//! a moment. A window has at least one, number 0, in which its control cells and channels
//! lie; buffers may lie in others.

use super::heap::{Fit, Heap};
use vfun_wire::PAGE;
use vfun_wire::header::{FURTHER_HEAP_OFF, HEAP_OFF};

/// How long pages of a grant that the host takes away are held back before
/// they are given out again: a guest whose processor takes no interrupt for as
/// long has other troubles.
pub const HOLD_MS: u64 = 1_000;
/// Ranges of a window, all of its memories together, that are held back one by one. They
/// are noted with it, and a note has a longest length: beyond it nothing is given out of
/// the memory that has most of them until all of these are due.
pub const HELD_MAX: usize = 256;

/// One memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pub heap: Heap,
    /// Bytes of a page of the file behind it: what lies in one of them lies side by side
    /// in the host's memory.
    pub page: u64,
    /// Ranges taken from programs that may not know yet: until when (ms), where,
    /// and how many bytes. By place; none touches the next.
    pub held: Vec<(u64, u64, u64)>,
    /// Nothing is given out until then, ms.
    pub shut: Option<u64>,
}

impl Memory {
    /// The memory of a window of so many bytes in which its control cells lie.
    pub fn control(bytes: u64) -> Self {
        Memory::of(Heap::new(HEAP_OFF as u64, bytes), PAGE as u64)
    }

    /// Another memory of a window, of so many bytes.
    pub fn data(bytes: u64, page: u64) -> Self {
        Memory::of(Heap::new(FURTHER_HEAP_OFF as u64, bytes), page)
    }

    fn of(heap: Heap, page: u64) -> Self {
        Memory { heap, page, held: vec![], shut: None }
    }

    /// Its bytes, those before the heap included.
    pub fn bytes(&self) -> u64 {
        self.heap.end()
    }

    /// Whether nothing of it is given out now.
    pub fn is_shut(&self, now: u64) -> bool {
        self.shut.is_some_and(|until| now < until)
    }

    /// Takes room for a buffer of whole pages; `None` if there is none now.
    pub fn take(&mut self, now: u64, bytes: u64, align: u64, contiguous: bool) -> Option<u64> {
        let within = contiguous.then_some(self.page);
        (!self.is_shut(now)).then(|| self.heap.take_fitting(&Fit { bytes, align, within }))?
    }

    /// Bytes given out.
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
        self.held.insert(at, (until, off, bytes));
    }

    /// Gives nothing out until all that is held back is due, so that no range of it has to
    /// be known.
    pub fn shut(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.shut = held.iter().map(|h| h.0).chain(self.shut).max();
        held.into_iter().for_each(|(_, off, bytes)| self.heap.give(off, bytes));
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
    fn neighbours_are_held_back_as_one() {
        let mut m = Memory::control(64 * MIB);
        let pages: Vec<u64> = (0..4).map(|_| m.heap.take(4096).unwrap()).collect();
        for (now, page) in [(0, 1), (5, 2), (7, 0)] {
            m.hold_back(now, pages[page], 4096);
        }
        assert_eq!(m.held, [(7 + HOLD_MS, pages[0], 3 * 4096)]);
        assert!(!m.held_is_due(HOLD_MS + 6) && m.held_is_due(HOLD_MS + 7));
        m.give_held(7 + HOLD_MS);
        assert!(!m.holds_back());
        m.heap.give(pages[3], 4096);
        assert_eq!((m.heap.longest(), m.given_out()), (m.heap.total(), 0));
    }
}
