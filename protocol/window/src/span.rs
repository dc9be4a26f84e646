//! Bounded ranges of a mapping: the only way to its bytes.

use crate::mapping::{MapError, Mapping};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range does not lie inside its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl core::fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the range lies outside its part of the window")
    }
}
impl std::error::Error for OutOfBounds {}

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Words of a line that bytes are not in: what they are, and how many.
const HEAD_WORDS: usize = 2;

/// One line of a span, for reading: its eight words, whose bounds were checked once.
#[derive(Clone, Copy)]
pub struct ReadLine<'a>(&'a [AtomicU64; LINE_WORDS]);

impl ReadLine<'_> {
    /// A word of the line.
    #[inline(always)]
    pub fn load(self, word: usize, order: Ordering) -> u64 {
        u64::from_le(self.0[word].load(order))
    }

    /// Copies the bytes behind the first two words out, each word once: as many as fill
    /// `to`. Panics if these are more than 48.
    #[inline(always)]
    pub fn read(self, to: &mut [u8]) {
        if !to.is_empty() {
            copy_out(self.0[HEAD_WORDS..].try_into().expect("six words"), to);
        }
    }
}

/// Apart, so that who has nothing to copy keeps its registers.
#[inline(never)]
fn copy_out(words: &[AtomicU64; LINE_WORDS - HEAD_WORDS], to: &mut [u8]) {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
    let (whole, rest) = to.as_chunks_mut::<8>();
    if let Ok(all) = <&mut [[u8; 8]; LINE_WORDS - HEAD_WORDS]>::try_from(&mut *whole) {
        // A loop of a known length is none any more.
        all.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = load(word));
        assert!(rest.is_empty(), "bytes outside their line");
        return;
    }
    assert!(whole.len() < words.len(), "bytes outside their line");
    whole.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = load(word));
    if !rest.is_empty() {
        let last = load(&words[whole.len()]);
        rest.iter_mut().zip(last).for_each(|(byte, one)| *byte = one);
    }
}

#[inline(never)]
fn copy_in(words: &[AtomicU64; LINE_WORDS - HEAD_WORDS], bytes: &[u8]) {
    let store = |word: &AtomicU64, bytes: &[u8; 8]| {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    };
    let (whole, rest) = bytes.as_chunks::<8>();
    if let Ok(all) = <&[[u8; 8]; LINE_WORDS - HEAD_WORDS]>::try_from(whole) {
        words.iter().zip(all).for_each(|(word, bytes)| store(word, bytes));
        assert!(rest.is_empty(), "bytes outside their line");
        return;
    }
    assert!(whole.len() < words.len(), "bytes outside their line");
    words.iter().zip(whole).for_each(|(word, bytes)| store(word, bytes));
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        words[whole.len()].store(u64::to_le(last), Ordering::Relaxed);
    }
}

/// One line of a span, for writing.
#[derive(Clone, Copy)]
pub struct WriteLine<'a>(ReadLine<'a>);

impl WriteLine<'_> {
    /// Stores a word of the line.
    #[inline(always)]
    pub fn store(self, word: usize, value: u64, order: Ordering) {
        self.0.0[word].store(value.to_le(), order);
    }

    /// Copies bytes in behind the first two words; what they leave of their last word
    /// is zero. Panics if they are more than 48.
    #[inline(always)]
    pub fn write(self, bytes: &[u8]) {
        if !bytes.is_empty() {
            copy_in(self.0.0[HEAD_WORDS..].try_into().expect("six words"), bytes);
        }
    }
}

/// A word of shared memory that this side reads often: its bounds were checked once.
#[derive(Clone)]
pub struct ReadWord(ReadSpan);

impl ReadWord {
    /// The word, as it is now.
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> u64 {
        // SAFETY: the span is one whole word of a mapping that it keeps alive, as
        // `ReadSpan::read_word` has checked; all access to words of shared memory is
        // atomic.
        u64::from_le(unsafe { AtomicU64::from_ptr(self.0.ptr.cast()) }.load(order))
    }
}

/// A range of shared memory that this side reads. Cloning it shares it.
#[derive(Clone)]
pub struct ReadSpan {
    map: Arc<Mapping>,
    ptr: *mut u8,
    len: usize,
}

// SAFETY: `ptr` points into `map`, which is Send and Sync and kept alive.
unsafe impl Send for ReadSpan {}
// SAFETY: as above.
unsafe impl Sync for ReadSpan {}

impl ReadSpan {
    pub(crate) fn whole(map: Arc<Mapping>) -> Self {
        let (ptr, len) = (map.base().as_ptr(), map.len());
        ReadSpan { map, ptr, len }
    }

    /// Whether pages of its mapping went away; see [`Mapping::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.map.is_lost()
    }

    /// Bytes in this span.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn range(&self, off: usize, len: usize) -> Result<*mut u8, OutOfBounds> {
        match off.checked_add(len) {
            // SAFETY: off <= off + len <= self.len, so the result is inside
            // (or one past) the mapping that `ptr` points into.
            Some(end) if end <= self.len => Ok(unsafe { self.ptr.add(off) }),
            _ => Err(OutOfBounds),
        }
    }

    /// A part of this span.
    pub fn part(&self, off: usize, len: usize) -> Result<ReadSpan, OutOfBounds> {
        Ok(ReadSpan { ptr: self.range(off, len)?, len, map: self.map.clone() })
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len / 8, "word outside its span");
        // SAFETY: inside the mapping (checked above: (index + 1) * 8 <= len);
        // spans start 8-aligned where words are used (checked below); all
        // access to words of shared memory is atomic, and the memory lives as
        // long as `self.map`.
        unsafe {
            let p = self.ptr.add(index * 8);
            debug_assert!((p as usize).is_multiple_of(8));
            AtomicU64::from_ptr(p.cast())
        }
    }

    /// The 64-bit word at byte `8 * index`. Panics outside the span: indexes
    /// are this side's own, never a peer's.
    #[inline]
    pub fn load(&self, index: usize, order: Ordering) -> u64 {
        u64::from_le(self.word(index).load(order))
    }

    /// The 64-bit word at byte `8 * index`, to be loaded again and again.
    pub fn read_word(&self, index: usize) -> Result<ReadWord, OutOfBounds> {
        let word = self.part(index.checked_mul(8).ok_or(OutOfBounds)?, 8)?;
        match (word.ptr as usize).is_multiple_of(8) {
            true => Ok(ReadWord(word)),
            false => Err(OutOfBounds),
        }
    }

    /// The line that begins at word `index`, which is a multiple of eight. Panics
    /// outside the span, as [`ReadSpan::load`].
    #[inline(always)]
    pub fn line(&self, index: usize) -> ReadLine<'_> {
        let end = index.saturating_mul(8).saturating_add(LINE_WORDS * 8);
        assert!(end <= self.len, "line outside its span");
        // SAFETY: as in `word`: the line ends inside the mapping; an array of atomics is
        // aligned as one of them.
        unsafe {
            let p = self.ptr.add(index * 8);
            debug_assert!((p as usize).is_multiple_of(8));
            ReadLine(&*p.cast())
        }
    }

    /// Asks for the line that holds word `index`, without waiting.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if index.saturating_mul(8) < self.len {
            crate::cpu::prefetch(self.ptr.wrapping_add(index * 8));
        }
    }

    /// Copies bytes out. A peer may write meanwhile: what arrives is some mix
    /// of old and new, private from then on.
    #[inline]
    pub fn read(&self, off: usize, to: &mut [u8]) -> Result<(), OutOfBounds> {
        let from = self.range(off, to.len())?;
        // SAFETY: `from` has `to.len()` bytes in the mapping; `to` is private
        // memory and cannot overlap it. The compiler sees an opaque address,
        // and bytes have no invalid values.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Lets go of the window: private memory takes the place of the whole mapping
    /// that this span is of. See [`Mapping::cut_off`].
    pub fn cut_off(&self, fill: impl FnOnce(&WriteSpan)) -> Result<(), MapError> {
        self.map.cut_off(fill)
    }

    /// Where the span lies in this process. Reading through it is the
    /// caller's unsafe code, and racy by nature.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr
    }
}

/// A range of shared memory that this side writes (and may read).
#[derive(Clone)]
pub struct WriteSpan(ReadSpan);

impl Deref for WriteSpan {
    type Target = ReadSpan;
    #[inline]
    fn deref(&self) -> &ReadSpan {
        &self.0
    }
}

impl WriteSpan {
    pub(crate) fn whole(map: Arc<Mapping>) -> Self {
        WriteSpan(ReadSpan::whole(map))
    }

    /// A part of this span.
    pub fn part(&self, off: usize, len: usize) -> Result<WriteSpan, OutOfBounds> {
        self.0.part(off, len).map(WriteSpan)
    }

    /// The same range for reading only.
    pub fn reader(&self) -> ReadSpan {
        self.0.clone()
    }

    /// Stores a 64-bit word. Panics outside the span, as [`ReadSpan::load`].
    #[inline]
    pub fn store(&self, index: usize, value: u64, order: Ordering) {
        self.word(index).store(value.to_le(), order);
    }

    /// The line that begins at word `index`. As [`ReadSpan::line`].
    #[inline(always)]
    pub fn line(&self, index: usize) -> WriteLine<'_> {
        WriteLine(self.0.line(index))
    }

    /// Stores whole words from word `index` on, each once. Panics outside the span, as [`ReadSpan::load`].
    #[inline(always)]
    pub fn write_words(&self, index: usize, from: &[u8]) {
        let words = from.as_chunks::<8>().0;
        assert!(index.saturating_add(words.len()) <= self.len / 8, "words outside their span");
        for (i, word) in words.iter().enumerate() {
            // SAFETY: as in `word`: the last one ends inside the mapping, as was checked.
            let to = unsafe {
                let p = self.ptr.add((index + i) * 8);
                debug_assert!((p as usize).is_multiple_of(8));
                AtomicU64::from_ptr(p.cast())
            };
            to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// Asks for the line that holds word `index`, to be written, without waiting.
    #[inline(always)]
    pub fn prefetch_write(&self, index: usize) {
        if index.saturating_mul(8) < self.len {
            crate::cpu::prefetch_write(self.ptr.wrapping_add(index * 8));
        }
    }

    /// Adds to a word, returning what it was.
    #[inline]
    pub fn fetch_add(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.word(index).fetch_add(value, order)
    }

    /// Subtracts from a word, returning what it was.
    #[inline]
    pub fn fetch_sub(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.word(index).fetch_sub(value, order)
    }

    /// Exchanges a word if it is `old`; else says what it is.
    #[inline]
    pub fn compare_exchange(&self, index: usize, old: u64, new: u64) -> Result<u64, u64> {
        self.word(index).compare_exchange(
            old.to_le(),
            new.to_le(),
            Ordering::AcqRel,
            Ordering::Acquire,
        )
    }

    /// Copies bytes to `off`.
    #[inline]
    pub fn write(&self, off: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        let to = self.range(off, from.len())?;
        // SAFETY: `to` has `from.len()` bytes in a mapping made for writing;
        // `from` is private memory and cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Copies bytes in that lie at the same place in another span.
    pub fn copy(&self, from: &ReadSpan, off: usize, len: usize) -> Result<(), OutOfBounds> {
        let (from, to) = (from.range(off, len)?, self.range(off, len)?);
        // SAFETY: both ranges have `len` bytes; a span of the same memory would
        // only be copied onto itself, which `copy` allows.
        unsafe { std::ptr::copy(from.cast_const(), to, len) };
        Ok(())
    }

    /// Copies `len` bytes to `off` from place `at` of another span, or of this one; the
    /// two ranges may overlap. Peers may write both meanwhile.
    #[inline]
    pub fn copy_from(
        &self,
        off: usize,
        from: &ReadSpan,
        at: usize,
        len: usize,
    ) -> Result<(), OutOfBounds> {
        let (from, to) = (from.range(at, len)?, self.range(off, len)?);
        // SAFETY: both ranges have `len` bytes in mappings that their spans keep alive, `to` in
        // one made for writing; `copy` allows them to overlap. Bytes have no invalid values.
        unsafe { std::ptr::copy(from.cast_const(), to, len) };
        Ok(())
    }

    /// Copies at most eight bytes to `off` so that who sees them sees what this side wrote
    /// before: where they are an aligned word, by one store.
    #[inline]
    pub fn write_last(&self, off: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        let to = self.range(off, from.len())?;
        let word = <[u8; 8]>::try_from(from).ok().filter(|_| (to as usize).is_multiple_of(8));
        if let Some(word) = word {
            // SAFETY: an aligned word inside a mapping made for writing, which the span keeps
            // alive; all access to words of shared memory is atomic.
            unsafe { AtomicU64::from_ptr(to.cast()) }
                .store(u64::from_ne_bytes(word), Ordering::Release);
            return Ok(());
        }
        std::sync::atomic::fence(Ordering::Release);
        self.write(off, from)
    }

    /// Sets all bytes to zero.
    pub fn zero(&self) {
        // SAFETY: the whole span is inside a mapping made for writing.
        unsafe { std::ptr::write_bytes(self.0.ptr, 0, self.0.len) };
    }

    /// Where the span lies in this process, for a driver or a C caller.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.0.ptr
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, MapError, Mapping, OutOfBounds, memfd};
    use proptest::prelude::*;
    use std::sync::atomic::Ordering::*;

    #[test]
    fn two_mappings_share() {
        let fd = memfd("t", 8192).unwrap();
        let a = Mapping::new(&fd, 0, 8192, Access::ReadWrite).unwrap().write().unwrap();
        let b = Mapping::new(&fd, 4096, 4096, Access::Read).unwrap();
        assert!(b.write().is_none(), "a mapping for reading gives no writer");
        a.store(512, 77, Release);
        assert_eq!(b.read().load(0, Acquire), 77);
        assert_eq!(a.fetch_add(512, 3, Relaxed), 77);
        assert_eq!(a.compare_exchange(512, 1, 2), Err(80));
        a.write(4096 + 100, b"hello").unwrap();
        let mut got = [0; 5];
        b.read().read(100, &mut got).unwrap();
        assert_eq!(&got, b"hello");
    }

    #[test]
    fn bytes_go_from_any_place_to_any_place() {
        let fd = memfd("t", 8192).unwrap();
        let m = Mapping::new(&fd, 0, 8192, Access::ReadWrite).unwrap().write().unwrap();
        let all: Vec<u8> = (0..200).collect();
        m.write(0, &all).unwrap();
        let got = |off, len| {
            let mut got = vec![0; len];
            m.read(off, &mut got).unwrap();
            got
        };
        m.copy_from(4097, &m.reader(), 3, 190).unwrap();
        assert_eq!(got(4097, 190), all[3..193]);
        m.copy_from(1, &m.reader(), 0, 190).unwrap();
        assert_eq!(got(1, 190), all[..190], "overlapping");
        for (off, len) in [(8, 8), (9, 8), (16, 1), (33, 3), (0, 0)] {
            m.zero();
            m.write_last(off, &all[1..=len]).unwrap();
            assert_eq!(got(off, len), all[1..=len]);
            assert_eq!(got(0, off), vec![0; off]);
            assert_eq!(got(off + len, 16), [0; 16]);
        }
        let outside = [
            m.copy_from(8190, &m.reader(), 0, 3),
            m.copy_from(0, &m.reader(), 8190, 3),
            m.copy_from(usize::MAX, &m.reader(), 0, 3),
            m.write_last(8185, &all[..8]),
            m.write_last(usize::MAX, &all[..1]),
        ];
        assert!(outside.iter().all(|r| *r == Err(OutOfBounds)));
    }

    #[test]
    fn a_short_file_is_refused_before_it_can_fault() {
        let fd = memfd("t", 4096).unwrap();
        assert!(matches!(
            Mapping::new(&fd, 0, 8192, Access::Read),
            Err(MapError::Beyond { file: 4096, end: 8192 })
        ));
        assert!(matches!(Mapping::new(&fd, 1, 4096, Access::Read), Err(MapError::Shape)));
        assert!(matches!(Mapping::new(&fd, 0, 0, Access::Read), Err(MapError::Shape)));
        assert!(matches!(
            Mapping::new(&fd, u64::MAX - 4095, 8192, Access::Read),
            Err(MapError::Shape)
        ));
    }

    #[test]
    fn a_memfd_window_cannot_be_resized() {
        let fd = memfd("t", 4096).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 8192).is_err());
    }

    #[test]
    fn a_word_is_checked_when_it_is_made() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        let last = m.read_word(511).unwrap();
        m.store(511, 7, Release);
        assert_eq!(last.load(Acquire), 7);
        assert!(m.read_word(512).is_err() && m.read_word(usize::MAX).is_err());
        assert!(m.part(4, 16).unwrap().read_word(0).is_err(), "words are aligned");
        assert!(m.part(0, 12).unwrap().read_word(1).is_err(), "a part of a word is none");
    }

    #[test]
    #[should_panic(expected = "word outside its span")]
    fn a_word_outside_panics() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        m.part(0, 15).unwrap().load(1, Relaxed);
    }

    #[test]
    fn lines_are_written_and_read_word_by_word() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        let bytes: Vec<u8> = (1..=48).collect();
        for len in 0..=48 {
            m.zero();
            m.line(504).write(&bytes[..len]);
            let mut got = [0xff; 48];
            m.read(4032 + 16, &mut got).unwrap();
            assert_eq!(&got[..len], &bytes[..len]);
            assert!(got[len..].iter().all(|&b| b == 0), "{len}");
            let mut got = [0xff; 48];
            m.reader().line(504).read(&mut got[..len]);
            assert_eq!((&got[..len], got[len..].iter().all(|&b| b == 0xff)), (&bytes[..len], true));
        }
        m.line(0).store(7, 9, Release);
        assert_eq!((m.load(7, Acquire), m.reader().line(0).load(7, Acquire)), (9, 9));
    }

    #[test]
    #[should_panic(expected = "line outside its span")]
    fn a_line_that_ends_outside_panics() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        m.part(0, 120).unwrap().line(8);
    }

    #[test]
    #[should_panic(expected = "line outside its span")]
    fn a_line_beyond_all_numbers_panics() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap();
        m.read().line(usize::MAX - 2);
    }

    #[test]
    #[should_panic(expected = "bytes outside their line")]
    fn bytes_beyond_a_line_panic() {
        let fd = memfd("t", 4096).unwrap();
        let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
        m.line(0).write(&[0; 49]);
    }

    proptest! {
        #[test]
        fn ranges_are_inside_or_refused(start in 0usize..5000, part in 0usize..5000, off: usize, len in 0usize..6000) {
            let fd = memfd("t", 4096).unwrap();
            let m = Mapping::new(&fd, 0, 4096, Access::ReadWrite).unwrap().write().unwrap();
            match m.part(start, part) {
                Err(OutOfBounds) => prop_assert!(start + part > 4096),
                Ok(p) => {
                    prop_assert!(start + part <= 4096);
                    let off = off % 6000;
                    let ok = p.write(off, &vec![1; len]).is_ok();
                    prop_assert_eq!(ok, off + len <= part);
                    prop_assert_eq!(p.write(usize::MAX, &[1]), Err(OutOfBounds));
                }
            }
        }
    }
}
