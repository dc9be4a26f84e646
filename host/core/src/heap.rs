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
    /// Bytes in all.
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

    proptest! {
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
