//! One channel of calls: from a checked request to an answer.

mod open;

use super::engine::Serve;
use super::fault;
use super::held::OpenCells;
use super::idle::{ChannelWork, LookOutcome};
use super::meter::Meter;
use super::pulse::Pulse;
use super::throttle::{self, Throttle};
use crate::abi::{self, INLINE_BYTES};
use crate::error::cut;
use crate::loader::{ArgsAt, OutAt};
use crate::{CallOutcome, DriverError, abi::SENTENCE_BYTES};
use std::sync::Arc;
use std::sync::atomic::fence;
use vfun_ring::{Memory, Next, Request, Server, WindowMemory, sync::Ordering};
use vfun_supervise::Lengths;
use vfun_wait::clock;
use vfun_window::{Bell, OutOfBounds, ReadSpan, WriteSpan, pause};
use vfun_wire::Status;
use vfun_wire::channel::{Command, in_header, spaces_off};

/// Looks for a first call until whoever still sleeps is rung, some 50 µs: one that was
/// rung by the last service is awake by then.
const LOOKS_UNRUNG: u32 = 640;
/// And from then on between two times that others are let run, some 10 µs.
const LOOKS_AWAKE: u32 = 128;

/// A channel and what computes its calls.
pub struct Calls<I> {
    server: Server<WindowMemory>,
    instance: I,
    open: OpenCells,
    pulse: Arc<Pulse>,
    app: Option<Bell>,
    args_spaces: ReadSpan,
    out_spaces: WriteSpan,
    /// Where `out_spaces` begins in this side's memory, bytes.
    out_off: usize,
    cell_bytes: usize,
    /// Lengths of arguments that get to the driver.
    lengths: Lengths,
    /// The function has a signature: who breaks it is told what it says.
    signed: bool,
    /// Room for results in a data space; 0: results go through `private`.
    out_bytes: usize,
    private: [u8; INLINE_BYTES],
    /// The window names a call as being computed.
    current: bool,
    /// Answers went out after which nobody was rung.
    unrung: bool,
    meter: Meter,
    throttle: Throttle,
    leased: bool,
    /// The device is gone: which cell's call met that, and what the driver said.
    lost: Option<(usize, String)>,
    /// The cell whose call was to wait for its time when this service was to stop.
    put_back: Option<usize>,
    /// Taken on the way to the call that was left half done, and not served yet.
    behind: Vec<Request>,
}

/// What a channel of calls is made of.
pub struct Shape {
    pub depth: u16,
    pub cell_bytes: u32,
    pub max_args: u32,
    pub max_result: u32,
    /// What the function's signature says, if it has one.
    pub args: Option<Lengths>,
    /// What a call that an earlier service left half done is answered with.
    pub left: Status,
    /// It runs on a leased VF: somebody else can serve it if that is lost.
    pub leased: bool,
    /// Another service has had it: what that said of its bound, if it said anything.
    pub after: Option<Option<u64>>,
}

impl<I: Serve> Calls<I> {
    /// Takes up the channel in `mem`.
    pub fn new(
        mem: WindowMemory,
        shape: &Shape,
        open: OpenCells,
        instance: I,
        pulse: Arc<Pulse>,
        app: Option<Bell>,
    ) -> Result<Self, OutOfBounds> {
        let (off, cell_bytes) = (spaces_off(shape.depth), shape.cell_bytes as usize);
        let bytes = usize::from(shape.depth) * cell_bytes;
        let in_space = shape.max_result as usize > INLINE_BYTES && cell_bytes > 0;
        let mut calls = Calls {
            args_spaces: mem.theirs().part(off, bytes)?,
            out_spaces: mem.mine().part(off, bytes)?,
            out_off: off,
            cell_bytes,
            lengths: lengths(shape),
            signed: shape.args.is_some(),
            out_bytes: if in_space { cell_bytes.min(shape.max_result as usize) } else { 0 },
            private: [0; INLINE_BYTES],
            meter: Meter::new(&mem),
            throttle: match shape.after {
                None => Throttle::default(),
                Some(used) => Throttle::going_on(pulse.rate(), used, clock::now),
            },
            leased: shape.leased,
            lost: None,
            put_back: None,
            behind: vec![],
            server: Server::new(mem, shape.depth, shape.cell_bytes),
            instance,
            open,
            pulse,
            app,
            current: true,
            unrung: true,
        };
        let current = calls.server.memory().load_own(in_header::CURRENT, Ordering::Relaxed);
        calls.finish_half_done(current, shape);
        calls.rest();
        Ok(calls)
    }

    /// Serves what was taken on the way to the call that was left half done. After
    /// it was said that the channel is served: each of them may take as long as any.
    pub fn serve_behind(&mut self) {
        for r in std::mem::take(&mut self.behind) {
            if self.leaves() || self.pulse.stopping() {
                self.put_back.get_or_insert(r.cell);
                return;
            }
            self.serve_apart(&r);
        }
        self.rest();
    }

    #[inline(never)]
    fn serve_apart(&mut self, r: &Request) {
        self.serve_request(r);
    }

    /// Whether the channel is to be left now, for a call that another service begins with.
    pub fn leaves(&self) -> bool {
        self.lost.is_some() || self.put_back.is_some()
    }

    /// Serves the first call, if one comes within `most` ns: whoever posted it
    /// has waited while one service let go of the channel and another took it up.
    pub fn serve_first(&mut self, most: u64) {
        if !self.behind.is_empty() {
            return; // those come before
        }
        let mut look = match self.server.next() {
            Next::Nothing => self.server.next_anywhere(),
            found => found,
        };
        let (from, mut steps) = (clock::now(), 0u32);
        loop {
            match look {
                Next::Call(r) => {
                    self.serve_apart(&r);
                    return self.rest();
                }
                Next::Nothing if clock::now().saturating_sub(from) < most => {
                    steps += 1;
                    if steps == LOOKS_UNRUNG && self.owes_ring() && self.server.must_ring() {
                        // Asleep on an answer that the last service did not ring for.
                        self.ring();
                    }
                    if steps >= LOOKS_UNRUNG && steps.is_multiple_of(LOOKS_AWAKE) {
                        // The app may need this very processor to post it.
                        std::thread::yield_now();
                    }
                    pause();
                }
                Next::Nothing | Next::Broken(_) => return,
            }
            look = self.server.next();
        }
    }

    /// Says that the channel is served.
    pub fn settle(&self) {
        match self.behind.first() {
            // Should this service die, the next one begins there as well.
            Some(r) => self.server.settle_at(r.cell),
            None => self.server.settle(),
        }
    }

    /// From here on no call is timed; for who counts instructions.
    pub fn time_none(&mut self) {
        self.meter.time_none();
    }

    #[inline(always)]
    fn compute(&mut self, r: &Request) -> Result<CallOutcome, DriverError> {
        let (command, len) = match r.command {
            Command::Set => (abi::COMMAND_SET, r.len as usize),
            Command::Rst => (abi::COMMAND_RST, 0),
        };
        let space = r.cell * self.cell_bytes;
        let args = if r.in_space {
            // Within the cell's space: the ring has checked the length.
            ArgsAt::window(&self.args_spaces, space, len).map_err(outside)?
        } else {
            ArgsAt::private(&r.inline[..len])
        };
        let out = if self.out_bytes > 0 {
            OutAt::window(&self.out_spaces, space, self.out_bytes).map_err(outside)?
        } else {
            OutAt::private(&mut self.private)
        };
        self.instance.run(command, args, out)
    }

    #[inline(always)]
    fn answer(&mut self, cell: usize, len: usize) {
        if self.out_bytes == 0 {
            // As they are: a copy of all 48 bytes would wait for the driver's stores.
            self.server.answer_inline(cell, Status::Ok, &self.private[..len.min(INLINE_BYTES)]);
        } else if len <= INLINE_BYTES {
            let from = (self.out_off + cell * self.cell_bytes) / 8;
            self.server.answer_own(cell, Status::Ok, from, len);
        } else {
            self.server.answer_space(cell, Status::Ok, len as u32);
        }
    }

    /// Answers with the driver's code and sentence: 4 bytes little-endian,
    /// then UTF-8. In the cell's data space where they do not fit its line.
    #[cold]
    fn refuse(&mut self, cell: usize, e: &DriverError) {
        if e.code == abi::RESULT_TOO_LARGE {
            self.server.answer_inline(cell, Status::ResultTooLarge, &[]);
            return;
        }
        let mut bytes = [0; 4 + SENTENCE_BYTES];
        if 4 + e.sentence.len() > INLINE_BYTES && self.cell_bytes > INLINE_BYTES {
            let n = encode(e, self.cell_bytes, &mut bytes);
            if self.out_spaces.write(cell * self.cell_bytes, &bytes[..n]).is_ok() {
                self.server.answer_space(cell, Status::DriverError, n as u32);
                return;
            }
        }
        let n = encode(e, INLINE_BYTES, &mut bytes);
        self.server.answer_inline(cell, Status::DriverError, &bytes[..n]);
    }

    /// Inlined where calls are looked for, so that what the look found stays in registers.
    #[inline(always)]
    fn serve_request(&mut self, r: &Request) {
        let rate = self.pulse.rate();
        if rate != 0 && (self.put_back.is_some() || !self.hold_back(rate)) {
            self.put_back.get_or_insert(r.cell);
            return;
        }
        fault::in_call(self.server.memory(), r, "taken");
        if !self.lengths.fit(r.len) && !self.bears(r) {
            self.refuse_length(r);
        } else {
            self.server.begin(r.cell, r.seq);
            self.current = true;
            fault::in_call(self.server.memory(), r, "begun");
            self.pulse.begin();
            let timed = self.meter.due().then(|| self.timed_from());
            let done = self.compute(r);
            if let Some(from) = timed {
                self.timed_until(from, matches!(done, Ok(CallOutcome::Later)));
            }
            self.pulse.end();
            fault::in_call(self.server.memory(), r, "computed");
            match done {
                Ok(CallOutcome::Done(len)) => self.answer(r.cell, len),
                Ok(CallOutcome::Later) => return self.hold(r),
                Err(e) if self.leased && e.code == abi::DEVICE_LOST => return self.lose(r.cell, e),
                Err(e) => self.refuse(r.cell, &e),
            }
            fault::in_call(self.server.memory(), r, "answered");
        }
        self.unrung = true;
        if self.server.seems_asleep() {
            self.ring();
        }
    }

    /// The call stays in its cell, and whoever serves the channel next begins with it.
    #[cold]
    fn lose(&mut self, cell: usize, e: DriverError) {
        if self.lost.is_none() {
            self.lost = Some((cell, e.sentence));
        }
        // Not where the channel ends: nobody goes on with it.
        if !self.pulse.stopping() {
            self.pulse.hand_over();
        }
    }

    /// What the driver said, if its device is gone.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_ref().map(|(_, words)| words.as_str())
    }

    /// Policy bounds the calls a second: this one waits for its time. Nothing
    /// is refused, so that an app that is too fast is merely slowed down. False if
    /// it is not its time yet and this service is to stop: whoever serves the
    /// channel next begins with it.
    #[inline(never)]
    fn hold_back(&mut self, rate: u32) -> bool {
        let wait = self.throttle.take(rate, clock::now);
        if wait == 0 {
            return true;
        }
        // As before any sleep: nothing is being computed, and a caller that
        // declared sleep just after its answer is rung.
        self.rest();
        if self.owes_ring() && self.server.must_ring() {
            self.ring();
        }
        let pulse = self.pulse.clone();
        throttle::sleep(&pulse, wait, || _ = self.deliver(true));
        self.meter.waited(self.server.memory(), 0, wait);
        if self.pulse.stopping() {
            self.throttle.put_back();
            return false;
        }
        true
    }

    /// For the service that goes on with the channel: what of its bound is used.
    pub fn used(&self) -> u64 {
        self.throttle.used(clock::now)
    }

    /// When the call began that is timed.
    #[cold]
    #[inline(never)]
    fn timed_from(&mut self) -> u64 {
        let from = clock::now();
        if self.meter.turn_is_over(from) {
            std::thread::yield_now();
            return clock::now();
        }
        from
    }

    /// That call was computed.
    #[cold]
    #[inline(never)]
    fn timed_until(&mut self, from: u64, later: bool) {
        let now = clock::now();
        self.meter.took(self.server.memory(), now.saturating_sub(from), now);
        // A caller that never pauses must not keep others from their answers. Where
        // this call is held, its own answer may be among them: not before it is.
        if !later {
            self.deliver(true);
        }
    }

    /// What `rst` carries does not count.
    #[cold]
    fn bears(&self, r: &Request) -> bool {
        r.command == Command::Rst && r.len <= self.lengths.max
    }

    /// Before the driver is asked: the length cannot be right.
    #[cold]
    fn refuse_length(&mut self, r: &Request) {
        if !self.signed {
            self.server.answer_inline(r.cell, Status::BadLength, &[]);
            return;
        }
        let Lengths { min, max, step } = self.lengths;
        // At most 44 bytes: cells without data space hold no more.
        let sentence = match r.len {
            n if min == max => format!("arguments: {n} bytes, not {min}"),
            n if n < min => format!("arguments: {n} bytes, at least {min}"),
            n if n > max => format!("arguments: {n} bytes, at most {max}"),
            n => format!("arguments: {n} bytes, not {min} + n * {step}"),
        };
        self.refuse(r.cell, &DriverError::bad_args(sentence));
    }

    #[cold]
    fn ring(&mut self) {
        if let Some(bell) = &self.app {
            // The answer is out before the ring, as it would be before a look.
            fence(Ordering::SeqCst);
            self.server.about_to_ring();
            bell.ring();
            self.unrung = false;
        }
    }
}

/// The driver's own limit, and what the signature says within it.
fn lengths(shape: &Shape) -> Lengths {
    let any = Lengths { min: 0, max: shape.max_args, step: 1 };
    shape.args.map_or(any, |a| Lengths { max: a.max.min(shape.max_args), ..a })
}

/// An error as the caller gets it, at most `most` bytes: how many there are.
fn encode(e: &DriverError, most: usize, to: &mut [u8; 4 + SENTENCE_BYTES]) -> usize {
    let n = cut(&e.sentence, (most - 4).min(SENTENCE_BYTES));
    to[..4].copy_from_slice(&(e.code as u32).to_le_bytes());
    to[4..4 + n].copy_from_slice(&e.sentence.as_bytes()[..n]);
    4 + n
}

#[cold]
fn outside(e: OutOfBounds) -> DriverError {
    DriverError::new(abi::PANIC, format!("the service's fault: {e}"))
}

impl<I: Serve> ChannelWork for Calls<I> {
    type Look = Next;

    #[inline(always)]
    fn next(&mut self, look: &mut Next) {
        self.server.next_into(look);
    }

    fn next_anywhere(&mut self) -> Next {
        self.server.next_anywhere()
    }

    #[inline]
    fn seen(next: &Next) -> LookOutcome {
        // First what is usual: one comparison tells it from all others.
        if let Next::Call(_) = next {
            return LookOutcome::Request;
        }
        if let Next::Broken(v) = next { LookOutcome::Broken(*v) } else { LookOutcome::Nothing }
    }

    #[inline(always)]
    fn serve(&mut self, next: &Next) {
        if let Next::Call(r) = next {
            self.serve_request(r);
        }
    }

    /// Between two calls that follow at once the window keeps naming the
    /// first, which is answered, until it names the second.
    #[inline]
    fn rest(&mut self) {
        if self.current {
            self.current = false;
            self.server.idle();
        }
    }

    #[inline]
    fn deliver(&mut self, hard: bool) -> bool {
        // Answers may be of calls that ended otherwise: they take room until they are read.
        (!self.open.is_empty() || self.open.has_answers()) && self.publish_answers(hard)
    }

    fn due(&self) -> Option<u64> {
        self.open.due()
    }

    fn leave(&mut self) {
        self.finish_begun();
        self.current = false;
        match self.lost.as_ref().map(|(cell, _)| *cell).or(self.put_back) {
            Some(cell) => self.server.leave_at(cell),
            None => self.server.leave(),
        }
    }

    fn owes_ring(&mut self) -> bool {
        let refused = self.server.refused();
        std::mem::take(&mut self.unrung) || refused
    }

    fn spent(&mut self, awake: u64, asleep: u64) {
        self.meter.waited(self.server.memory(), awake, asleep);
    }

    fn server(&self) -> &Server<WindowMemory> {
        &self.server
    }
}
