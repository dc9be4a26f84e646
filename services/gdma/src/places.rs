//! Where buffers lie in a pool: first fit over its holes.
//!
//! An allocation looks at the holes in order of their place, of which there are
//! at most one more than buffers; the size of the buffer does not matter. Of
//! holes that are too small a pool may be full early, as with any first fit;
//! neighbours become one hole when they are freed.

use std::collections::BTreeMap;

/// The holes of a pool: from where, and how many bytes.
#[derive(Debug)]
pub struct Places(BTreeMap<u64, u64>);

impl Places {
    /// A pool that is one hole.
    pub fn new(bytes: u64) -> Self {
        Places(BTreeMap::from([(0, bytes)]))
    }

    /// Takes `bytes` from the first hole that has them.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &hole) = self.0.iter().find(|(_, hole)| **hole >= bytes)?;
        self.0.remove(&at);
        if hole > bytes {
            self.0.insert(at + bytes, hole - bytes);
        }
        Some(at)
    }

    /// Gives back what `take` gave.
    pub fn give_back(&mut self, mut at: u64, mut bytes: u64) {
        if let Some(after) = self.0.remove(&(at + bytes)) {
            bytes += after;
        }
        if let Some((&before, &hole)) = self.0.range(..at).next_back()
            && before + hole == at
        {
            (at, bytes) = (before, bytes + hole);
        }
        self.0.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_taken_in_order_and_become_one_again() {
        let mut places = Places::new(100);
        let all: Vec<_> = (0..4).map(|_| places.take(25).expect("room")).collect();
        assert_eq!(all, [0, 25, 50, 75]);
        assert_eq!(places.take(1), None);
        places.give_back(25, 25);
        places.give_back(75, 25);
        assert_eq!(places.take(26), None, "two holes of 25");
        places.give_back(50, 25);
        assert_eq!(places.take(75), Some(25));
        places.give_back(0, 25);
        places.give_back(25, 75);
        assert_eq!(places.take(100), Some(0));
    }
}
