//! The end that takes frames out of a ring.

use crate::control::{Control, ControlKind};
use crate::layout::header::{
    BAD, HAS_IN, HEAD, KNOWS, REFUSED, TAIL, TAKEN, TAKEN_BYTES, TAKES, WAKE,
};
use crate::layout::{
    AHEAD, ALIGN, KIND_FRAME, KIND_NOTED, KIND_SKIP, NOTE_BYTES, RECORD_HEAD, record,
};
use crate::note::Note;
use crate::ring::Ring;
use vfun_window::Memory;
use vfun_window::sync::{Ordering, fence};

/// What was done since the side was made; each number wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Frames, and their bytes.
    pub frames: u64,
    pub bytes: u64,
    /// Frames for which there was no place here.
    pub refused: u64,
    /// How often what came made no sense.
    pub bad: u64,
}

/// The receiving end of a ring. `M`'s own side is that of the receiver, and its peer's
/// side is the one that has the ring.
pub struct Receiver<M> {
    mem: M,
    ring: Ring,
    /// Where the next record begins, and what was given back.
    tail: u64,
    told: u64,
    /// What the sender is known to have published.
    head: u64,
    counts: Taken,
}

/// A record, as it was read once.
enum Record {
    Frame(u32),
    /// With a note, whose bytes are among those.
    Noted(u32),
    Skip,
    /// Its head: a record of a direct link, or nonsense.
    Other(u64),
}

impl<M: Memory> Receiver<M> {
    /// Takes a ring up where an earlier receiver left it.
    pub fn new(mem: M, ring: Ring) -> Self {
        let own = |word| mem.load_own(word, Ordering::Relaxed);
        let tail = own(TAIL) & !(ALIGN - 1);
        let counts = Taken {
            frames: own(TAKEN),
            bytes: own(TAKEN_BYTES),
            refused: own(REFUSED),
            bad: own(BAD),
        };
        mem.store(TAKES, 0, Ordering::Relaxed);
        // This end knows no links, though an earlier one may have (R-LNK-11).
        mem.store(HAS_IN, 0, Ordering::Relaxed);
        mem.store(KNOWS, 0, Ordering::Release);
        Receiver { ring, tail, told: tail, head: tail, counts, mem }
    }

    /// What was done.
    pub fn counts(&self) -> Taken {
        self.counts
    }

    /// Its memory.
    pub fn memory(&self) -> &M {
        &self.mem
    }

    /// Whether there is anything, as far as is known, or as the sender says now.
    #[inline]
    pub fn is_there(&mut self) -> bool {
        if self.head != self.tail {
            return true;
        }
        let found = self.mem.load(HEAD, Ordering::Acquire);
        if found == self.tail {
            return false;
        }
        self.head = found & !(ALIGN - 1);
        if found != self.head || found.wrapping_sub(self.tail) > self.ring.bytes() {
            self.bad();
            return false;
        }
        true
    }

    /// Copies the next frame into `to`, and says its bytes; `None`: there is none. A frame
    /// that is longer than `to` is refused: it is counted, and `Some(0)`. Bound the calls of a
    /// burst, not the frames: a peer may send such frames without end.
    #[inline]
    pub fn next(&mut self, to: &mut [u8]) -> Option<usize> {
        self.next_or(to, None, |this, _| {
            this.bad();
            None
        })
    }

    /// The same for a party that takes frames with notes and has said so in the word `TAKES`: the frame's note,
    /// too, which says nothing of a frame that has none.
    #[inline]
    pub fn next_noted(&mut self, to: &mut [u8], note: &mut Note) -> Option<usize> {
        *note = Note::default();
        self.next_or(to, Some(note), |this, _| {
            this.bad();
            None
        })
    }

    /// The same; at a record of a direct link, what `turn` makes of its kind.
    #[inline(always)]
    fn next_or(
        &mut self,
        to: &mut [u8],
        note: Option<&mut Note>,
        turn: impl FnOnce(&mut Self, ControlKind) -> Option<usize>,
    ) -> Option<usize> {
        for has_skipped in [false, true] {
            if !self.is_there() {
                return None;
            }
            match self.record() {
                Record::Frame(bytes) => return Some(self.frame(bytes, 0, to)),
                Record::Noted(bytes) => {
                    let Some(note) = note else { break };
                    *note = self.note();
                    return Some(self.frame(bytes - NOTE_BYTES, NOTE_BYTES, to));
                }
                Record::Skip if !has_skipped => {
                    self.tail = self.tail.wrapping_add(self.ring.left(self.tail));
                }
                Record::Skip => break,
                Record::Other(word) => match ControlKind::of_head(word) {
                    Some(kind) => return turn(self, kind),
                    None => break,
                },
            }
        }
        self.bad();
        None
    }

    /// The same; a record of a direct link is taken, and is there beside `Some(0)`.
    #[inline(always)]
    pub(crate) fn next_or_control(&mut self, to: &mut [u8]) -> (Option<usize>, Option<Control>) {
        let mut control = None;
        let found = self.next_or(to, None, |this, kind| {
            control = Some(this.control(kind));
            Some(0)
        });
        (found, control)
    }

    /// Gives the sender the room of all that came, and shows the counts.
    pub fn take(&mut self) {
        self.take_to(self.tail);
    }

    /// The same without the record of a direct link that came last: who takes this ring up
    /// finds it again.
    pub(crate) fn take_before_control(&mut self) {
        self.take_to(self.tail.wrapping_sub(ALIGN));
    }

    fn take_to(&mut self, tail: u64) {
        let counts = &self.counts;
        for (word, count) in [
            (TAKEN, counts.frames),
            (TAKEN_BYTES, counts.bytes),
            (REFUSED, counts.refused),
            (BAD, counts.bad),
        ] {
            self.mem.store(word, count, Ordering::Relaxed);
        }
        if tail != self.told {
            self.mem.store(TAIL, tail, Ordering::Release);
        }
        self.told = tail;
    }

    /// Whether all that was there when the sender's position was `until` is taken.
    pub(crate) fn has_passed(&self, until: u64) -> bool {
        self.tail.wrapping_sub(until) < 1 << 63
    }

    /// Reads once more what the sender has published, also if not all of it is taken; its
    /// position.
    pub(crate) fn look_again(&mut self) -> u64 {
        let found = self.mem.load(HEAD, Ordering::Acquire);
        let is_sound = found.is_multiple_of(ALIGN)
            && found.wrapping_sub(self.tail) <= self.ring.bytes()
            && self.head.wrapping_sub(self.tail) <= found.wrapping_sub(self.tail);
        if is_sound {
            self.head = found;
        } else {
            self.count_bad();
        }
        self.head
    }

    /// What came makes no sense; nothing is passed over.
    pub(crate) fn count_bad(&mut self) {
        self.counts.bad = self.counts.bad.wrapping_add(1);
    }

    /// Asks to be rung for the next frame. Look once more after it ([`Receiver::is_there`]),
    /// then sleep. It is asked once: a receiver that is awake is not rung.
    pub fn declare_sleep(&self) {
        self.mem.store(WAKE, self.tail, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn record(&self) -> Record {
        let (left, known) = (self.ring.left(self.tail), self.head.wrapping_sub(self.tail));
        let there = known.min(left);
        // Where the next record begins is known from this one alone, so no processor reads ahead
        // by itself. Only what is published: the sender needs the lines behind it.
        if there > AHEAD + ALIGN {
            self.mem.prefetch(self.ring.word(self.tail.wrapping_add(AHEAD)));
            self.mem.prefetch(self.ring.word(self.tail.wrapping_add(AHEAD + ALIGN)));
        }
        let word = self.mem.load(self.ring.word(self.tail), Ordering::Relaxed);
        let (kind, bytes) = (word >> 32, word as u32);
        match kind {
            KIND_SKIP if there == left && u64::from(bytes) == left - RECORD_HEAD => Record::Skip,
            KIND_FRAME if bytes != 0 && bytes <= self.ring.longest() && record(bytes) <= there => {
                Record::Frame(bytes)
            }
            KIND_NOTED
                if bytes > NOTE_BYTES && bytes <= self.ring.longest() && record(bytes) <= there =>
            {
                Record::Noted(bytes)
            }
            _ => Record::Other(word),
        }
    }

    /// Takes the record of a direct link, which is of this kind.
    fn control(&mut self, kind: ControlKind) -> Control {
        let at = self.ring.word(self.tail);
        self.tail = self.tail.wrapping_add(ALIGN);
        let word = |n| self.mem.load(at + n, Ordering::Relaxed);
        Control { kind, epoch: word(1), link: word(2) }
    }

    /// The note of the frame that comes next, which has one.
    fn note(&self) -> Note {
        let mut bytes = [0; NOTE_BYTES as usize];
        self.mem.read(self.ring.word(self.tail) + 1, &mut bytes);
        Note::of_bytes(&bytes)
    }

    /// Takes a frame of so many bytes, which so many others are before.
    #[inline(always)]
    fn frame(&mut self, bytes: u32, before: u32, to: &mut [u8]) -> usize {
        let at = self.ring.word(self.tail) + 1 + before as usize / 8;
        self.tail = self.tail.wrapping_add(record(before + bytes));
        let Some(to) = to.get_mut(..bytes as usize) else {
            self.counts.refused = self.counts.refused.wrapping_add(1);
            return 0;
        };
        self.counts.frames = self.counts.frames.wrapping_add(1);
        self.counts.bytes = self.counts.bytes.wrapping_add(bytes.into());
        let (words, rest) = to.as_chunks_mut::<8>();
        let after = at + words.len();
        self.mem.read(at, words.as_flattened_mut());
        if !rest.is_empty() {
            let last = self.mem.load(after, Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
        bytes as usize
    }

    /// What came makes no sense: all of it is passed over, and counted once (R-PKT-5).
    fn bad(&mut self) {
        self.count_bad();
        self.tail = self.head;
    }
}
