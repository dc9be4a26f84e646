//! The service's side of a channel: find the next request, answer it.

use crate::memory::Memory;
use crate::sync::{Ordering, fence};
use vfun_wire::Status;
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, FLAGS, HANDED, Word0, Word1, in_header, line_off, out_header,
};
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::status::BreakReason;

/// Looks at the expected cell between two looks elsewhere. Cells are posted
/// in order but for threads that were interrupted between claim and post;
/// what they left behind is found by the sweep, which starts at the cell after
/// the expected one. Cells held by open calls are passed over at once.
const LOOKS_PER_SWEEP: u32 = 32;

/// What the server knows of a cell. Private: what the window says of the past
/// is not believed.
#[derive(Clone, Copy)]
struct Taken {
    /// The last sequence number taken.
    seq: u32,
    /// Taken and not answered.
    open: bool,
}

/// A request, read once and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which cell.
    pub cell: usize,
    /// Its sequence number.
    pub seq: u32,
    /// What to do.
    pub command: Command,
    /// Bytes of arguments: at most 48, or at most the data space.
    pub len: u32,
    /// The arguments are in the cell's data space.
    pub in_space: bool,
    /// Arguments in line; the first `len` bytes count.
    pub inline: [u8; INLINE_BYTES],
}

/// The peer broke the protocol in a way that leaves nothing to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which cell.
    pub cell: usize,
    /// The number that was due: the next one, or the last one while that call is unanswered.
    pub expected: u32,
    /// The number found.
    pub found: u32,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "cell {} holds sequence number {}, where {} or the one before it was due",
            self.cell, self.found, self.expected
        )
    }
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing new at this look.
    Nothing,
    /// A request to serve. (Malformed ones are answered on the way and not shown.)
    Call(Request),
    /// The channel is broken from now on; nothing is served.
    Broken(Violation),
}

/// The service's side of a channel; one thread's.
pub struct Server<M> {
    mem: M,
    cell_bytes: u32,
    mask: u32,
    taken: Box<[Taken]>,
    head: u32,
    /// How far beyond `head` the sweep has looked since something was found.
    sweep: u32,
    looks: u32,
    refused: bool,
    broken: Option<Violation>,
    calls: u64,
    errors: u64,
    bytes_in: u64,
    bytes_out: u64,
}

#[inline]
fn line_word(cell: u32) -> usize {
    line_off(cell as usize) / 8
}

impl<M: Memory> Server<M> {
    /// Takes up a channel. What its own lines say was answered is answered;
    /// what was posted and not answered will be served. The caller (the
    /// service loop) has made sure that no call was left half done.
    pub fn new(mem: M, depth: u16, cell_bytes: u32) -> Self {
        assert!(depth.is_power_of_two());
        let answered = |c| Word0::unpack(mem.load_own(line_word(c), Ordering::Relaxed)).seq;
        let taken: Box<[Taken]> =
            (0..u32::from(depth)).map(|c| Taken { seq: answered(c), open: false }).collect();
        let own = |i| mem.load_own(i, Ordering::Relaxed);
        let own_head = own(in_header::NEXT) as u32;
        Server {
            calls: own(in_header::CALLS),
            errors: own(in_header::ERRORS),
            bytes_in: own(in_header::BYTES_IN),
            bytes_out: own(in_header::BYTES_OUT),
            mem,
            cell_bytes,
            mask: u32::from(depth) - 1,
            taken,
            // Calls that were posted in turn are taken in turn across a change
            // of services.
            head: own_head & (u32::from(depth) - 1),
            sweep: 0,
            looks: 0,
            refused: false,
            broken: None,
        }
    }

    /// The memory underneath.
    pub fn memory(&self) -> &M {
        &self.mem
    }

    /// Looks for the next request. Nothing found may mean that malformed
    /// requests were answered on the way: see [`Server::refused`].
    #[inline]
    #[allow(clippy::should_implement_trait)] // it never ends, and Nothing is no end
    pub fn next(&mut self) -> Next {
        if let Some(v) = self.broken {
            return Next::Broken(v);
        }
        let cell = self.head;
        match self.look(cell) {
            Next::Nothing => {}
            found => {
                self.advance(cell);
                self.mem.prefetch(line_word(self.head));
                return found;
            }
        }
        if self.taken[cell as usize].open {
            // Its answer may be hours away, and callers pass it over too.
            self.advance(cell);
            return Next::Nothing;
        }
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            return Next::Nothing;
        }
        self.sweep = (self.sweep + 1) & self.mask;
        self.look_at((self.head + self.sweep) & self.mask)
    }

    #[inline]
    fn advance(&mut self, cell: u32) {
        self.head = (cell + 1) & self.mask;
        self.sweep = 0;
    }

    /// Looks at every cell once: before sleeping, and after waking. See
    /// [`Server::refused`] before sleeping on `Nothing`.
    pub fn next_anywhere(&mut self) -> Next {
        // A malformed request on the way moves the head; the round must not skip for it.
        let start = self.head;
        for i in 0..=self.mask {
            match self.look_at((start + i) & self.mask) {
                Next::Nothing => {}
                found => return found,
            }
        }
        Next::Nothing
    }

    fn look_at(&mut self, cell: u32) -> Next {
        if let Some(v) = self.broken {
            return Next::Broken(v);
        }
        let found = self.look(cell);
        if found != Next::Nothing {
            self.advance(cell);
        }
        found
    }

    #[inline(always)]
    fn look(&mut self, cell: u32) -> Next {
        let at = line_word(cell);
        let raw = self.mem.load(at, Ordering::Acquire);
        let word = Word0::unpack(raw);
        let last = self.taken[cell as usize];
        if word.seq == last.seq {
            return Next::Nothing;
        }
        // R-CEL-3: only the next number, and only once the last was answered.
        let due = if last.open { last.seq } else { last.seq.wrapping_add(1) };
        if word.seq != due {
            return self.break_off(Violation {
                cell: cell as usize,
                expected: due,
                found: word.seq,
            });
        }
        self.taken[cell as usize] = Taken { seq: due, open: true };
        // From here on only this copy counts (R-CEL-2).
        let raw1 = self.mem.load(at + 1, Ordering::Relaxed);
        let Word1 { len, status } = Word1::unpack(raw1);
        let in_space = word.flags & FLAG_DATA != 0;
        let room = if in_space { self.cell_bytes } else { INLINE_BYTES as u32 };
        let wrong = if word.flags & !FLAGS != 0 || word.reserved != 0 || status != 0 {
            Some(Status::BadFlags)
        } else if len > room {
            Some(Status::BadLength)
        } else {
            None
        };
        let command = Command::from_wire(word.op);
        if let Some(status) = wrong.or(command.is_none().then_some(Status::BadCommand)) {
            self.answer_inline(cell as usize, status, &[]);
            self.advance(cell);
            self.refused = true;
            return Next::Nothing;
        }
        let mut inline = [0; INLINE_BYTES];
        if !in_space {
            for (i, bytes) in
                inline.as_chunks_mut::<8>().0.iter_mut().take(len.div_ceil(8) as usize).enumerate()
            {
                *bytes = self.mem.load(at + 2 + i, Ordering::Relaxed).to_le_bytes();
            }
        }
        self.bytes_in = self.bytes_in.wrapping_add(u64::from(len));
        Next::Call(Request {
            cell: cell as usize,
            seq: due,
            command: command.expect("checked above"),
            len,
            in_space,
            inline,
        })
    }

    #[cold]
    fn break_off(&mut self, v: Violation) -> Next {
        self.broken = Some(v);
        self.mem.store(
            in_header::BROKEN,
            u64::from(BreakReason::BadSequence.to_wire()),
            Ordering::Release,
        );
        Next::Broken(v)
    }

    /// Whether malformed requests were answered on the way since this was last
    /// asked. Whoever posted them may sleep, so the loop owes them a ring as
    /// for any answer ([`Server::must_ring`]); ask before sleeping (R-SLP-5).
    #[inline]
    pub fn refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Says which call is being computed, so that whoever finds this service
    /// dead knows which call it was (R-CEL-7).
    #[inline]
    pub fn begin(&self, cell: usize, seq: u32) {
        self.mem.store(
            in_header::CURRENT,
            (cell as u64 + 1) << 32 | u64::from(seq),
            Ordering::Release,
        );
    }

    /// Says that nothing is being computed.
    #[inline]
    pub fn idle(&self) {
        self.mem.store(in_header::CURRENT, 0, Ordering::Release);
    }

    /// Says where whoever serves this channel next is to begin; between calls.
    pub fn leave(&self) {
        self.leave_at(self.head as usize);
    }

    /// The same, where that is this cell: its call was taken and is not answered.
    pub fn leave_at(&self, cell: usize) {
        self.mem.store(in_header::NEXT, cell as u64 | HANDED, Ordering::Relaxed);
        self.idle();
    }

    /// Says that the channel is served (R-SLP-8): whoever waits may sleep.
    pub fn settle(&self) {
        self.settle_at(self.head as usize);
    }

    /// The same, where whoever serves this channel next is to begin at this cell:
    /// its call was taken and is not answered.
    pub fn settle_at(&self, cell: usize) {
        self.mem.store(in_header::NEXT, cell as u64, Ordering::Relaxed);
    }

    /// Answers a request with results in its line (at most 48 bytes).
    #[inline(always)]
    pub fn answer_inline(&mut self, cell: usize, status: Status, results: &[u8]) {
        assert!(results.len() <= INLINE_BYTES, "in-line results are at most 48 bytes");
        let at = line_word(cell as u32);
        let (whole, rest) = results.as_chunks::<8>();
        for (i, bytes) in whole.iter().enumerate() {
            self.mem.store(at + 2 + i, u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mem.store(at + 2 + whole.len(), u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.publish(cell, status, 0, results.len() as u32);
    }

    /// Answers a request with `len` bytes of results in its data space.
    #[inline]
    pub fn answer_space(&mut self, cell: usize, status: Status, len: u32) {
        assert!(len <= self.cell_bytes, "results exceed the cell's data space");
        self.publish(cell, status, FLAG_DATA, len);
    }

    #[inline(always)]
    fn publish(&mut self, cell: usize, status: Status, flags: u8, len: u32) {
        debug_assert!(self.taken[cell].open, "cell {cell} has no call to answer");
        let at = line_word(cell as u32);
        self.mem.store(at + 1, Word1 { len, status: status.to_wire() }.pack(), Ordering::Relaxed);
        let seq = self.taken[cell].seq;
        let word = Word0 { seq, op: CellState::Done.to_wire(), flags, reserved: 0 };
        // R-CEL-4: the first word is stored last, with release.
        self.mem.store(at, word.pack(), Ordering::Release);
        self.taken[cell].open = false;
        // The counters began with what the window held: they wrap, not panic.
        self.calls = self.calls.wrapping_add(1);
        self.bytes_out = self.bytes_out.wrapping_add(u64::from(len));
        self.mem.store(in_header::CALLS, self.calls, Ordering::Relaxed);
        self.mem.store(in_header::BYTES_IN, self.bytes_in, Ordering::Relaxed);
        self.mem.store(in_header::BYTES_OUT, self.bytes_out, Ordering::Relaxed);
        if status != Status::Ok {
            self.errors = self.errors.wrapping_add(1);
            self.mem.store(in_header::ERRORS, self.errors, Ordering::Relaxed);
        }
    }

    /// Whether the app has declared that threads of it sleep. May miss a
    /// declaration made at this very moment; see [`Server::must_ring`].
    #[inline]
    pub fn seems_asleep(&self) -> bool {
        self.mem.load(out_header::SLEEPERS, Ordering::Relaxed) != 0
    }

    /// Whether the app must be rung for what was answered so far: fence, then look (R-SLP-2).
    #[inline]
    pub fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.seems_asleep()
    }

    /// Counts a ring, for the statistics.
    pub fn rang(&self) {
        self.mem.add_own(in_header::RANG, 1, Ordering::Relaxed);
    }

    /// Declares that the service sleeps on the channel's vector (R-SLP-1).
    /// Look at every cell once more after this, then sleep.
    pub fn declare_sleep(&self) {
        self.mem.add_own(in_header::SLEPT, 1, Ordering::Relaxed);
        self.mem.store(in_header::SLEEPS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes the declaration back.
    pub fn declare_awake(&self) {
        self.mem.store(in_header::SLEEPS, 0, Ordering::SeqCst);
    }

    /// What broke the channel, if anything.
    pub fn broken(&self) -> Option<Violation> {
        self.broken
    }
}
