//! The free parts of one side of a program's channel, in whole pages.

use crate::generated::vfun_nic_place;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where free parts begin, and how long they are, bytes. No two of them touch.
struct Arena {
    free: BTreeMap<u64, u64>,
}

impl Arena {
    fn new(all: Range<u64>) -> Self {
        let bytes = all.end.saturating_sub(all.start);
        Arena { free: (bytes > 0).then_some((all.start, bytes)).into_iter().collect() }
    }

    /// The first part that is long enough.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&at, &len) = self.free.iter().find(|(_, len)| **len >= bytes)?;
        self.free.remove(&at);
        if len > bytes {
            self.free.insert(at + bytes, len - bytes);
        }
        Some(at)
    }

    /// What was taken. Of no bytes: nothing.
    fn give(&mut self, mut at: u64, mut bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(after) = self.free.remove(&(at + bytes)) {
            bytes += after;
        }
        if let Some((&before, &len)) = self.free.range(..at).next_back()
            && before + len == at
        {
            (at, bytes) = (before, bytes + len);
        }
        self.free.insert(at, bytes);
    }
}

/// Both sides of a channel.
pub struct Arenas {
    program: Arena,
    nic: Arena,
}

impl Arenas {
    /// With these bytes of the program's side and of the NIC's.
    pub fn new(program: Range<u64>, nic: Range<u64>) -> Self {
        Arenas { program: Arena::new(program), nic: Arena::new(nic) }
    }

    /// A part of each, so many bytes long, if there is room for both.
    pub fn take(&mut self, program_bytes: u64, nic_bytes: u64) -> Option<vfun_nic_place> {
        let program_at = self.program.take(program_bytes)?;
        match self.nic.take(nic_bytes) {
            Some(nic_at) => Some(vfun_nic_place { program_at, program_bytes, nic_at, nic_bytes }),
            None => {
                self.program.give(program_at, program_bytes);
                None
            }
        }
    }

    /// Parts that are used no longer.
    pub fn give(&mut self, place: &vfun_nic_place) {
        self.program.give(place.program_at, place.program_bytes);
        self.nic.give(place.nic_at, place.nic_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_overlap_and_what_is_given_back_is_one_again() {
        let (mut arena, mut taken) = (Arena::new(8192..8192 + (64 << 12)), vec![]);
        let mut seed = 7u64;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = (seed >> 40) as usize;
            if draw.is_multiple_of(2) && !taken.is_empty() {
                let (at, bytes) = taken.swap_remove(draw / 2 % taken.len());
                arena.give(at, bytes);
                continue;
            }
            let bytes = (1 + draw as u64 / 2 % 5) << 12;
            let Some(at) = arena.take(bytes) else { continue };
            let apart = |(other, len): &(u64, u64)| at + bytes <= *other || other + len <= at;
            assert!(taken.iter().all(apart), "{at} {bytes} in {taken:?}");
            assert!(at >= 8192 && at + bytes <= 8192 + (64 << 12));
            taken.push((at, bytes));
        }
        taken.into_iter().for_each(|(at, bytes)| arena.give(at, bytes));
        assert_eq!(arena.free.into_iter().collect::<Vec<_>>(), [(8192, 64 << 12)]);
    }

    #[test]
    fn a_side_without_room_takes_nothing_of_the_other() {
        let mut both = Arenas::new(4096..4096 * 9, 4096..4096 * 2);
        let one = both.take(4096, 4096).unwrap();
        assert!(both.take(4096, 4096).is_none());
        both.give(&one);
        assert!(both.take(8 << 12, 4096).is_some());
        assert!(Arenas::new(0..0, 0..0).take(4096, 4096).is_none());
    }
}
