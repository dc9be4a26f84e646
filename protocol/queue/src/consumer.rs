//! The end that takes entries.

use crate::broken::{Broken, Reason};
use crate::entry::{Entry, Places};
use crate::header::{Header, common, sleeps};
use crate::layout::stamp;
use crate::shape::{Shape, ShapeError};
use crate::waiting::End;
use vfun_window::sync::Ordering;
use vfun_window::{Memory, ReadSpan, WindowMemory, WriteSpan};

/// The end that takes entries of `N` bytes; one thread's. What it has consumed
/// is private, never read back from the window.
pub struct Consumer<M, const N: usize> {
    header: Header<M>,
    places: Places<N>,
    consumed: u64,
}

impl<const N: usize> Consumer<WindowMemory, N> {
    /// Over a real window; see [`Consumer::new`].
    ///
    /// # Errors
    /// [`ShapeError`]: no such shape, or a side is too small for it.
    pub fn over(consumer: WriteSpan, producer: ReadSpan, depth: u32) -> Result<Self, ShapeError> {
        Shape::new(N as u32, depth)?.check(producer.len(), consumer.len())?;
        Self::new(WindowMemory::of_sides(consumer, producer), depth)
    }
}

impl<M: Memory, const N: usize> Consumer<M, N> {
    /// Takes a queue up: where an earlier consumer left it, or at 0 where it is
    /// freshly laid out (zeroed). Entries that the earlier one had copied and
    /// not counted come again (R-QUE-9). A broken queue is never taken up, but
    /// made again.
    ///
    /// # Errors
    /// [`ShapeError`]: no such shape.
    pub fn new(mem: M, depth: u32) -> Result<Self, ShapeError> {
        let places = Places::new(Shape::new(N as u32, depth)?);
        let header = Header::new(mem);
        let end = Consumer { consumed: header.noted(), header, places };
        end.declare_awake();
        Ok(end)
    }

    common!();

    /// Entries consumed since the queue was laid out.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Copies the next entries, as many as are there and as `to` holds, and
    /// makes room for as many: with one store. Says how many; 0 means that there
    /// is none. A producer that waits for room is rung if [`End::must_ring`].
    ///
    /// # Errors
    /// [`Broken`]: the entry whose turn it is makes no sense. Those before it
    /// were given.
    #[inline]
    pub fn consume(&mut self, to: &mut [Entry<N>]) -> Result<usize, Broken> {
        self.header.serves()?;
        let mut count = 0;
        for entry in to {
            let position = self.consumed.wrapping_add(count as u64);
            let at = self.places.word(position);
            match entry.read(&self.header.mem, at, position) {
                Ok(()) => count += 1,
                // What is wrong here is found at the next look, at the head.
                Err(_) if count > 0 => break,
                Err(word) => return self.nothing(word as u32).map(|()| 0),
            }
        }
        self.consumed = self.consumed.wrapping_add(count as u64);
        // R-QUE-5: the count is stored after the entries were copied.
        self.header.note(self.consumed, Ordering::Release);
        Ok(count)
    }

    /// Copies the next entry without counting it, if there is one. Until [`Consumer::count`], a
    /// producer that keeps the rules writes neither its place nor what it keeps beside it.
    ///
    /// # Errors
    /// [`Broken`]: the entry whose turn it is makes no sense.
    #[inline(always)]
    pub fn copy_next(&mut self) -> Result<Option<Entry<N>>, Broken> {
        self.header.serves()?;
        let at = self.places.word(self.consumed);
        match Entry::taken(&self.header.mem, at, self.consumed) {
            Ok(entry) => Ok(Some(entry)),
            Err(word) => self.nothing(word as u32).map(|()| None),
        }
    }

    /// Asks for the line of an entry that is to be taken later, so many after the next one, without waiting.
    #[inline(always)]
    pub fn prefetch(&self, ahead: u64) {
        self.header.mem.prefetch(self.places.word(self.consumed.wrapping_add(ahead)));
    }

    /// Counts the entry that [`Consumer::copy_next`] copied.
    #[inline]
    pub fn count(&mut self) {
        self.consumed = self.consumed.wrapping_add(1);
        self.header.note(self.consumed, Ordering::Release);
    }

    /// The entry whose turn it is bears another number: it is not there yet, or
    /// the producer broke the protocol.
    #[inline(always)]
    fn nothing(&mut self, found: u32) -> Result<(), Broken> {
        if found == self.places.stamp_before(self.consumed) {
            return Ok(());
        }
        let broken = Broken::Stamp { position: self.consumed, found };
        Err(self.header.break_off(broken, Reason::BadStamp))
    }

    #[inline(always)]
    fn is_there(&mut self) -> Result<bool, Broken> {
        self.header.serves()?;
        let at = self.places.word(self.consumed);
        let found = self.header.mem.load(at, Ordering::Acquire) as u32;
        if found == stamp(self.consumed) {
            return Ok(true);
        }
        self.nothing(found).map(|()| false)
    }
}

/// It waits for an entry.
impl<M: Memory, const N: usize> End for Consumer<M, N> {
    #[inline(always)]
    fn ready(&mut self, hard: bool) -> Result<bool, Broken> {
        if self.is_there()? {
            return Ok(true);
        }
        match self.header.ended() {
            // What was published before the end counts.
            Some(broken) if hard => match self.is_there()? {
                true => Ok(true),
                false => Err(self.header.end(broken)),
            },
            _ => Ok(false),
        }
    }

    sleeps!();
}
