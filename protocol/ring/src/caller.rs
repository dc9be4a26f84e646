//! The app's side of a channel: claim a cell, fill it, post it, look for the
//! answer, take it.
//!
//! A cell is taken by one atomic exchange, in turn where possible, so that
//! threads meet no lock and the service knows where to look next. Which cells
//! are in use is private to the app, never in the window.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use vfun_window::Memory;
use vfun_wire::channel::{
    CellState, Command, FLAG_DATA, HANDED, HELD_BEGUN, HELD_EVENT, Word0, Word1, in_header,
    line_off, out_header,
};
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::status::BreakReason;
use vfun_wire::{LINE_WORDS, PAGE};

/// A cell's private state, a lap and whether it is taken, on a line of its own.
#[repr(align(64))]
struct Cell(AtomicU64);

/// What an answer's first word is above its number.
const DONE_INLINE: u64 = Word0::rest(CellState::Done.to_wire(), 0);
const DONE_SPACE: u64 = Word0::rest(CellState::Done.to_wire(), FLAG_DATA);

const TAKEN: u64 = 1;

/// What stands for a free cell that was used so often.
#[inline(always)]
fn free(laps: u32) -> u64 {
    u64::from(laps) << 1
}

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

/// Names a posted call, to poll and to take its answer with.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a posted call that is dropped keeps its cell"]
pub struct Ticket {
    cell: u32,
    seq: u32,
}

impl Ticket {
    #[inline]
    pub fn cell(&self) -> usize {
        self.cell as usize
    }
    /// Sequence number by which the answer is told from earlier ones of this cell.
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
    /// Bytes of results; at most what the cell has room for.
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
    /// Bytes of results; at most what the cell has room for.
    pub len: u32,
    /// The results are in the cell's data space, not in its line.
    pub in_space: bool,
}

/// What [`Caller::poll_outcome`] found of a posted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    NotYet,
    Done(Outcome),
    /// The answer makes no sense: the host's side is broken.
    Nonsense,
}

/// What [`Caller::poll_quick`] found of a posted call: the answers that most calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollQuick {
    NotYet,
    /// Answered with success, and so many bytes of results in its line.
    Inline(usize),
    /// Answered with success, and so many bytes of results in its data space.
    Space(usize),
    /// Anything else: ask [`Caller::poll_outcome`].
    Other,
}

/// What [`Caller::look`] and [`Caller::look_hard`] found of a posted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollAnswer {
    NotYet,
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
        let cells = (0..depth).map(|_| Cell(AtomicU64::new(free(0)))).collect();
        Caller { mem, cell_bytes, mask: u32::from(depth) - 1, turn: AtomicU32::new(0), cells }
    }

    pub fn memory(&self) -> &M {
        &self.mem
    }
    /// Cells of the channel: so many calls can be posted at once.
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
        let cell = self.turn.load(Ordering::Relaxed);
        match self.try_claim(cell) {
            Some(claim) => Ok(claim),
            None => self.claim_after(cell),
        }
    }

    /// Whoever finds a cell free has it: an exchange has one winner. What is expected is
    /// a free cell, so that one that is taken needs no comparison of its own.
    #[inline(always)]
    fn try_claim(&self, cell: u32) -> Option<Claim> {
        let state = &self.cells[cell as usize].0;
        let was = state.load(Ordering::Relaxed) & !TAKEN;
        state.compare_exchange(was, was | TAKEN, Ordering::Acquire, Ordering::Relaxed).ok()?;
        self.turn.store((cell + 1) & self.mask, Ordering::Relaxed);
        // The lap counts uses of this cell from 0; its sequence
        // number is one more, so that fresh memory answers nothing.
        Some(Claim { cell, seq: ((was >> 1) as u32).wrapping_add(1) })
    }

    /// Any other cell than this, beginning behind it.
    #[cold]
    fn claim_after(&self, cell: u32) -> Result<Claim, Full> {
        let others = (1..=self.mask).map(|i| (cell + i) & self.mask);
        // A look before the exchange: most of these are taken.
        let seems_free = |&c: &u32| self.cells[c as usize].0.load(Ordering::Relaxed) & TAKEN == 0;
        others.filter(seems_free).find_map(|c| self.try_claim(c)).ok_or(Full)
    }

    /// Gives an unposted cell back. Its sequence number is not used up.
    pub fn unclaim(&self, claim: Claim) {
        let laps = claim.seq.wrapping_sub(1);
        self.cells[claim.cell()].0.store(free(laps), Ordering::Release);
    }

    /// Posts a call whose arguments go in line (at most 48 bytes). The service
    /// sees it as soon as the line arrives; whether it sleeps is for
    /// [`Caller::must_ring`] to say.
    #[inline(always)]
    pub fn post_inline(&self, claim: Claim, command: Command, args: &[u8]) -> Ticket {
        assert!(args.len() <= INLINE_BYTES, "in-line arguments are at most 48 bytes");
        self.publish(claim, command, 0, args.len() as u32, args)
    }

    /// Posts a call whose `len` bytes of arguments are in the cell's data space.
    #[inline]
    pub fn post_space(&self, claim: Claim, command: Command, len: u32) -> Ticket {
        assert!(len <= self.cell_bytes, "arguments exceed the cell's data space");
        self.publish(claim, command, FLAG_DATA, len, &[])
    }

    #[inline(always)]
    fn publish(&self, claim: Claim, command: Command, flags: u8, len: u32, args: &[u8]) -> Ticket {
        let word = Word0 { seq: claim.seq, op: command.to_wire(), flags, reserved: 0 };
        let second = Word1 { len, status: 0 };
        // R-CEL-1: the first word is stored last, with release.
        self.mem.publish(line_word(claim.cell), word.pack(), second.pack(), args);
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
    pub fn poll_outcome(&self, ticket: &Ticket) -> PollOutcome {
        let at = line_word(ticket.cell);
        let Some([first, second]) = self.mem.head(at, |seq| seq == ticket.seq) else {
            return PollOutcome::NotYet;
        };
        let Word1 { len, status } = Word1::unpack(second);
        let (in_space, room) = match first >> 32 {
            DONE_INLINE => (false, INLINE_BYTES as u32),
            DONE_SPACE => (true, self.cell_bytes),
            _ => return PollOutcome::Nonsense,
        };
        if len > room {
            return PollOutcome::Nonsense;
        }
        PollOutcome::Done(Outcome { status, len, in_space })
    }

    /// As [`Caller::poll_outcome`], in fewer steps where a call succeeded.
    #[inline(always)]
    pub fn poll_quick(&self, ticket: &Ticket) -> PollQuick {
        let Some([first, len]) = self.mem.head(line_word(ticket.cell), |seq| seq == ticket.seq)
        else {
            return PollQuick::NotYet;
        };
        // The upper half of the second word is the status: 0.
        let kind = first >> 32;
        if kind == DONE_INLINE && len <= INLINE_BYTES as u64 {
            PollQuick::Inline(len as usize)
        } else if kind == DONE_SPACE && len <= u64::from(self.cell_bytes) {
            PollQuick::Space(len as usize)
        } else {
            PollQuick::Other
        }
    }

    /// Copies in-line results, as many as fill `to`, and frees the cell. False if the
    /// answer is not there any more (see [`Caller::stands`]): then nothing was copied
    /// that counts.
    #[inline(always)]
    pub fn take_inline(&self, ticket: Ticket, to: &mut [u8]) -> bool {
        let word = self.mem.fetch_again(line_word(ticket.cell), to);
        let stands = Word0::unpack(word).seq == ticket.seq;
        self.take(ticket);
        stands
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

    /// Copies the in-line results of an answered call, each word once: as many
    /// bytes as fill `to`, at most 48.
    #[inline(always)]
    pub fn inline_results(&self, ticket: &Ticket, to: &mut [u8]) {
        self.mem.fetch(line_word(ticket.cell), to);
    }

    /// Looks whether a call was answered, and copies in-line results. The
    /// answer stays until taken.
    #[inline]
    pub fn look(&self, ticket: &Ticket) -> PollAnswer {
        match self.poll_outcome(ticket) {
            PollOutcome::NotYet => PollAnswer::NotYet,
            PollOutcome::Nonsense => PollAnswer::Nonsense,
            PollOutcome::Done(Outcome { status, len, in_space }) => {
                let mut inline = [0; INLINE_BYTES];
                if !in_space {
                    self.inline_results(ticket, &mut inline[..len as usize]);
                }
                PollAnswer::Done(Answer { status, len, in_space, inline })
            }
        }
    }

    /// As [`Caller::look`], but an unanswered call of a broken channel says so.
    pub fn look_hard(&self, ticket: &Ticket) -> PollAnswer {
        match self.look(ticket) {
            PollAnswer::NotYet => {}
            other => return other,
        }
        let Some(reason) = self.broken() else { return PollAnswer::NotYet };
        // It may have been answered just before it broke.
        match self.look(ticket) {
            PollAnswer::NotYet => PollAnswer::Broken(reason),
            other => other,
        }
    }

    /// Why the channel no longer serves, if so.
    pub fn broken(&self) -> Option<BreakReason> {
        broken(&self.mem)
    }

    /// What the service's line says of a call that is not answered.
    fn held(&self, ticket: &Ticket) -> Option<u8> {
        let word = Word0::unpack(self.mem.load(line_word(ticket.cell), Ordering::Relaxed));
        (word.seq == ticket.seq.wrapping_sub(1)).then_some(word.op)
    }

    /// Whether the service holds a posted call open until something happens,
    /// for as long as that takes.
    pub fn waits_for_event(&self, ticket: &Ticket) -> bool {
        self.held(ticket) == Some(HELD_EVENT)
    }

    /// The published state of a posted call.
    pub fn state(&self, ticket: &Ticket) -> CellState {
        if !matches!(self.look(ticket), PollAnswer::NotYet) {
            return CellState::Done;
        }
        let busy = u64::from(ticket.cell + 1) << 32 | u64::from(ticket.seq);
        if self.mem.load(in_header::CURRENT, Ordering::Relaxed) == busy
            || matches!(self.held(ticket), Some(HELD_BEGUN | HELD_EVENT))
        {
            CellState::Busy
        } else {
            CellState::Wait
        }
    }

    /// Frees the cell of an answered call (`get`): after its results were copied.
    /// A call that was not answered keeps its cell: the service may still write there.
    #[inline]
    pub fn take(&self, ticket: Ticket) {
        self.cells[ticket.cell as usize].0.store(free(ticket.seq), Ordering::Release);
    }

    /// As [`Caller::take`], but the cell stays this caller's, for its next call.
    #[inline]
    pub fn keep(&self, ticket: Ticket) -> Claim {
        // The lap that this call used up counts; the cell was never free.
        let state = &self.cells[ticket.cell as usize].0;
        state.store(free(ticket.seq) | TAKEN, Ordering::Relaxed);
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
