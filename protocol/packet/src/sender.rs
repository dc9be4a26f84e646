//! The end that puts frames into a ring.

use crate::control::Control;
use crate::layout::header::{FULL, HAS_OUT, HEAD, KNOWS, LONG, SENT, SENT_BYTES, TAIL, WAKE};
use crate::layout::{
    ALIGN, CONTROL_BYTES, KIND_FRAME, KIND_NOTED, KIND_SKIP, NOTE_BYTES, RECORD_HEAD, record,
};
use crate::note::Note;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::{Ordering, fence};

/// Why a frame was not put into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// There is no room: the receiver has not taken what was sent before.
    Full,
    /// It is empty, or longer than [`Ring::longest`].
    Length,
}

/// What was done since the side was made; each number wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames, and their bytes.
    pub frames: u64,
    pub bytes: u64,
    /// Frames that had no room.
    pub full: u64,
    /// Frames that were too long or empty.
    pub too_long: u64,
}

/// The sending end of a side. `M`'s own side is that side, and its peer's side is the
/// one that the receiver writes.
pub struct Sender<M> {
    mem: M,
    ring: Ring,
    /// Where the next record begins; what was published; what was looked at for ringing.
    head: u64,
    told: u64,
    rung: u64,
    /// What the receiver is known to have taken.
    tail: u64,
    counts: Sent,
}

impl<M: Memory> Sender<M> {
    /// Takes a side up: where an earlier sender left it, or at 0 if it is zeros. The first
    /// [`Sender::must_ring`] concerns all that waits: call it at once, because the earlier
    /// sender may have died before it rang.
    pub fn new(mem: M, ring: Ring) -> Self {
        let own = |word| mem.load_own(word, Ordering::Relaxed);
        let head = own(HEAD) & !(ALIGN - 1);
        let counts = Sent {
            frames: own(SENT),
            bytes: own(SENT_BYTES),
            full: own(FULL),
            too_long: own(LONG),
        };
        // This end knows no links, though an earlier one may have (R-LNK-11).
        mem.store(HAS_OUT, 0, Ordering::Relaxed);
        mem.store(KNOWS, 0, Ordering::Release);
        let lap = head.wrapping_sub(ring.bytes());
        Sender { ring, head, told: head, rung: lap, tail: lap, counts, mem }
    }

    /// What was done.
    pub fn counts(&self) -> Sent {
        self.counts
    }

    /// Its memory.
    pub fn memory(&self) -> &M {
        &self.mem
    }

    /// Copies a frame into the ring. Nobody sees it before [`Sender::publish`].
    ///
    /// # Errors
    /// [`NotSent`], which is counted.
    #[inline(always)]
    pub fn put(&mut self, frame: &[u8]) -> Result<(), NotSent> {
        let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let at = self.place(KIND_FRAME, bytes)?;
        self.fill(at, frame);
        Ok(())
    }

    /// The same with a note before it, for a receiver that takes such frames (R-PKT-9). It may be longer than
    /// that receiver says, if what it is cut into is not.
    ///
    /// # Errors
    /// [`NotSent`], which is counted.
    pub fn put_noted(&mut self, note: &Note, frame: &[u8]) -> Result<(), NotSent> {
        let bytes = u32::try_from(frame.len()).ok().filter(|bytes| *bytes != 0);
        let all = bytes.map_or(0, |bytes| bytes.saturating_add(NOTE_BYTES));
        let at = self.place(KIND_NOTED, all)?;
        self.counts.bytes = self.counts.bytes.wrapping_sub(NOTE_BYTES.into());
        self.mem.write(at, &note.to_bytes());
        self.fill(at + NOTE_BYTES as usize / 8, frame);
        Ok(())
    }

    /// Room for a record of this kind, which is counted; the word behind its head.
    #[inline(always)]
    fn place(&mut self, kind: u64, bytes: u32) -> Result<usize, NotSent> {
        if bytes == 0 || bytes > self.ring.longest() {
            self.counts.too_long = self.counts.too_long.wrapping_add(1);
            return Err(NotSent::Length);
        }
        let (left, record) = (self.ring.left(self.head), record(bytes));
        let skipped = if record > left { left } else { 0 };
        if !self.fits(skipped + record) {
            self.counts.full = self.counts.full.wrapping_add(1);
            return Err(NotSent::Full);
        }
        if skipped != 0 {
            self.begin(KIND_SKIP, skipped - RECORD_HEAD);
            self.head = self.head.wrapping_add(skipped);
        }
        let at = self.begin(kind, bytes.into()) + 1;
        self.head = self.head.wrapping_add(record);
        self.counts.frames = self.counts.frames.wrapping_add(1);
        self.counts.bytes = self.counts.bytes.wrapping_add(bytes.into());
        Ok(at)
    }

    /// Copies a frame to a word of the ring.
    #[inline(always)]
    fn fill(&self, at: usize, frame: &[u8]) {
        let (words, rest) = frame.as_chunks::<8>();
        self.mem.write(at, words.as_flattened());
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mem.write(at + words.len(), &last);
        }
    }

    /// Shows the receiver all that was put, with one store, and the counts with it. Says
    /// whether there was anything new.
    pub fn publish(&mut self) -> bool {
        let counts = &self.counts;
        for (word, count) in [
            (SENT, counts.frames),
            (SENT_BYTES, counts.bytes),
            (FULL, counts.full),
            (LONG, counts.too_long),
        ] {
            self.mem.store(word, count, Ordering::Relaxed);
        }
        // Also if it is not new: a receiver that lost its way finds it again.
        self.mem.store(HEAD, self.head, Ordering::Release);
        core::mem::replace(&mut self.told, self.head) != self.head
    }

    /// Whether the receiver must be rung for all that was published since the last look.
    pub fn must_ring(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let wake = self.mem.load(WAKE, Ordering::Relaxed);
        let before = core::mem::replace(&mut self.rung, self.told);
        self.told.wrapping_sub(wake).wrapping_sub(1) < self.told.wrapping_sub(before)
    }

    /// Puts a record of a direct link in; false: there is no room. It has room wherever a
    /// frame has.
    pub(crate) fn put_control(&mut self, control: Control) -> bool {
        if !self.fits(ALIGN) {
            return false;
        }
        let at = self.begin(control.kind as u64, CONTROL_BYTES);
        self.mem.store(at + 1, control.epoch, Ordering::Relaxed);
        self.mem.store(at + 2, control.link, Ordering::Relaxed);
        self.head = self.head.wrapping_add(ALIGN);
        true
    }

    /// Counts a frame that has no room.
    pub(crate) fn count_full(&mut self) {
        self.counts.full = self.counts.full.wrapping_add(1);
    }

    /// Whether something was published that was not looked at for ringing.
    pub(crate) fn is_unrung(&self) -> bool {
        self.rung != self.told
    }

    /// Writes a record's head; the word where it lies.
    fn begin(&self, kind: u64, bytes: u64) -> usize {
        let at = self.ring.word(self.head);
        self.mem.store(at, kind << 32 | bytes, Ordering::Relaxed);
        at
    }

    /// Whether so many bytes more fit, as far as is known, or as the receiver says now.
    fn fits(&mut self, bytes: u64) -> bool {
        let end = self.head.wrapping_add(bytes);
        if end.wrapping_sub(self.tail) <= self.ring.bytes() {
            return true;
        }
        let found = self.mem.load(TAIL, Ordering::Acquire);
        // R-PKT-6: more than there is cannot have been taken, nor can less than before.
        if found.wrapping_sub(self.tail) > self.head.wrapping_sub(self.tail) {
            return false;
        }
        self.tail = found;
        end.wrapping_sub(found) <= self.ring.bytes()
    }
}
