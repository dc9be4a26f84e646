//! What can run in the machine. All of it is plain safe code that also runs on the host;
//! it makes no system call, allocates nothing, and comes back within milliseconds.

use vfun_ring::sync::Ordering;
use vfun_ring::{Caller, Memory, PollQuick, Ticket, WindowMemory};
use vfun_window::{cycles, pause};
use vfun_wire::channel::{Command, line_off};

/// Looks for an answer before the host is asked for help: less than a millisecond.
const LOOKS: u32 = 1 << 14;

/// Why a job came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// The vCPU did all that it was asked.
    Done = 1,
    /// An answer stays out: ring who sleeps, look whether anybody is left, run it again.
    Late = 2,
    /// An answer is wrong.
    Wrong = 3,
}

impl Stop {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Stop::Done, Stop::Late, Stop::Wrong].into_iter().find(|&s| s as u32 == number)
    }
}

mod sealed {
    /// Only this crate's jobs: what runs in the machine ends in mid-air if the machine
    /// stops, and nothing that it holds is dropped.
    pub trait Sealed {}
}

/// Work for the machine's processor.
pub trait Job: sealed::Sealed {
    /// Goes on until it is done or needs help.
    fn go(&mut self) -> Stop;
}

/// Times between the ends of one thing and the next, in the counter's cycles where it ran.
struct Samples {
    /// Made (and its pages touched) beforehand.
    cycles: Vec<u64>,
    taken: usize,
    limit: u64,
    /// When the first began, once it did.
    from: Option<u64>,
    last: u64,
}

impl Samples {
    fn new(most: u32, limit: u64) -> Self {
        Samples { cycles: vec![1; most.max(1) as usize], taken: 0, limit, from: None, last: 0 }
    }

    #[inline(always)]
    fn begin(&mut self) {
        if self.from.is_none() {
            self.last = cycles();
            self.from = Some(self.last);
        }
    }

    /// One more. Whether it was the last.
    #[inline(always)]
    fn take(&mut self) -> bool {
        let now = cycles();
        if let Some(sample) = self.cycles.get_mut(self.taken) {
            *sample = now.wrapping_sub(self.last);
            self.taken += 1;
        }
        self.last = now;
        let ran = now.wrapping_sub(self.from.unwrap_or(now));
        self.taken == self.cycles.len() || ran > self.limit
    }

    fn taken(self) -> Vec<u64> {
        let mut cycles = self.cycles;
        cycles.truncate(self.taken);
        cycles
    }
}

/// Calls of a function that answers its arguments, one after the other, each timed: with
/// `N` bytes, at most 8, which are the call's number. Each answer must be those bytes.
pub struct Calls<'a, const N: usize> {
    caller: &'a Caller<WindowMemory>,
    samples: Samples,
    flying: Option<Ticket>,
}

impl<'a, const N: usize> Calls<'a, N> {
    /// Until there are `most`, or so many of the counter's cycles have passed.
    pub fn new(caller: &'a Caller<WindowMemory>, most: u32, limit: u64) -> Self {
        const { assert!(N <= 8) };
        Calls { caller, samples: Samples::new(most, limit), flying: None }
    }

    /// The cycles of each call.
    pub fn samples(self) -> Vec<u64> {
        self.samples.taken()
    }

    #[inline(always)]
    fn args(&self) -> [u8; N] {
        let mut args = [0; N];
        args.copy_from_slice(&(self.samples.taken as u64).to_le_bytes()[..N]);
        args
    }

    /// Posts the next call. `None`: no cell is free, though this job frees each.
    #[inline(always)]
    fn post(&self) -> Option<Ticket> {
        let claim = self.caller.claim().ok()?;
        Some(self.caller.post_inline(claim, Command::Set, &self.args()))
    }

    /// Looks for a call's answer and takes it.
    #[inline(always)]
    fn land(&mut self, ticket: Ticket) -> Option<Stop> {
        for _ in 0..LOOKS {
            match self.caller.poll_quick(&ticket) {
                PollQuick::NotYet => pause(),
                PollQuick::Inline(len) => {
                    let mut results = [0; N];
                    let stood = self.caller.take_inline(ticket, &mut results);
                    let right = stood && len == N && results == self.args();
                    return (!right).then_some(Stop::Wrong);
                }
                _ => return Some(Stop::Wrong),
            }
        }
        self.flying = Some(ticket);
        Some(Stop::Late)
    }
}

impl<const N: usize> sealed::Sealed for Calls<'_, N> {}

impl<const N: usize> Job for Calls<'_, N> {
    #[inline(never)]
    fn go(&mut self) -> Stop {
        self.samples.begin();
        loop {
            let ticket = match self.flying.take() {
                Some(ticket) => ticket,
                None => {
                    let Some(ticket) = self.post() else { return Stop::Wrong };
                    // Code in the machine cannot ring: the host does.
                    if self.caller.seems_asleep() {
                        self.flying = Some(ticket);
                        return Stop::Late;
                    }
                    ticket
                }
            };
            if let Some(stop) = self.land(ticket) {
                return stop;
            }
            if self.samples.take() {
                return Stop::Done;
            }
        }
    }
}

/// Raw lines to and fro, each round trip timed: what the machine allows.
pub struct Lines<'a> {
    memory: &'a WindowMemory,
    samples: Samples,
    sent: u64,
    flying: bool,
}

impl<'a> Lines<'a> {
    /// Until there are `most`, or so many of the counter's cycles have passed. The first
    /// line's last word was `sent`.
    pub fn new(memory: &'a WindowMemory, sent: u64, most: u32, limit: u64) -> Self {
        Lines { memory, samples: Samples::new(most, limit), sent, flying: false }
    }

    /// Begins behind that word instead, before it runs for the first time.
    pub fn go_on_from(&mut self, sent: u64) {
        self.sent = sent;
    }

    /// The word that was sent last.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The cycles of each round trip.
    pub fn samples(self) -> Vec<u64> {
        self.samples.taken()
    }

    #[inline(always)]
    fn came(&self) -> bool {
        for _ in 0..LOOKS {
            if self.memory.load(line_off(0) / 8, Ordering::Acquire) == self.sent {
                return true;
            }
            pause();
        }
        false
    }
}

impl sealed::Sealed for Lines<'_> {}

impl Job for Lines<'_> {
    #[inline(never)]
    fn go(&mut self) -> Stop {
        self.samples.begin();
        loop {
            if !self.flying {
                self.sent += 1;
                self.memory.store(line_off(0) / 8, self.sent, Ordering::Release);
                self.flying = true;
            }
            if !self.came() {
                return Stop::Late;
            }
            self.flying = false;
            if self.samples.take() {
                return Stop::Done;
            }
        }
    }
}

/// Waits by the machine's counter, to compare it with the host's.
pub struct Count {
    cycles: u64,
    counted: u64,
}

impl Count {
    /// So many cycles: at most some milliseconds.
    pub fn new(cycles: u64) -> Self {
        Count { cycles, counted: 0 }
    }

    /// How many cycles the counter moved on by, there.
    pub fn counted(&self) -> u64 {
        self.counted
    }
}

impl sealed::Sealed for Count {}

impl Job for Count {
    #[inline(never)]
    fn go(&mut self) -> Stop {
        let from = cycles();
        while self.counted < self.cycles {
            pause();
            self.counted = cycles().wrapping_sub(from);
        }
        Stop::Done
    }
}
