//! Random numbers that replay: the same seed, the same attack.

/// xorshift64*: fast, and good enough to scribble with.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed; every seed, zero too, gives a sequence of its own.
    pub fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random((z ^ (z >> 31)) | 1)
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A word that somebody might have forgotten to check: an edge, a small
    /// number, or anything.
    pub fn lie(&mut self) -> u64 {
        match self.below(4) {
            0 => self.of(EDGES),
            1 => self.below(70),
            2 => self.below(70) | self.below(5) << 32 | self.below(3) << 40,
            _ => self.word(),
        }
    }
}

/// Values at the ends of what fields hold.
pub const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    47,
    48,
    49,
    63,
    64,
    65,
    0x7f,
    0x80,
    0xff,
    0x100,
    0xfff,
    0x1000,
    0x1001,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0xf_ffff,
    0x10_0000,
    0x10_0001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_f000,
    0xffff_ffff_ffff_ffff,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_seeds_differ() {
        let first = |seed| {
            let mut r = Random::new(seed);
            [(); 8].map(|()| r.word())
        };
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert_ne!(first(0), first(1));
    }
}
