//! The end that entries come from.

use crate::broken::{Broken, Reason};
use crate::entry::{Entry, Places};
use crate::header::{Header, common, sleeps};
use crate::layout::{header, stamp};
use crate::shape::{Shape, ShapeError};
use crate::waiting::End;
use vfun_window::sync::Ordering;
use vfun_window::{Memory, ReadSpan, WindowMemory, WriteSpan};

/// The end that entries of `N` bytes come from; one thread's. What it has
/// produced is private, never read back from the window.
pub struct Producer<M, const N: usize> {
    header: Header<M>,
    places: Places<N>,
    produced: u64,
    /// What the consumer is known to have consumed.
    consumed: u64,
}

impl<const N: usize> Producer<WindowMemory, N> {
    /// Over a real window; see [`Producer::new`].
    ///
    /// # Errors
    /// [`ShapeError`]: no such shape, or a side is too small for it.
    pub fn over(producer: WriteSpan, consumer: ReadSpan, depth: u32) -> Result<Self, ShapeError> {
        Shape::new(N as u32, depth)?.check(producer.len(), consumer.len())?;
        Self::new(WindowMemory::of_sides(producer, consumer), depth)
    }
}

impl<M: Memory, const N: usize> Producer<M, N> {
    /// Takes a queue up: where an earlier producer left it, or at 0 where it is
    /// freshly laid out (zeroed). Entries that the earlier one had not
    /// published yet are gone (R-QUE-9). A broken queue is never taken up, but
    /// made again.
    ///
    /// # Errors
    /// [`ShapeError`]: no such shape.
    pub fn new(mem: M, depth: u32) -> Result<Self, ShapeError> {
        let places = Places::new(Shape::new(N as u32, depth)?);
        let header = Header::new(mem);
        let mut end = Producer { produced: header.noted(), header, places, consumed: 0 };
        end.find_published();
        end.withdraw_unpublished();
        end.consumed = end.produced.saturating_sub(places.depth());
        end.header.note(end.produced, Ordering::Relaxed);
        end.declare_awake();
        Ok(end)
    }

    fn own_stamp(&self, position: u64) -> u32 {
        self.header.mem.load_own(self.places.word(position), Ordering::Relaxed) as u32
    }

    /// A batch may be published and not noted.
    fn find_published(&mut self) {
        for _ in 0..self.places.depth() {
            if self.own_stamp(self.produced) != stamp(self.produced) {
                return;
            }
            self.produced = self.produced.wrapping_add(1);
        }
    }

    /// A batch may be written but for its first entry: it must not become valid
    /// with the next one that is put there.
    fn withdraw_unpublished(&self) {
        for ahead in 1..self.places.depth() {
            let position = self.produced.wrapping_add(ahead);
            if self.own_stamp(position) == stamp(position) {
                let before = u64::from(self.places.stamp_before(position));
                self.header.mem.store(self.places.word(position), before, Ordering::Relaxed);
            }
        }
    }

    common!();

    /// Entries produced since the queue was laid out.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Puts as many of `entries` as there is room for into the queue, in their
    /// order, and publishes all of them at once: with one store. Says how many;
    /// 0 means that the queue is full. Whether the consumer sleeps is for
    /// [`End::must_ring`] to say, once for all of them.
    ///
    /// # Errors
    /// [`Broken`]: from now on the queue takes nothing.
    #[inline(always)]
    pub fn produce(&mut self, entries: &[Entry<N>]) -> Result<usize, Broken> {
        let room = self.room(entries.len() as u64)?;
        let entries = &entries[..entries.len().min(room as usize)];
        let Some((first, rest)) = entries.split_first() else { return Ok(0) };
        for (i, entry) in (1..).zip(rest) {
            let position = self.produced.wrapping_add(i);
            entry.write(&self.header.mem, self.places.word(position), position, Ordering::Relaxed);
        }
        // R-QUE-3: the first word of the first entry is stored last, with release.
        let at = self.places.word(self.produced);
        first.write(&self.header.mem, at, self.produced, Ordering::Release);
        self.produced = self.produced.wrapping_add(entries.len() as u64);
        self.header.note(self.produced, Ordering::Relaxed);
        Ok(entries.len())
    }

    /// Asks for the line of an entry that is to be produced later, so many after the next one, without waiting.
    #[inline(always)]
    pub fn prefetch(&self, ahead: u64) {
        self.header.mem.prefetch_own(self.places.word(self.produced.wrapping_add(ahead)));
    }

    /// Entries that fit. The consumer's count is only loaded where fewer than
    /// `wanted` are known to fit.
    ///
    /// # Errors
    /// [`Broken`]: the consumer's count makes no sense.
    #[inline(always)]
    pub fn room(&mut self, wanted: u64) -> Result<u64, Broken> {
        self.header.serves()?;
        let room = self.places.depth() - self.produced.wrapping_sub(self.consumed);
        if room >= wanted { Ok(room) } else { self.look_for_room() }
    }

    #[inline(never)]
    fn look_for_room(&mut self) -> Result<u64, Broken> {
        // R-QUE-5: what the consumer has copied before it counted is copied.
        let found = self.header.mem.load(header::POSITION, Ordering::Acquire);
        let (known, produced) = (self.consumed, self.produced);
        if found.wrapping_sub(known) > produced.wrapping_sub(known) {
            let broken = Broken::Count { known, produced, found };
            return Err(self.header.break_off(broken, Reason::BadCount));
        }
        self.consumed = found;
        Ok(self.places.depth() - produced.wrapping_sub(found))
    }
}

/// It waits for room.
impl<M: Memory, const N: usize> End for Producer<M, N> {
    #[inline]
    fn ready(&mut self, hard: bool) -> Result<bool, Broken> {
        if self.room(1)? > 0 {
            return Ok(true);
        }
        match self.header.ended() {
            Some(broken) if hard => Err(self.header.end(broken)),
            _ => Ok(false),
        }
    }

    sleeps!();
}
