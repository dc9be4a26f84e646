//! Which queue pairs of a program have work, and how the NIC sleeps.
//!
//! Two pages, each with one writer. A queue pair has one bit in both. Where the bits differ,
//! the NIC looks at the queue itself; where they are equal, it does not, and the next post
//! changes the program's bit. So a thousand quiet queue pairs cost the NIC nothing.

use crate::limits::QPS_OF_PROGRAM;
use crate::work::WorkProducer;
use core::ops::Range;
use vfun_queue::Memory;
use vfun_window::sync::{Ordering, fence};
use vfun_wire::PAGE;

/// Bytes of each of the two pages.
pub const BYTES: usize = PAGE;
/// In the program's page: counts up with each bit that changes.
pub const RINGS: usize = 0;
/// In the NIC's page: not 0 while it sleeps.
pub const SLEEPS: usize = 0;
/// In both: the first of the bits, 64 a word.
pub const BITS: usize = 8;
/// Words of bits.
pub const WORDS: usize = QPS_OF_PROGRAM / 64;

const _: () = assert!((BITS + WORDS) * 8 <= BYTES);

fn place(qp: usize) -> (usize, u64) {
    assert!(qp < QPS_OF_PROGRAM, "a queue pair has a bit");
    (BITS + qp / 64, 1 << (qp % 64))
}

/// The program's side; its threads share it. Calls for one queue pair exclude each other.
pub struct ProgramBells<M>(M);

impl<M: Memory> ProgramBells<M> {
    /// Over the program's page and the NIC's.
    pub const fn new(mem: M) -> Self {
        ProgramBells(mem)
    }

    /// After a post: makes sure that the NIC looks. Whether its doorbell must be rung.
    #[inline]
    pub fn posted(&self, qp: usize) -> bool {
        // R-VRB-4: either the NIC sees the entry, or this sees what the NIC said before.
        fence(Ordering::SeqCst);
        let (word, bit) = place(qp);
        if self.0.load(word, Ordering::Relaxed) & bit
            == self.0.load_own(word, Ordering::Relaxed) & bit
        {
            self.change(word, bit);
        }
        self.0.load(SLEEPS, Ordering::Relaxed) != 0
    }

    /// After a receive was posted: the NIC looks at receives by itself when a message comes,
    /// unless it flushes them. Whether its doorbell must be rung.
    #[inline]
    pub fn posted_receive<N: Memory>(&self, qp: usize, queue: &WorkProducer<N>) -> bool {
        // R-VRB-6: either the NIC sees the entry, or this sees that it flushes.
        fence(Ordering::SeqCst);
        queue.is_flushed() && self.posted(qp)
    }

    #[cold]
    fn change(&self, word: usize, bit: u64) {
        match self.0.load_own(word, Ordering::Relaxed) & bit {
            0 => self.0.add_own(word, bit, Ordering::Relaxed),
            _ => self.0.sub_own(word, bit, Ordering::Relaxed),
        };
        self.0.add_own(RINGS, 1, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// The NIC's side, one thread's. What it has said is private, never read back.
pub struct NicBells<M> {
    mem: M,
    rings: u64,
    said: [u64; WORDS],
}

impl<M: Memory> NicBells<M> {
    /// Over the NIC's page and the program's, zeroed.
    pub const fn new(mem: M) -> Self {
        NicBells { mem, rings: 0, said: [0; WORDS] }
    }

    /// Whether a bit may have changed since the last look: one load.
    #[inline]
    pub fn rang(&mut self) -> bool {
        let rings = self.mem.load(RINGS, Ordering::Acquire);
        let rang = rings != self.rings;
        self.rings = rings;
        rang
    }

    /// Calls `found` with each queue pair of these words (64 in each) whose bits differ.
    pub fn each(&self, words: Range<usize>, mut found: impl FnMut(usize)) {
        for word in words.start..words.end.min(WORDS) {
            let theirs = self.mem.load(BITS + word, Ordering::Relaxed);
            let mut differ = theirs ^ self.said[word];
            while differ != 0 {
                found(word * 64 + differ.trailing_zeros() as usize);
                differ &= differ - 1;
            }
        }
    }

    /// Says that this queue pair is not looked at any more until its bit changes, and fences.
    /// Look at its queue once more after this: what is found there may come without a change.
    pub fn leave(&mut self, qp: usize) {
        let (word, bit) = place(qp);
        let theirs = self.mem.load(word, Ordering::Relaxed) & bit;
        let said = &mut self.said[word - BITS];
        *said = *said & !bit | theirs;
        self.mem.store(word, *said, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Says that the NIC sleeps, and fences. Look at everything once more, then sleep.
    pub fn declare_sleep(&self) {
        self.mem.store(SLEEPS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes it back.
    pub fn declare_awake(&self) {
        self.mem.store(SLEEPS, 0, Ordering::SeqCst);
    }
}
