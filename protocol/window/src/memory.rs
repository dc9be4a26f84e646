//! What the two sides of a channel or of a queue look like to the code above
//! this crate: words and bytes.

use crate::span::{LINE_WORDS, OutOfBounds, ReadSpan, WriteSpan};
use crate::sync::{Ordering, fence};

const WORD: usize = size_of::<u64>();

/// Shared memory as one side sees it: `mine` are the pages it writes, `theirs`
/// the pages it reads. Word indexes count 64-bit words from a side's start
/// and are always this side's own; an index outside panics.
///
/// What is done with a whole line has a function of its own, so that real memory
/// checks the line's place once.
pub trait Memory {
    /// Loads a word that the peer writes.
    fn load(&self, index: usize, order: Ordering) -> u64;
    /// Stores a word of one's own.
    fn store(&self, index: usize, value: u64, order: Ordering);
    /// Loads a word of one's own (which a hostile guest may have changed).
    fn load_own(&self, index: usize, order: Ordering) -> u64;
    /// Adds to a word of one's own.
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64;
    /// Subtracts from a word of one's own.
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64;
    /// Asks for a line that the peer writes, without waiting.
    fn prefetch(&self, _index: usize) {}
    /// Asks for a line of one's own, to be written, without waiting.
    fn prefetch_own(&self, _index: usize) {}

    /// Copies whole words that the peer writes into private memory, each once
    /// and in any order. What the peer writes meanwhile is seen or not.
    #[inline]
    fn read(&self, index: usize, to: &mut [u8]) {
        for (i, bytes) in to.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
            *bytes = self.load(index + i, Ordering::Relaxed).to_le_bytes();
        }
    }

    /// Copies whole words from private memory into one's own, in any order. A
    /// release store after it publishes them.
    #[inline]
    fn write(&self, index: usize, from: &[u8]) {
        for (i, bytes) in from.as_chunks::<WORD>().0.iter().enumerate() {
            self.store(index + i, u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// The same of a few words, each stored by itself: what was put together from parts goes from registers to the queue. A
    /// processor that loads more at once than was stored at once waits for it.
    #[inline(always)]
    fn write_words(&self, index: usize, from: &[u8]) {
        self.write(index, from);
    }

    /// Publishes one's own line from word `at` on: at most 48 `bytes` behind its first
    /// two words, then the second word, and last the first, with release (R-CEL-1, R-CEL-4).
    fn publish(&self, at: usize, first: u64, second: u64, bytes: &[u8]) {
        for (i, part) in bytes.chunks(8).enumerate() {
            let word = part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.store(at + 2 + i, word, Ordering::Relaxed);
        }
        self.store(at + 1, second, Ordering::Relaxed);
        self.store(at, first, Ordering::Release);
    }

    /// The same with `len` bytes that stand in one's own memory from word `from` on,
    /// in whole words: what is beyond them means nothing.
    fn publish_own(&self, at: usize, first: u64, second: u64, from: usize, len: usize) {
        for i in 0..len.div_ceil(8) {
            let word = self.load_own(from + i, Ordering::Relaxed);
            self.store(at + 2 + i, word, Ordering::Relaxed);
        }
        self.publish(at, first, second, &[]);
    }

    /// The first two words of the peer's line from word `at` on, if the lower half of the
    /// first is a number that is `wanted`. Acquires: what is read after it is as new.
    fn head(&self, at: usize, wanted: impl FnOnce(u32) -> bool) -> Option<[u64; 2]> {
        let first = self.load(at, Ordering::Acquire);
        wanted(first as u32).then(|| [first, self.load(at + 1, Ordering::Relaxed)])
    }

    /// Copies the bytes behind the first two words of the peer's line, each word once:
    /// as many as fill `to`, at most 48.
    fn fetch(&self, at: usize, to: &mut [u8]) {
        for (i, part) in to.chunks_mut(8).enumerate() {
            let word = self.load(at + 2 + i, Ordering::Relaxed).to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// As [`Memory::fetch`]: the first word of the line, as it is after that.
    fn fetch_again(&self, at: usize, to: &mut [u8]) -> u64 {
        self.fetch(at, to);
        fence(Ordering::Acquire);
        self.load(at, Ordering::Relaxed)
    }

    /// Stores words of one's own, one behind the other, all within a line.
    fn store_all<const N: usize>(&self, at: usize, words: [u64; N]) {
        for (i, word) in words.into_iter().enumerate() {
            self.store(at + i, word, Ordering::Relaxed);
        }
    }
}

/// A channel or a queue in a real window.
#[derive(Clone)]
pub struct WindowMemory {
    mine: WriteSpan,
    theirs: ReadSpan,
}

impl WindowMemory {
    /// From the two sides of a channel, which must be equally long.
    pub fn new(mine: WriteSpan, theirs: ReadSpan) -> Result<Self, OutOfBounds> {
        if mine.len() != theirs.len() {
            return Err(OutOfBounds);
        }
        Ok(Self::of_sides(mine, theirs))
    }
    /// From two sides of any length.
    pub fn of_sides(mine: WriteSpan, theirs: ReadSpan) -> Self {
        WindowMemory { mine, theirs }
    }
    /// The pages this side writes.
    pub fn mine(&self) -> &WriteSpan {
        &self.mine
    }
    /// The pages the peer writes.
    pub fn theirs(&self) -> &ReadSpan {
        &self.theirs
    }
}

impl Memory for WindowMemory {
    #[inline]
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.theirs.load(index, order)
    }
    #[inline]
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.mine.store(index, value, order);
    }
    #[inline]
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.mine.load(index, order)
    }
    #[inline]
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine.fetch_add(index, value, order)
    }
    #[inline]
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.mine.fetch_sub(index, value, order)
    }
    #[inline]
    fn prefetch(&self, index: usize) {
        self.theirs.prefetch(index);
    }
    #[inline(always)]
    fn prefetch_own(&self, index: usize) {
        self.mine.prefetch_write(index);
    }
    #[inline(always)]
    fn read(&self, index: usize, to: &mut [u8]) {
        self.theirs.read(WORD * index, to).expect("an index of one's own lies inside");
    }
    #[inline(always)]
    fn write(&self, index: usize, from: &[u8]) {
        self.mine.write(WORD * index, from).expect("an index of one's own lies inside");
    }
    #[inline(always)]
    fn write_words(&self, index: usize, from: &[u8]) {
        self.mine.write_words(index, from);
    }
    #[inline(always)]
    fn publish(&self, at: usize, first: u64, second: u64, bytes: &[u8]) {
        let line = self.mine.line(at);
        line.write(bytes);
        line.store(1, second, Ordering::Relaxed);
        line.store(0, first, Ordering::Release);
    }
    #[inline(always)]
    fn publish_own(&self, at: usize, first: u64, second: u64, from: usize, len: usize) {
        let line = self.mine.line(at);
        if len > 0 {
            let from = ReadSpan::line(&self.mine, from);
            for i in 0..len.div_ceil(8).min(LINE_WORDS - 2) {
                line.store(2 + i, from.load(i, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        line.store(1, second, Ordering::Relaxed);
        line.store(0, first, Ordering::Release);
    }
    #[inline(always)]
    fn head(&self, at: usize, wanted: impl FnOnce(u32) -> bool) -> Option<[u64; 2]> {
        let line = self.theirs.line(at);
        let first = line.load(0, Ordering::Acquire);
        wanted(first as u32).then(|| [first, line.load(1, Ordering::Relaxed)])
    }
    #[inline(always)]
    fn fetch(&self, at: usize, to: &mut [u8]) {
        self.theirs.line(at).read(to);
    }
    #[inline(always)]
    fn fetch_again(&self, at: usize, to: &mut [u8]) -> u64 {
        let line = self.theirs.line(at);
        line.read(to);
        fence(Ordering::Acquire);
        line.load(0, Ordering::Relaxed)
    }
    #[inline(always)]
    fn store_all<const N: usize>(&self, at: usize, words: [u64; N]) {
        let line = self.mine.line(at);
        for (i, word) in words.into_iter().enumerate() {
            line.store(i, word, Ordering::Relaxed);
        }
    }
}
