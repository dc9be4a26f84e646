//! A program: its doorbell bits, and those of its queue pairs that are looked at.

use crate::attributes::Address;
use crate::limits::RUNG_A_TURN;
use vfun_queue::Memory;
use vfun_verbs::bells::NicBells;
use vfun_verbs::limits::QPS_OF_PROGRAM;

pub(crate) struct Program<M> {
    pub address: Address,
    pub bells: NicBells<M>,
    /// The queue pair of each bit.
    bits: Vec<Option<u32>>,
    /// Queue pairs that are looked at, and whose turn it is.
    pub active: Vec<u32>,
    pub turn: usize,
    /// Looks that found no work, since one did or the list changed.
    pub fruitless: usize,
    /// The word of doorbell bits that was looked at last, and how many still are to be.
    word: usize,
    unheard: usize,
    /// Bits from here on may have queue pairs whose completion queue has failed.
    pub failing: usize,
    /// Of queue pairs that have ended.
    pub counts: ProgramCounts,
}

/// What a program's entries did; each number wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Entries done, with or without a completion.
    pub done: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Accesses to peers that no key allowed: unknown keys, other domains, other places, other
    /// rights. The program may be guessing.
    pub wrong_keys: u64,
    /// Datagrams and unreliable messages that nobody took.
    pub dropped: u64,
}

impl ProgramCounts {
    /// Adds those of another one.
    pub fn add(&mut self, other: &ProgramCounts) {
        let own = [
            (&mut self.done, other.done),
            (&mut self.failed, other.failed),
            (&mut self.bytes, other.bytes),
            (&mut self.wrong_keys, other.wrong_keys),
            (&mut self.dropped, other.dropped),
        ];
        own.into_iter().for_each(|(own, other)| *own = own.wrapping_add(other));
    }
}

impl<M: Memory> Program<M> {
    pub const fn new(address: Address, bells: NicBells<M>) -> Self {
        let counts = ProgramCounts { done: 0, failed: 0, bytes: 0, wrong_keys: 0, dropped: 0 };
        Program {
            address,
            bells,
            bits: Vec::new(),
            active: Vec::new(),
            turn: 0,
            fruitless: 0,
            word: 0,
            unheard: 0,
            failing: usize::MAX,
            counts,
        }
    }

    /// Its queue pairs.
    pub fn pairs(&self) -> impl Iterator<Item = u32> {
        self.bits.iter().copied().flatten()
    }

    /// A bit for a queue pair.
    pub fn take_bit(&mut self, qp: u32) -> Option<usize> {
        let free = self.bits.iter().position(Option::is_none);
        let bit = free.unwrap_or(self.bits.len());
        if bit == self.bits.len() {
            if bit >= QPS_OF_PROGRAM {
                return None;
            }
            self.bits.push(None);
            // One word more comes into the round that was begun, and takes nobody's turn.
            if self.unheard > 0 && bit.is_multiple_of(64) {
                self.unheard = bit / 64 + 1;
            }
        }
        self.bits[bit] = Some(qp);
        // So that no queue pair needs memory when its turn comes.
        self.active.reserve(self.bits.len());
        // An earlier queue pair may have left it changed.
        self.bells.leave(bit);
        Some(bit)
    }

    pub fn give_bit(&mut self, bit: usize) {
        self.bits[bit] = None;
    }

    /// Whether there may be bits that differ from what the NIC said.
    #[inline]
    pub fn rang(&mut self) -> bool {
        if self.bells.rang() {
            self.unheard = self.bits.len().div_ceil(64);
        }
        self.unheard > 0
    }

    /// Puts queue pairs into `found` whose bits differ. Whether there may be more: a word's turn
    /// comes again after all others had theirs, however often the program rings.
    pub fn rung(&mut self, found: &mut Vec<u32>) -> bool {
        while self.unheard > 0 && found.len() < RUNG_A_TURN {
            self.word = if (self.word + 1) * 64 < self.bits.len() { self.word + 1 } else { 0 };
            self.unheard -= 1;
            self.bells.each(self.word..self.word + 1, |bit| {
                found.extend(self.bits.get(bit).copied().flatten());
            });
        }
        self.unheard > 0
    }

    /// The next queue pair whose turn it is.
    pub fn next(&mut self) -> Option<u32> {
        if self.turn >= self.active.len() {
            self.turn = 0;
        }
        let qp = self.active.get(self.turn).copied();
        self.turn += 1;
        self.fruitless += 1;
        qp
    }

    /// The queue pair at this place is not looked at any more. Says which one has the place now.
    pub fn quiet(&mut self, place: usize) -> Option<u32> {
        self.active.swap_remove(place);
        // The order has changed: all are looked at once more.
        self.fruitless = 0;
        // The one that came from the end has its turn next, if it had none yet.
        self.turn = self.turn.min(place);
        self.active.get(place).copied()
    }

    #[inline]
    pub const fn is_failing(&self) -> bool {
        self.failing != usize::MAX
    }

    /// The next queue pairs that may have to fail, at most so many bits. None: no more.
    pub fn next_failing(&mut self, most: usize) -> Option<Vec<u32>> {
        if self.failing >= self.bits.len() {
            self.failing = usize::MAX;
            return None;
        }
        let from = self.failing;
        self.failing = self.bits.len().min(from + most);
        Some(self.bits[from..self.failing].iter().copied().flatten().collect())
    }
}
