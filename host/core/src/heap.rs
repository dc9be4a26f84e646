//! Which ranges of a window are given out. Pure: numbers only.

use std::collections::BTreeMap;
use vfun_wire::PAGE;

/// First-fit allocator of whole pages between two offsets.
#[derive(Clone, Debug)]
pub struct Heap {
    start: u64,
    end: u64,
    /// Free ranges: offset to length. Never adjacent, never empty.
    free: BTreeMap<u64, u64>,
}

/// Room that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Bytes, a multiple of a page.
    pub bytes: u64,
    /// What its offset is a multiple of: a power of two, at least a page.
    pub align: u64,
    /// It is to lie in one piece of so many bytes, a power of two, counted from offset 0.
    pub within: Option<u64>,
}

impl Fit {
    /// The first offset from `off` on where it may begin.
    fn first(&self, off: u64) -> Option<u64> {
        let at = off.checked_next_multiple_of(self.align)?;
        let Some(piece) = self.within else { return Some(at) };
        if self.bytes > piece {
            return None;
        }
        if at % piece + self.bytes <= piece {
            return Some(at);
        }
        at.checked_next_multiple_of(piece.max(self.align))
    }
}

impl Heap {
    /// All of `start..end`, free. Both are multiples of a page.
    pub fn new(start: u64, end: u64) -> Self {
        let free =
            if start < end { BTreeMap::from([(start, end - start)]) } else { BTreeMap::new() };
        Heap { start, end, free }
    }

    /// Takes `bytes` (rounded up to pages); `None` if no range is that long.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let bytes = vfun_wire::page_up(bytes)?.max(PAGE as u64);
        let (&off, &len) = self.free.iter().find(|(_, len)| **len >= bytes)?;
        self.free.remove(&off);
        if len > bytes {
            self.free.insert(off + bytes, len - bytes);
        }
        Some(off)
    }

    /// Takes room for `fit`; `None` if there is no such room.
    pub fn take_fitting(&mut self, fit: &Fit) -> Option<u64> {
        let at = self.free.iter().find_map(|(&off, &len)| {
            let at = fit.first(off)?;
            (at.checked_add(fit.bytes)? <= off + len).then_some(at)
        })?;
        self.take_at(at, fit.bytes).then_some(at)
    }

    /// Takes exactly this range; false if not all of it is free.
    pub fn take_at(&mut self, off: u64, bytes: u64) -> bool {
        let Some(bytes) = vfun_wire::page_up(bytes).map(|b| b.max(PAGE as u64)) else {
            return false;
        };
        let Some(end) = off.checked_add(bytes) else { return false };
        let Some((&from, &len)) = self.free.range(..=off).next_back() else { return false };
        if end > from + len {
            return false;
        }
        self.free.remove(&from);
        if off > from {
            self.free.insert(from, off - from);
        }
        if from + len > end {
            self.free.insert(end, from + len - end);
        }
        true
    }

    /// Takes whatever of this range is free: where, and how many bytes, by place.
    pub fn take_free(&mut self, off: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = off.saturating_add(bytes);
        let free: Vec<(u64, u64)> = self
            .free
            .range(..end)
            .map(|(&from, &len)| (from.max(off), (from + len).min(end)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| (from, to - from))
            .collect();
        free.into_iter().filter(|&(from, len)| self.take_at(from, len)).collect()
    }

    /// Gives a range back that was taken with the same `bytes`.
    pub fn give(&mut self, off: u64, bytes: u64) {
        let mut len = vfun_wire::page_up(bytes).expect("it was taken").max(PAGE as u64);
        let mut off = off;
        assert!(off >= self.start && off + len <= self.end, "given back outside the heap");
        if let Some((&before, &blen)) = self.free.range(..off).next_back() {
            assert!(before + blen <= off, "given back twice");
            if before + blen == off {
                self.free.remove(&before);
                off = before;
                len += blen;
            }
        }
        if let Some((&after, &alen)) = self.free.range(off + 1..).next() {
            assert!(off + len <= after, "given back twice");
            if off + len == after {
                self.free.remove(&after);
                len += alen;
            }
        }
        assert!(self.free.insert(off, len).is_none(), "given back twice");
    }

    /// Bytes not given out.
    pub fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }
    /// First offset that it may give out.
    pub fn start(&self) -> u64 {
        self.start
    }
    /// Offset after the last that it may give out.
    pub fn end(&self) -> u64 {
        self.end
    }
    /// Bytes between the two, given out or not.
    pub fn total(&self) -> u64 {
        self.end - self.start
    }
    /// The longest range that can be taken.
    pub fn longest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_a_range_what_is_free_is_taken() {
        let mut heap = Heap::new(4096, 4096 * 11);
        assert!(heap.take_at(4096 * 3, 4096) && heap.take_at(4096 * 6, 8192));
        assert_eq!(heap.take_free(4096 * 2, 4096 * 5), [(4096 * 2, 4096), (4096 * 4, 8192)]);
        assert_eq!(heap.take_free(4096 * 2, 4096 * 5), []);
        assert_eq!(heap.take_free(0, u64::MAX), [(4096, 4096), (4096 * 8, 4096 * 3)]);
        assert_eq!(heap.free_bytes(), 0);
    }

    #[test]
    fn what_is_to_fit_lies_at_its_alignment_and_in_one_piece() {
        const MIB: u64 = 1 << 20;
        let mut heap = Heap::new(4096, 16 * MIB);
        let fit = |bytes, align, within| Fit { bytes, align, within };
        assert_eq!(heap.take_fitting(&fit(4096, 2 * MIB, None)), Some(2 * MIB));
        assert_eq!(heap.take_fitting(&fit(8192, 4096, Some(4096))), None, "in no piece");
        // 2 MiB in one piece of 2 MiB, and then what would lie across two.
        assert_eq!(heap.take_fitting(&fit(2 * MIB, 4096, Some(2 * MIB))), Some(4 * MIB));
        assert!(heap.take_at(4096, 2 * MIB - 8192));
        assert_eq!(heap.take_fitting(&fit(8192, 4096, Some(2 * MIB))), Some(2 * MIB + 4096));
        assert_eq!(heap.take_fitting(&fit(16 * MIB, 4096, None)), None);
        assert_eq!(heap.take_fitting(&fit(u64::MAX - 4095, 4096, None)), None);
    }

    proptest! {
        /// Whatever is taken is free before, aligned, and in one piece if it is to be.
        #[test]
        fn takes_what_fits(asks in proptest::collection::vec((1u64..40, 0u32..6, any::<bool>()), 1..60)) {
            let mut heap = Heap::new(4096, 4096 * 300);
            let mut held: Vec<(u64, u64)> = vec![];
            for (pages, shift, contiguous) in asks {
                let (bytes, align, piece) = (pages * 4096, 4096u64 << shift, 4096 * 16);
                let fit = Fit { bytes, align, within: contiguous.then_some(piece) };
                let Some(off) = heap.take_fitting(&fit) else { continue };
                prop_assert!(off >= 4096 && off + bytes <= 4096 * 300 && off % align == 0);
                prop_assert!(!contiguous || off / piece == (off + bytes - 1) / piece);
                prop_assert!(held.iter().all(|(o, b)| off + bytes <= *o || o + b <= off));
                held.push((off, bytes));
            }
            held.into_iter().for_each(|(off, bytes)| heap.give(off, bytes));
            prop_assert_eq!(heap.longest(), heap.total());
        }

        /// Ranges never overlap, and giving all back makes the heap whole.
        #[test]
        fn takes_and_gives(ops in proptest::collection::vec((any::<bool>(), 1u64..40_000, any::<usize>()), 1..200)) {
            let mut heap = Heap::new(4096, 4096 * 200);
            let mut held: Vec<(u64, u64)> = vec![];
            for (take, bytes, pick) in ops {
                if take {
                    if let Some(off) = heap.take(bytes) {
                        let end = off + bytes.next_multiple_of(4096);
                        prop_assert!(off >= 4096 && end <= 4096 * 200 && off % 4096 == 0);
                        for (o, b) in &held {
                            prop_assert!(end <= *o || off >= o + b.next_multiple_of(4096));
                        }
                        held.push((off, bytes));
                    } else {
                        prop_assert!(heap.longest() < bytes);
                    }
                } else if !held.is_empty() {
                    let (off, bytes) = held.swap_remove(pick % held.len());
                    heap.give(off, bytes);
                }
            }
            for (off, bytes) in held {
                heap.give(off, bytes);
            }
            prop_assert_eq!(heap.longest(), heap.total());
        }
    }
}
