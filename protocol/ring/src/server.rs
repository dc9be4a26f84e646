//! The service's side of a channel: find the next request, answer it.

use crate::sync::{Ordering, fence};
use vfun_window::Memory;
use vfun_wire::Status;
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, FLAGS, HANDED, HELD_BEGUN, HELD_EVENT, Word0, Word1, in_header,
    line_off, out_header,
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
struct CellRecord {
    /// The last sequence number taken.
    seq: u32,
    /// Taken and not answered.
    open: bool,
}

/// A request, read once and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub cell: usize,
    pub seq: u32,
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
    pub cell: usize,
    /// The number that was due: the next one, or the last one while that call is unanswered.
    pub expected: u32,
    /// Sequence number that the cell shows.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Nothing new at this look.
    #[default]
    Nothing,
    /// A request to serve. (Malformed ones are answered on the way and not shown.)
    Call(Request),
    /// The channel is broken from now on; nothing is served.
    Broken(Violation),
}

/// Whether a channel has a request that is neither answered nor held open, by its lines
/// alone, seen from the service's side. For whoever watches over a channel whose own
/// thread sleeps; it takes nothing, and what it says is a reason to wake that thread and
/// no more. Looks at each of the `depth` lines of both sides.
pub fn is_posted<M: Memory>(mem: &M, depth: u16) -> bool {
    (0..u32::from(depth)).any(|cell| {
        let at = line_word(cell);
        let own = Word0::unpack(mem.load_own(at, Ordering::Relaxed));
        // The line of a call that is held open bears the number before its own.
        let taken = own.seq.wrapping_add(u32::from(matches!(own.op, HELD_BEGUN | HELD_EVENT)));
        Word0::unpack(mem.load(at, Ordering::Acquire)).seq != taken
    })
}

/// The service's side of a channel; one thread's.
pub struct Server<M> {
    mem: M,
    cell_bytes: u32,
    mask: u32,
    taken: Box<[CellRecord]>,
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
        let taken: Box<[CellRecord]> =
            (0..u32::from(depth)).map(|c| CellRecord { seq: answered(c), open: false }).collect();
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

    pub fn memory(&self) -> &M {
        &self.mem
    }

    /// Looks for the next request. Nothing found may mean that malformed
    /// requests were answered on the way: see [`Server::refused`].
    #[allow(clippy::should_implement_trait)] // it never ends, and Nothing is no end
    pub fn next(&mut self) -> Next {
        let mut found = Next::Nothing;
        self.next_into(&mut found);
        found
    }

    /// The same, put together where it is used. `found` is [`Next::Nothing`] before.
    #[inline(always)]
    pub fn next_into(&mut self, found: &mut Next) {
        let cell = self.head;
        if let Some(v) = self.broken {
            *found = Next::Broken(v);
        } else if self.look(cell, found) {
            self.mem.prefetch(line_word(self.head));
        } else {
            self.next_in_vain(cell, found);
        }
    }

    /// There is nothing in the expected cell.
    #[inline(never)]
    fn next_in_vain(&mut self, cell: u32, found: &mut Next) {
        if self.taken[cell as usize].open {
            // Its answer may be hours away, and callers pass it over too.
            self.advance(cell);
            return;
        }
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            return;
        }
        self.sweep = (self.sweep + 1) & self.mask;
        self.look((self.head + self.sweep) & self.mask, found);
    }

    #[inline]
    fn advance(&mut self, cell: u32) {
        self.head = (cell + 1) & self.mask;
        self.sweep = 0;
    }

    /// Looks at every cell once: before sleeping, and after waking. See
    /// [`Server::refused`] before sleeping on `Nothing`.
    pub fn next_anywhere(&mut self) -> Next {
        let mut found = Next::Nothing;
        if let Some(v) = self.broken {
            return Next::Broken(v);
        }
        // A malformed request on the way moves the head; the round must not skip for it.
        let start = self.head;
        for i in 0..=self.mask {
            if self.look((start + i) & self.mask, &mut found) {
                break;
            }
        }
        found
    }

    /// Looks at one cell: whether something was put in `found`, which is moved nowhere
    /// afterwards (that would wait for the stores under way). The head moves behind it.
    #[inline(always)]
    fn look(&mut self, cell: u32, found: &mut Next) -> bool {
        const DATA: u64 = Word0::rest(0, FLAG_DATA);
        const SET: u64 = Word0::rest(Command::Set.to_wire(), 0);
        const RST: u64 = Word0::rest(Command::Rst.to_wire(), 0);
        let at = line_word(cell);
        let taken = &mut self.taken[cell as usize];
        let Some([first, second]) = self.mem.head(at, |seq| seq != taken.seq) else {
            return false;
        };
        // From here on only this copy counts (R-CEL-2).
        let seq = first as u32;
        // R-CEL-3: only the next number, and only once the last was answered.
        if taken.open || seq != taken.seq.wrapping_add(1) {
            *found = self.break_off(cell, seq);
            return true;
        }
        *taken = CellRecord { seq, open: true };
        self.advance(cell);
        let kind = first >> 32;
        let command = match kind & !DATA {
            SET => Command::Set,
            RST => Command::Rst,
            _ => return self.refuse(cell, first, second),
        };
        let in_space = kind & DATA != 0;
        let room = if in_space { self.cell_bytes } else { INLINE_BYTES as u32 };
        // The upper half of the second word is zero.
        if second > u64::from(room) {
            return self.refuse(cell, first, second);
        }
        let len = second as u32;
        self.bytes_in = self.bytes_in.wrapping_add(second);
        let cell = cell as usize;
        *found = Next::Call(Request { cell, seq, command, len, in_space, inline: [0; _] });
        if !in_space && let Next::Call(request) = found {
            self.mem.fetch(at, &mut request.inline[..len as usize]);
        }
        true
    }

    /// Answers a request that is not one (R-CEL-5): there is nothing to serve.
    #[cold]
    fn refuse(&mut self, cell: u32, first: u64, second: u64) -> bool {
        let (word, Word1 { len, status }) = (Word0::unpack(first), Word1::unpack(second));
        let room = match word.flags & FLAG_DATA {
            0 => INLINE_BYTES as u32,
            _ => self.cell_bytes,
        };
        let status = if word.flags & !FLAGS != 0 || word.reserved != 0 || status != 0 {
            Status::BadFlags
        } else if len > room {
            Status::BadLength
        } else {
            Status::BadCommand
        };
        self.answer_inline(cell as usize, status, &[]);
        self.refused = true;
        false
    }

    #[cold]
    fn break_off(&mut self, cell: u32, found: u32) -> Next {
        let last = self.taken[cell as usize];
        let expected = if last.open { last.seq } else { last.seq.wrapping_add(1) };
        let v = Violation { cell: cell as usize, expected, found };
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

    /// Says that a request that was taken is held open (R-CEL-12): `begun`, or
    /// waiting for an event with nothing done for it.
    pub fn hold(&self, cell: usize, begun: bool) {
        self.mark(cell, if begun { HELD_BEGUN } else { HELD_EVENT });
    }

    /// Takes that back: the request is as if it had not been taken, for the next
    /// service to begin.
    pub fn unhold(&self, cell: usize) {
        self.mark(cell, CellState::Done.to_wire());
    }

    fn mark(&self, cell: usize, op: u8) {
        debug_assert!(self.taken[cell].open, "cell {cell} has no call to hold");
        let seq = self.taken[cell].seq.wrapping_sub(1);
        let word = Word0 { seq, op, flags: 0, reserved: 0 };
        self.mem.store(line_word(cell as u32), word.pack(), Ordering::Release);
    }

    /// How an earlier service left a request: held open and begun, held open and
    /// not begun, or `None`. Only before this service holds it itself.
    pub fn was_held(&self, r: &Request) -> Option<bool> {
        let word = Word0::unpack(self.mem.load_own(line_word(r.cell as u32), Ordering::Relaxed));
        match word.op {
            _ if word.seq != r.seq.wrapping_sub(1) => None,
            HELD_BEGUN => Some(true),
            HELD_EVENT => Some(false),
            _ => None,
        }
    }

    /// Whether an earlier service left requests that it held open, for all that
    /// its lines say.
    pub fn any_was_held(&self) -> bool {
        (0..=self.mask).any(|c| {
            let word = Word0::unpack(self.mem.load_own(line_word(c), Ordering::Relaxed));
            word.op == HELD_BEGUN || word.op == HELD_EVENT
        })
    }

    /// Answers a request with results in its line (at most 48 bytes).
    #[inline(always)]
    pub fn answer_inline(&mut self, cell: usize, status: Status, results: &[u8]) {
        assert!(results.len() <= INLINE_BYTES, "in-line results are at most 48 bytes");
        let [at, first, second] = self.answered(cell, status, 0, results.len() as u32);
        self.mem.publish(at as usize, first, second, results);
        self.count(status, results.len() as u32);
    }

    /// The same with `len` bytes of results that stand in this side's memory from word
    /// `from` on, where a line begins: in its own data space.
    #[inline(always)]
    pub fn answer_own(&mut self, cell: usize, status: Status, from: usize, len: usize) {
        assert!(len <= INLINE_BYTES, "in-line results are at most 48 bytes");
        let [at, first, second] = self.answered(cell, status, 0, len as u32);
        self.mem.publish_own(at as usize, first, second, from, len);
        self.count(status, len as u32);
    }

    /// Answers a request with `len` bytes of results in its data space.
    #[inline]
    pub fn answer_space(&mut self, cell: usize, status: Status, len: u32) {
        assert!(len <= self.cell_bytes, "results exceed the cell's data space");
        let [at, first, second] = self.answered(cell, status, FLAG_DATA, len);
        self.mem.publish(at as usize, first, second, &[]);
        self.count(status, len);
    }

    /// Where an answer goes, and its first two words (R-CEL-4). From here on the cell
    /// has no call.
    #[inline(always)]
    fn answered(&mut self, cell: usize, status: Status, flags: u8, len: u32) -> [u64; 3] {
        let taken = &mut self.taken[cell];
        debug_assert!(taken.open, "cell {cell} has no call to answer");
        taken.open = false;
        let word = Word0 { seq: taken.seq, op: CellState::Done.to_wire(), flags, reserved: 0 };
        let second = Word1 { len, status: status.to_wire() };
        [line_word(cell as u32) as u64, word.pack(), second.pack()]
    }

    #[inline(always)]
    fn count(&mut self, status: Status, len: u32) {
        // The counters began with what the window held: they wrap, not panic.
        self.calls = self.calls.wrapping_add(1);
        self.bytes_out = self.bytes_out.wrapping_add(u64::from(len));
        if status != Status::Ok {
            self.errors = self.errors.wrapping_add(1);
        }
        const { assert!(in_header::ERRORS == in_header::CALLS + 1) };
        const { assert!(in_header::BYTES_IN == in_header::CALLS + 2) };
        const { assert!(in_header::BYTES_OUT == in_header::CALLS + 3) };
        let words = [self.calls, self.errors, self.bytes_in, self.bytes_out];
        self.mem.store_all(in_header::CALLS, words);
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

    /// To be called before each ring of the app: says that it is for this channel
    /// (R-CHN-8), and counts it.
    pub fn about_to_ring(&self) {
        self.mem.add_own(in_header::RANG, 1, Ordering::Relaxed);
        self.mem.add_own(in_header::NEWS, 1, Ordering::Release);
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
