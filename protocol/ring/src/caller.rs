//! The app's side of a channel: claim a cell, fill it, post it, look for the
//! answer, take it.
//!
//! A cell is taken by one atomic exchange, in turn where possible, so that
//! threads meet no lock and the service knows where to look next. Which cells
//! are in use is private to the app, never in the window.

use crate::memory::Memory;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, FLAGS, HANDED, Word0, Word1, in_header, line_off, out_header,
};
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::status::BreakReason;
use vfun_wire::{LINE_WORDS, PAGE};

/// A cell's private state: a lap and whether it is taken, on a line of its own.
#[repr(align(64))]
struct Cell(AtomicU64);

const FREE: u64 = 0;
const TAKEN: u64 = 1;

/// Every cell is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("every cell of the channel is in use: take finished results, or ask for a deeper channel")
    }
}
impl std::error::Error for Full {}

/// A cell that is this thread's alone until posted or given back.
#[derive(Debug)]
#[must_use = "a claimed cell that is dropped is lost to the channel"]
pub struct Claim {
    cell: u32,
    seq: u32,
}

impl Claim {
    /// Which cell: its line and its data space.
    #[inline]
    pub fn cell(&self) -> usize {
        self.cell as usize
    }
}

/// A posted call.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a posted call that is dropped keeps its cell"]
pub struct Ticket {
    cell: u32,
    seq: u32,
}

impl Ticket {
    /// Which cell.
    #[inline]
    pub fn cell(&self) -> usize {
        self.cell as usize
    }
    /// Its sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        self.seq
    }
}

/// What came back, checked against the cell's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// [`vfun_wire::Status`] as it stands on the wire.
    pub status: u32,
    /// Bytes of results.
    pub len: u32,
    /// The results are in the cell's data space, not in `inline`.
    pub in_space: bool,
    /// Results in line; the first `len` bytes count.
    pub inline: [u8; INLINE_BYTES],
}

/// How an answered call ended, without its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// [`vfun_wire::Status`] as it stands on the wire.
    pub status: u32,
    /// Bytes of results.
    pub len: u32,
    /// The results are in the cell's data space, not in its line.
    pub in_space: bool,
}

/// A glance at a posted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Not answered yet.
    NotYet,
    /// Answered.
    Done(Outcome),
    /// The answer makes no sense: the host's side is broken.
    Nonsense,
}

/// A look at a posted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Not answered yet.
    NotYet,
    /// Answered.
    Done(Answer),
    /// Not answered, and the channel no longer serves.
    Broken(BreakReason),
    /// The answer makes no sense: the host's side is broken.
    Nonsense,
}

/// Why a channel no longer serves, if so, by the header that its app reads.
pub fn broken<M: Memory>(channel: &M) -> Option<BreakReason> {
    match channel.load(in_header::BROKEN, Ordering::Acquire) as u32 {
        0 => None,
        n => Some(BreakReason::from_wire(n).unwrap_or(BreakReason::NoService)),
    }
}

/// The app's side of a channel. Shared by threads.
pub struct Caller<M> {
    mem: M,
    cell_bytes: u32,
    mask: u32,
    /// The cell to try first.
    turn: AtomicU32,
    cells: Box<[Cell]>,
}

#[inline]
fn line_word(cell: u32) -> usize {
    line_off(cell as usize) / 8
}

impl<M: Memory> Caller<M> {
    /// Over freshly laid out (zeroed) memory. `depth` is a power of two.
    pub fn new(mem: M, depth: u16, cell_bytes: u32) -> Self {
        assert!(depth.is_power_of_two());
        let cells = (0..depth).map(|_| Cell(AtomicU64::new(FREE))).collect();
        Caller { mem, cell_bytes, mask: u32::from(depth) - 1, turn: AtomicU32::new(0), cells }
    }

    /// The memory underneath.
    pub fn memory(&self) -> &M {
        &self.mem
    }
    /// Cells.
    pub fn depth(&self) -> usize {
        self.cells.len()
    }
    /// Data space of a cell on each side.
    pub fn cell_bytes(&self) -> u32 {
        self.cell_bytes
    }

    /// Takes a free cell, the one whose turn it is if it is free.
    ///
    /// Whose turn it is, is only a hint: the exchange of the cell's own state
    /// decides, so a call costs one locked instruction and not two.
    #[inline(always)]
    pub fn claim(&self) -> Result<Claim, Full> {
        let mut cell = self.turn.load(Ordering::Relaxed) & self.mask;
        for _ in 0..self.cells.len() {
            let state = &self.cells[cell as usize].0;
            let now = state.load(Ordering::Relaxed);
            let next = (cell + 1) & self.mask;
            if now & TAKEN == 0
                && state
                    .compare_exchange(now, now | TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                self.turn.store(next, Ordering::Relaxed);
                // The lap counts uses of this cell from 0; its sequence
                // number is one more, so that fresh memory answers nothing.
                return Ok(Claim { cell, seq: ((now >> 1) as u32).wrapping_add(1) });
            }
            cell = next;
        }
        Err(Full)
    }

    /// Gives an unposted cell back. Its sequence number is not used up.
    pub fn unclaim(&self, claim: Claim) {
        let lap = u64::from(claim.seq.wrapping_sub(1));
        self.cells[claim.cell()].0.store(lap << 1 | FREE, Ordering::Release);
    }

    /// Posts a call whose arguments go in line (at most 48 bytes). The service
    /// sees it as soon as the line arrives; whether it sleeps is for
    /// [`Caller::must_ring`] to say.
    #[inline(always)]
    pub fn post_inline(&self, claim: Claim, command: Command, args: &[u8]) -> Ticket {
        assert!(args.len() <= INLINE_BYTES, "in-line arguments are at most 48 bytes");
        let at = line_word(claim.cell);
        let (whole, rest) = args.as_chunks::<8>();
        for (i, bytes) in whole.iter().enumerate() {
            self.mem.store(at + 2 + i, u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mem.store(at + 2 + whole.len(), u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.publish(claim, command, 0, args.len() as u32)
    }

    /// Posts a call whose `len` bytes of arguments are in the cell's data space.
    #[inline]
    pub fn post_space(&self, claim: Claim, command: Command, len: u32) -> Ticket {
        assert!(len <= self.cell_bytes, "arguments exceed the cell's data space");
        self.publish(claim, command, FLAG_DATA, len)
    }

    #[inline(always)]
    fn publish(&self, claim: Claim, command: Command, flags: u8, len: u32) -> Ticket {
        let at = line_word(claim.cell);
        self.mem.store(at + 1, Word1 { len, status: 0 }.pack(), Ordering::Relaxed);
        let word = Word0 { seq: claim.seq, op: command.to_wire(), flags, reserved: 0 };
        // R-CEL-1: the first word is stored last, with release.
        self.mem.store(at, word.pack(), Ordering::Release);
        Ticket { cell: claim.cell, seq: claim.seq }
    }

    /// Whether the service has declared that it sleeps. Without a fence before
    /// it this may miss a declaration made at this very moment; see
    /// [`Caller::must_ring`].
    #[inline]
    pub fn seems_asleep(&self) -> bool {
        self.mem.load(in_header::SLEEPS, Ordering::Relaxed) != 0
    }

    /// Whether the service must be rung for what was posted so far: fence,
    /// then look (R-SLP-2). Either this sees the declaration, or the service
    /// sees the posted line when it looks once more before sleeping.
    #[inline]
    pub fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.seems_asleep()
    }

    /// Whether one service has let go of the channel and another is about to
    /// take it up (R-SLP-8).
    pub fn is_handed(&self) -> bool {
        self.mem.load(in_header::NEXT, Ordering::Relaxed) & HANDED != 0
    }

    /// Looks whether a call was answered, and how, leaving the results where
    /// they are: in-line ones are for [`Caller::inline_results`]. The answer
    /// stays until taken.
    #[inline(always)]
    pub fn glance(&self, ticket: &Ticket) -> Glance {
        let at = line_word(ticket.cell);
        let word = Word0::unpack(self.mem.load(at, Ordering::Acquire));
        if word.seq != ticket.seq {
            return Glance::NotYet;
        }
        let Word1 { len, status } = Word1::unpack(self.mem.load(at + 1, Ordering::Relaxed));
        let in_space = word.flags & FLAG_DATA != 0;
        let room = if in_space { self.cell_bytes } else { INLINE_BYTES as u32 };
        let strange = word.flags & !FLAGS != 0 || word.reserved != 0;
        if len > room || word.op != CellState::Done.to_wire() || strange {
            return Glance::Nonsense;
        }
        Glance::Done(Outcome { status, len, in_space })
    }

    /// Whether an answer that was glanced at is there still, now that its results
    /// were read. It is, unless this process let go of the channel meanwhile: then
    /// what was read may be of before and of after.
    #[inline(always)]
    pub fn stands(&self, ticket: &Ticket) -> bool {
        // The results were read before this look.
        fence(Ordering::Acquire);
        let word = self.mem.load(line_word(ticket.cell), Ordering::Relaxed);
        Word0::unpack(word).seq == ticket.seq
    }

    /// The cells in use, at some moment during this call.
    pub fn taken(&self) -> impl Iterator<Item = usize> {
        let in_use = |c: &Cell| c.0.load(Ordering::Acquire) & TAKEN != 0;
        self.cells.iter().enumerate().filter(move |(_, c)| in_use(c)).map(|(i, _)| i)
    }

    /// Copies the in-line results of an answered call, each word once. What is
    /// beyond the first `len` bytes means nothing.
    #[inline]
    pub fn inline_results(&self, ticket: &Ticket, len: u32) -> [u8; INLINE_BYTES] {
        let at = line_word(ticket.cell) + 2;
        let words = len.div_ceil(8).min(INLINE_BYTES as u32 / 8) as usize;
        let mut inline = [0; INLINE_BYTES];
        for (i, bytes) in inline.as_chunks_mut::<8>().0.iter_mut().take(words).enumerate() {
            *bytes = self.mem.load(at + i, Ordering::Relaxed).to_le_bytes();
        }
        inline
    }

    /// Looks whether a call was answered, and copies in-line results. The
    /// answer stays until taken.
    #[inline]
    pub fn look(&self, ticket: &Ticket) -> Looked {
        match self.glance(ticket) {
            Glance::NotYet => Looked::NotYet,
            Glance::Nonsense => Looked::Nonsense,
            Glance::Done(Outcome { status, len, in_space }) => {
                let inline = match in_space {
                    true => [0; INLINE_BYTES],
                    false => self.inline_results(ticket, len),
                };
                Looked::Done(Answer { status, len, in_space, inline })
            }
        }
    }

    /// As [`Caller::look`], but an unanswered call of a broken channel says so.
    pub fn look_hard(&self, ticket: &Ticket) -> Looked {
        match self.look(ticket) {
            Looked::NotYet => {}
            other => return other,
        }
        let Some(reason) = self.broken() else { return Looked::NotYet };
        // It may have been answered just before it broke.
        match self.look(ticket) {
            Looked::NotYet => Looked::Broken(reason),
            other => other,
        }
    }

    /// Why the channel no longer serves, if so.
    pub fn broken(&self) -> Option<BreakReason> {
        broken(&self.mem)
    }

    /// The published state of a posted call.
    pub fn state(&self, ticket: &Ticket) -> CellState {
        if !matches!(self.look(ticket), Looked::NotYet) {
            return CellState::Done;
        }
        let busy = u64::from(ticket.cell + 1) << 32 | u64::from(ticket.seq);
        if self.mem.load(in_header::CURRENT, Ordering::Relaxed) == busy {
            CellState::Busy
        } else {
            CellState::Wait
        }
    }

    /// Frees the cell of an answered call (`get`): after its results were copied.
    /// A call that was not answered keeps its cell: the service may still write there.
    #[inline]
    pub fn take(&self, ticket: Ticket) {
        self.cells[ticket.cell as usize]
            .0
            .store(u64::from(ticket.seq) << 1 | FREE, Ordering::Release);
    }

    /// As [`Caller::take`], but the cell stays this caller's, for its next call.
    #[inline]
    pub fn keep(&self, ticket: Ticket) -> Claim {
        // The lap that this call used up counts; the cell was never free.
        self.cells[ticket.cell as usize]
            .0
            .store(u64::from(ticket.seq) << 1 | TAKEN, Ordering::Relaxed);
        Claim { cell: ticket.cell, seq: ticket.seq.wrapping_add(1) }
    }

    /// Declares that one more thread of this app sleeps on the channel's
    /// vector (R-SLP-1). Look at the calls once more after this, then sleep.
    pub fn declare_sleep(&self) {
        self.mem.add_own(out_header::SLEEPERS, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Takes the declaration back.
    pub fn declare_awake(&self) {
        self.mem.sub_own(out_header::SLEEPERS, 1, Ordering::SeqCst);
    }
}

const _: () = assert!(PAGE.is_multiple_of(8 * LINE_WORDS));
