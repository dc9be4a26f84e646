//! Calls through a channel in the window: the hot path.

use super::abandoned::Abandoned;
use super::end::ChannelSides;
use super::life::ServiceLife;
use super::results::Sink;
use super::{CallEnd, Flight};
use crate::buffer::Adopted;
use crate::error::{DRIVER_SENTENCE, Error, Result};
use crate::grant::GrantInfo;
use crate::transport::{BellPlace, Bells, DoorbellWaiter, Window};
use crate::wait::{Sleeper, WaitPolicy, wait_long};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use vfun_ring::{
    Caller, Claim, Memory, Outcome, PollAnswer, PollOutcome, PollQuick, Ticket, WindowMemory,
};
use vfun_wait::WaitHistory;
use vfun_window::{Bell, ReadSpan, ReadWord, Space, Spaces, pause};
use vfun_wire::channel::{CellState, Command, in_header};
use vfun_wire::limits::INLINE_BYTES;
use vfun_wire::status::BreakReason;

/// How long after a call's deadline, with the channel standing still, its
/// answer is given up.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Polls of which one also looks whether anybody is left who would answer.
const POLLS_A_HARD_ONE: u32 = 64;

/// Looks of a wait for a free cell to one try at claiming it.
const CLAIM_LOOKS: u32 = 16;

/// An active channel, app's side. Any number of threads call at once.
#[repr(align(128))]
pub(crate) struct WindowCalls {
    pub(super) caller: Caller<WindowMemory>,
    window: Arc<Window>,
    pub(super) spaces: Option<Arc<Spaces>>,
    results: ReadSpan,
    /// Whether the service sleeps.
    sleeps: ReadWord,
    cell_bytes: usize,
    max_args: usize,
    /// Where to ring and to sleep, and whether either is possible.
    place: BellPlace,
    bells: Bells,
    deadline: Duration,
    policy: WaitPolicy,
    learned: WaitHistory,
    learned_of_claims: WaitHistory,
    /// The last call after whose post the service was rung; 0: none.
    rung: AtomicU64,
    pub(super) abandoned: Abandoned,
    life: ServiceLife,
    /// A hint: threads that poll at once may lose a count.
    polls: AtomicU32,
    waiters: Mutex<Vec<Box<dyn DoorbellWaiter>>>,
    /// What rings for programs that wait by a descriptor, once one did.
    bell: OnceLock<Option<Bell>>,
    /// Whether the channel's memory is this process's no longer; see `cut_off`.
    pub(super) ended: AtomicBool,
    pub(super) cut: Mutex<bool>,
    /// Buffers of this function's own, which end with it.
    pub buffers: Adopted,
}

/// A posted call in one word; never 0.
#[inline(always)]
fn name(ticket: &Ticket) -> u64 {
    (ticket.cell() as u64 + 1) << 32 | u64::from(ticket.seq())
}

/// What a look that is not in vain found.
pub(super) enum LookOutcome {
    Answer(Outcome),
    Lost(Error),
}

impl WindowCalls {
    pub(super) fn new(
        window: Arc<Window>,
        memory: WindowMemory,
        (results, sleeps): (ReadSpan, ReadWord),
        spaces: Option<Arc<Spaces>>,
        info: &GrantInfo,
        policy: WaitPolicy,
        (place, bells): (BellPlace, Bells),
    ) -> Self {
        WindowCalls {
            caller: Caller::new(memory, info.depth, info.cell_bytes),
            window,
            spaces,
            results,
            sleeps,
            cell_bytes: info.cell_bytes as usize,
            max_args: info.max_args(),
            place,
            bells,
            deadline: info.deadline,
            policy: if bells.rung { policy } else { policy.without_doorbell() },
            learned: WaitHistory::default(),
            learned_of_claims: WaitHistory::default(),
            rung: AtomicU64::new(0),
            abandoned: Abandoned::default(),
            life: ServiceLife::default(),
            polls: AtomicU32::new(0),
            waiters: Mutex::new(Vec::new()),
            bell: OnceLock::new(),
            ended: AtomicBool::new(false),
            cut: Mutex::new(false),
            buffers: Adopted::default(),
        }
    }

    /// The channel's memory, if no part of it is lent out as plain bytes.
    pub fn memory_without_spaces(&self) -> Option<&WindowMemory> {
        self.spaces.is_none().then(|| self.caller.memory())
    }

    pub(super) fn sides(&self) -> ChannelSides<'_> {
        let (memory, depth) = (self.caller.memory(), self.caller.depth());
        ChannelSides { memory, depth, cell_bytes: self.cell_bytes }
    }

    /// Claims, posts, waits, takes.
    #[inline(always)]
    pub fn call<S: Sink>(&self, command: Command, args: &[u8], sink: S) -> Result<S::Out> {
        self.check(args.len())?;
        let claim = match self.try_claim() {
            Some(claim) => claim,
            None => self.wait_for_cell(None)?,
        };
        let ticket = self.post(claim, command, args)?;
        self.land(ticket, sink)
    }

    /// Claims and posts; fails if every cell is in use. What is made of the ticket is put
    /// together in its place: a ticket in a result would be moved once more.
    #[inline(always)]
    pub fn submit<T>(
        &self,
        command: Command,
        args: &[u8],
        made: impl FnOnce(Ticket) -> T,
    ) -> Result<T> {
        self.check(args.len())?;
        let claim = self.claim()?;
        if args.len() > INLINE_BYTES {
            return self.post_filled(claim, command, args).map(made);
        }
        let ticket = self.caller.post_inline(claim, command, args);
        self.ring_seen(&ticket);
        Ok(made(ticket))
    }

    /// Waits for an answer without a limit, and takes it.
    #[inline(always)]
    pub fn land<S: Sink>(&self, ticket: Ticket, sink: S) -> Result<S::Out> {
        match self.first_looks(&ticket) {
            PollQuick::Inline(len) => sink.inline(len, &self.caller, ticket),
            PollQuick::Space(len) => self.finish_space(ticket, len, sink),
            _ => self.land_later(ticket, sink),
        }
    }

    /// The same after the first looks.
    #[inline(never)]
    fn land_later<S: Sink>(&self, ticket: Ticket, sink: S) -> Result<S::Out> {
        match self.wait_longer(ticket, None, sink) {
            CallEnd::Done(result) => result,
            CallEnd::Flying(_) => Err(Error::TimedOut(Duration::ZERO)),
        }
    }

    #[inline(always)]
    fn check(&self, len: usize) -> Result<()> {
        // A channel of an earlier generation may be somebody else's memory now.
        if len > self.max_args || self.window.is_stale() {
            return Err(self.refusal(len));
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn refusal(&self, len: usize) -> Error {
        if len > self.max_args {
            return Error::ArgumentsTooLong { len, max: self.max_args };
        }
        self.window.renewed()
    }

    /// Whether the function was released, by this app or by the host.
    pub fn is_released(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.caller.broken() == Some(BreakReason::Released)
    }

    /// As [`WindowCalls::check`], for cells that may have been held for long.
    pub fn check_open(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) {
            return Err(Error::Released);
        }
        self.window.check_generation()
    }

    #[inline(always)]
    fn try_claim(&self) -> Option<Claim> {
        self.abandoned.on_claim(&self.caller);
        self.caller.claim().ok()
    }

    /// A cell, or [`Error::Full`].
    #[inline(always)]
    pub fn claim(&self) -> Result<Claim> {
        match self.try_claim() {
            Some(claim) => Ok(claim),
            None => self.claim_reaped().ok_or_else(|| match self.caller.broken() {
                Some(reason) => self.lost(reason),
                None => Error::Full { depth: self.caller.depth() },
            }),
        }
    }

    /// The error of a broken channel; lets go of one that the host released, as it
    /// may give its memory to others from now on.
    #[cold]
    fn lost(&self, reason: BreakReason) -> Error {
        if reason == BreakReason::Released {
            let _ = self.cut_off();
        }
        Error::of_break(reason)
    }

    #[cold]
    fn claim_reaped(&self) -> Option<Claim> {
        self.abandoned.reap(&self.caller);
        self.caller.claim().ok()
    }

    /// A cell, as soon as another thread takes its results. If none does for
    /// longer than any call may take, the cells are held by this program itself.
    #[cold]
    pub(super) fn wait_for_cell(&self, limit: Option<Instant>) -> Result<Claim> {
        let latest = Instant::now() + self.deadline + UNANSWERED;
        let until = limit.map_or(latest, |limit| limit.min(latest));
        let mut turn = 0u32;
        let look = |hard: bool| -> Option<Result<Claim>> {
            // A try walks all cells and counts on tickets that others use: seldom.
            turn = turn.wrapping_add(1);
            if !hard && !turn.is_multiple_of(CLAIM_LOOKS) {
                return None;
            }
            if let Some(claim) = self.claim_reaped() {
                return Some(Ok(claim));
            }
            if hard {
                if let Some(reason) = self.caller.broken() {
                    return Some(Err(self.lost(reason)));
                }
                let gone = self.window.check_generation().err();
                return gone.or_else(|| self.nobody_left()).map(Err);
            }
            None
        };
        wait_long(&self.policy, &self.learned_of_claims, &NoBell, false, Some(until), look)
            .unwrap_or(Err(Error::Full { depth: self.caller.depth() }))
    }

    /// Gives an unposted cell back.
    pub fn unclaim(&self, claim: Claim) {
        self.caller.unclaim(claim);
    }

    /// A claimed cell's data space, if the channel has any.
    pub fn space(&self, claim: &Claim) -> Option<Space> {
        self.spaces.as_ref()?.lend(claim.cell())
    }

    #[inline(always)]
    pub fn post(&self, claim: Claim, command: Command, args: &[u8]) -> Result<Ticket> {
        if args.len() > INLINE_BYTES {
            return self.post_filled(claim, command, args);
        }
        let ticket = self.caller.post_inline(claim, command, args);
        self.ring_seen(&ticket);
        Ok(ticket)
    }

    #[inline(never)]
    fn post_filled(&self, claim: Claim, command: Command, args: &[u8]) -> Result<Ticket> {
        let filled = self.spaces.as_ref().map(|s| s.fill(claim.cell(), args));
        if !matches!(filled, Some(Ok(()))) {
            return self.refuse(claim, args.len());
        }
        let ticket = self.caller.post_space(claim, command, args.len() as u32);
        self.ring_seen(&ticket);
        Ok(ticket)
    }

    /// Posts a claimed cell whose data space already holds the arguments.
    pub fn post_written(&self, claim: Claim, command: Command, len: usize) -> Result<Ticket> {
        if len > self.cell_bytes {
            return self.refuse(claim, len);
        }
        let ticket = self.caller.post_space(claim, command, len as u32);
        self.ring_seen(&ticket);
        Ok(ticket)
    }

    #[cold]
    fn refuse(&self, claim: Claim, len: usize) -> Result<Ticket> {
        self.caller.unclaim(claim);
        Err(Error::ArgumentsTooLong { len, max: self.max_args })
    }

    /// After a post: rings if the service is seen asleep. It may just be going
    /// to sleep; [`Sleeper::nudge`], or its own first short sleep, catches that.
    #[inline(always)]
    fn ring_seen(&self, ticket: &Ticket) {
        if self.sleeps.load(Ordering::Relaxed) != 0 {
            self.ring_for(name(ticket));
        }
    }

    /// Rings, and remembers for which call: one that waits need not ring again
    /// while the service is on its way.
    #[cold]
    fn ring_for(&self, call: u64) {
        // What was posted is out before the ring, as it would be before a look.
        fence(Ordering::SeqCst);
        self.ring();
        self.rung.store(call, Ordering::Relaxed);
    }

    #[cold]
    fn ring(&self) {
        if self.bells.ring {
            self.window.transport.ring(self.place);
        }
    }

    /// The looks that every wait begins with.
    #[inline(always)]
    fn first_looks(&self, ticket: &Ticket) -> PollQuick {
        for _ in 0..self.policy.policy().first_looks() {
            match self.caller.poll_quick(ticket) {
                PollQuick::NotYet => pause(),
                found => return found,
            }
        }
        PollQuick::NotYet
    }

    /// Waits for an answer and takes it.
    #[inline(always)]
    pub fn wait<S: Sink>(
        &self,
        ticket: Ticket,
        until: Option<Instant>,
        sink: S,
    ) -> CallEnd<S::Out> {
        match self.first_looks(&ticket) {
            PollQuick::Inline(len) => CallEnd::Done(sink.inline(len, &self.caller, ticket)),
            PollQuick::Space(len) => CallEnd::Done(self.finish_space(ticket, len, sink)),
            _ => self.wait_longer(ticket, until, sink),
        }
    }

    /// Any other answer, or a longer wait.
    #[inline(never)]
    fn wait_longer<S: Sink>(
        &self,
        ticket: Ticket,
        until: Option<Instant>,
        sink: S,
    ) -> CallEnd<S::Out> {
        let seen = match self.caller.poll_outcome(&ticket) {
            PollOutcome::Done(outcome) => Some(LookOutcome::Answer(outcome)),
            _ => self.wait_on(&ticket, until),
        };
        match seen {
            Some(LookOutcome::Answer(outcome)) => CallEnd::Done(self.finish(ticket, outcome, sink)),
            Some(LookOutcome::Lost(e)) => {
                self.abandon(ticket);
                CallEnd::Done(Err(e))
            }
            None => CallEnd::Flying(Flight::Cell(ticket)),
        }
    }

    /// Waits for an answer and leaves it in its cell, which stays this call's
    /// until [`WindowCalls::take`] or [`WindowCalls::keep`].
    pub fn wait_kept(&self, ticket: Ticket) -> Result<(Ticket, Outcome)> {
        match self.wait_on(&ticket, None) {
            Some(LookOutcome::Answer(outcome)) => Ok((ticket, outcome)),
            Some(LookOutcome::Lost(e)) => {
                self.abandon(ticket);
                Err(e)
            }
            None => {
                self.abandon(ticket);
                Err(Error::TimedOut(Duration::ZERO))
            }
        }
    }

    /// The results of an answer that is still in its cell.
    pub fn read_kept<S: Sink>(&self, ticket: &Ticket, answer: Outcome, sink: S) -> Result<S::Out> {
        let (off, len) = (ticket.cell() * self.cell_bytes, answer.len as usize);
        let mut room = [0; INLINE_BYTES];
        let inline = &mut room[..if answer.in_space { 0 } else { len }];
        self.caller.inline_results(ticket, inline);
        let done = match (answer.status, answer.in_space) {
            (0, true) => sink.shared(&self.results, off, len),
            (0, false) => sink.private(inline),
            _ => Err(self.failure(inline, answer, off)),
        };
        // What was read while the channel was let go of is not used.
        if self.caller.stands(ticket) { done } else { Err(Error::Released) }
    }

    /// Frees the cell of an answer that was kept.
    pub fn take(&self, ticket: Ticket) {
        self.caller.take(ticket);
    }

    /// The cell of an answer that was kept, for another call.
    pub fn keep(&self, ticket: Ticket) -> Claim {
        self.caller.keep(ticket)
    }

    /// Waits for an answer and leaves it in its cell.
    pub fn ready(&self, ticket: &Ticket, until: Option<Instant>) -> bool {
        self.first_looks(ticket) != PollQuick::NotYet
            || self.poll(ticket)
            || self.wait_on(ticket, until).is_some()
    }

    /// Whether waiting for this call would end at once. Whether anybody is left who
    /// would answer takes longer to find out than the rest, and is asked now and then.
    pub fn poll(&self, ticket: &Ticket) -> bool {
        let turn = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(turn, Ordering::Relaxed);
        match turn.is_multiple_of(POLLS_A_HARD_ONE) {
            true => self.poll_hard(ticket),
            false => self.see(ticket, true).is_some(),
        }
    }

    /// The same, and whether anybody is left who would answer.
    pub fn poll_hard(&self, ticket: &Ticket) -> bool {
        self.see(ticket, true).is_some() || self.nobody_left().is_some()
    }

    pub fn state(&self, ticket: &Ticket) -> CellState {
        self.caller.state(ticket)
    }

    pub fn abandon(&self, ticket: Ticket) {
        self.abandoned.push(&self.caller, ticket);
    }

    #[cold]
    #[inline(never)]
    fn wait_on(&self, ticket: &Ticket, until: Option<Instant>) -> Option<LookOutcome> {
        let rung = self.rung.load(Ordering::Relaxed) == name(ticket);
        let mut still = AnswerWatch::default();
        let look = |hard: bool| match self.see(ticket, hard) {
            None if hard => {
                still.check(self, ticket).or_else(|| self.nobody_left()).map(LookOutcome::Lost)
            }
            seen => seen,
        };
        wait_long(&self.policy, &self.learned, self, rung, until, look)
    }

    /// What there is to see of a call; a hard look checks what changes seldom.
    pub(super) fn see(&self, ticket: &Ticket, hard: bool) -> Option<LookOutcome> {
        let looked = if hard { self.caller.look_hard(ticket) } else { self.caller.look(ticket) };
        match looked {
            PollAnswer::Done(a) => Some(LookOutcome::Answer(Outcome {
                status: a.status,
                len: a.len,
                in_space: a.in_space,
            })),
            PollAnswer::Broken(reason) => Some(LookOutcome::Lost(self.lost(reason))),
            PollAnswer::Nonsense => Some(LookOutcome::Lost(Error::HostNonsense(format!(
                "the answer in cell {} has an impossible state or length",
                ticket.cell()
            )))),
            PollAnswer::NotYet if hard => {
                self.window.check_generation().err().map(LookOutcome::Lost)
            }
            PollAnswer::NotYet => None,
        }
    }

    /// The error of a call whose service and manager are both gone.
    pub(super) fn nobody_left(&self) -> Option<Error> {
        self.life.check(self.caller.memory(), || self.window.manager_gone())
    }

    /// Copies results (or an error's words) once, then frees the cell.
    fn finish<S: Sink>(&self, ticket: Ticket, answer: Outcome, sink: S) -> Result<S::Out> {
        if !answer.in_space && answer.status == 0 {
            return sink.inline(answer.len as usize, &self.caller, ticket);
        }
        // Frees the cell even if the sink panics.
        let taken = FreedOnDrop { caller: &self.caller, ticket: Some(ticket) };
        match &taken.ticket {
            Some(ticket) => self.read_kept(ticket, answer, sink),
            None => Err(Error::Released),
        }
    }

    /// The same for results in the cell's data space.
    #[inline(never)]
    fn finish_space<S: Sink>(&self, ticket: Ticket, len: usize, sink: S) -> Result<S::Out> {
        let taken = FreedOnDrop { caller: &self.caller, ticket: Some(ticket) };
        let Some(ticket) = &taken.ticket else { return Err(Error::Released) };
        let done = sink.shared(&self.results, ticket.cell() * self.cell_bytes, len);
        // What was read while the channel was let go of is not used.
        if self.caller.stands(ticket) { done } else { Err(Error::Released) }
    }

    /// The error of an answer that is one; its words are `inline` or in the cell's space.
    #[cold]
    fn failure(&self, inline: &[u8], answer: Outcome, off: usize) -> Error {
        let mut words = inline.to_vec();
        if answer.in_space {
            words = vec![0; (answer.len as usize).min(DRIVER_SENTENCE)];
            let _ = self.results.read(off, &mut words);
        }
        let broken = || self.lost(self.caller.broken().unwrap_or(BreakReason::NoService));
        match Error::of_status(answer.status, &words) {
            Some(Error::Broken(_)) | None => broken(),
            Some(e) => e,
        }
    }
}

/// For a program that sleeps elsewhere, on a descriptor.
impl WindowCalls {
    /// What rings when there is an answer; `None`: it must look by the clock.
    pub fn bell(&self) -> Option<Bell> {
        let made = || self.window.transport.bell(self.place)?.ok();
        self.bells.rung.then(|| self.bell.get_or_init(made).clone()).flatten()
    }

    /// Declares that a program sleeps, once its bell is listened to, and makes sure
    /// that the service is awake. Look after it.
    pub fn sleep_elsewhere(&self) {
        if self.bells.rung {
            self.caller.declare_sleep();
        }
        self.nudge();
    }

    /// Takes that declaration back.
    pub fn awake_elsewhere(&self) {
        if self.bells.rung {
            self.caller.declare_awake();
        }
    }
}

/// A cell that is freed when this goes.
struct FreedOnDrop<'a> {
    caller: &'a Caller<WindowMemory>,
    ticket: Option<Ticket>,
}

impl Drop for FreedOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.caller.take(ticket);
        }
    }
}

/// Tells a slow channel from one that nobody serves: calls answered since.
#[derive(Default)]
struct AnswerWatch(Option<(Instant, u64)>);

impl AnswerWatch {
    fn check(&mut self, w: &WindowCalls, ticket: &Ticket) -> Option<Error> {
        if w.deadline.is_zero() || w.caller.waits_for_event(ticket) {
            self.0 = None;
            return None;
        }
        let now = Instant::now();
        let calls = w.caller.memory().load(in_header::CALLS, Ordering::Relaxed);
        match self.0 {
            Some((since, seen)) if seen == calls => {
                let over = now.duration_since(since).checked_sub(w.deadline)?;
                (over >= UNANSWERED).then_some(Error::Unanswered(over))
            }
            _ => {
                self.0 = Some((now, calls));
                None
            }
        }
    }
}

impl Sleeper for WindowCalls {
    fn nudge(&self) {
        if self.bells.ring && self.caller.must_ring() {
            self.ring();
        }
    }

    fn declare(&self) -> Option<Box<dyn DoorbellWaiter>> {
        if !self.bells.rung {
            return None;
        }
        let kept = self.waiters.lock().unwrap_or_else(|e| e.into_inner()).pop();
        // Before declaring: a ring must find it there.
        let waiter = kept.or_else(|| self.window.transport.waiter(self.place)?.ok())?;
        self.caller.declare_sleep();
        Some(waiter)
    }

    fn awake(&self, waiter: Box<dyn DoorbellWaiter>) {
        self.caller.declare_awake();
        self.waiters.lock().unwrap_or_else(|e| e.into_inner()).push(waiter);
    }

    fn soon(&self) -> bool {
        self.caller.is_handed()
    }
}

/// A place without a doorbell: waits for what this process itself will free.
struct NoBell;

impl Sleeper for NoBell {
    fn nudge(&self) {}
    fn declare(&self) -> Option<Box<dyn DoorbellWaiter>> {
        None
    }
    fn awake(&self, _: Box<dyn DoorbellWaiter>) {}
}
