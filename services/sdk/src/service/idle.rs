//! A channel's thread: serve what is there; when nothing is, spin for a
//! while, then sleep until rung, or look now and then where nothing can ring.
//!
//! The order of the steps is that of the protocol's sleeping rules: look
//! without a fence while calls come in quick succession; once nothing comes,
//! fence and ring a sleeper that was missed; declare sleep, look at every cell
//! once more, sleep. The first sleep ends after [`FIRST_SLEEP`] by itself,
//! because an app looks for the declaration without a fence and may miss one
//! that is made in the same moment.

use super::clock::cycles_in;
use super::pulse::Pulse;
use super::watch::Alarm;
use std::sync::Arc;
use std::time::Duration;
use vfun_ring::{Server, Violation, WindowMemory};
use vfun_window::{Bell, BellWaiter, cycles, pause};

/// Looks for a next request before anything that costs more than a look: a
/// caller with calls in flight, or one waiting for this answer, is back by then.
const EAGER_LOOKS: u32 = 64;
/// Looks between two readings of the cycle counter.
const LOOKS_PER_READING: u32 = 16;
/// Two readings further apart than this: something else ran here meanwhile.
const PREEMPTED: Duration = Duration::from_micros(20);
/// Least that is spun for, however crowded the processor is.
const SPIN_MIN: Duration = Duration::from_micros(2);
/// The first sleep's end.
const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// Without a doorbell: first and longest pause between two looks. At the
/// longest an idle channel takes under 1 % of a processor.
const LOOK_FIRST: Duration = Duration::from_micros(50);
const LOOK_LAST: Duration = Duration::from_millis(8);

/// What a look found, in short.
pub enum Seen {
    /// Something to serve.
    Request,
    /// Nothing new.
    Nothing,
    /// The channel is broken.
    Broken(Violation),
}

/// Why a channel's thread ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// The app broke the protocol.
    Broken(Violation),
}

/// What a channel's thread does between looks.
pub trait Work {
    /// What a look gives. It is passed on by reference: moving a request that
    /// was just put together would wait for the stores under way, those to
    /// lines that the app holds among them.
    type Look;
    /// Looks for what is expected next.
    fn next(&mut self) -> Self::Look;
    /// Looks everywhere once.
    fn next_anywhere(&mut self) -> Self::Look;
    /// What it is.
    fn seen(look: &Self::Look) -> Seen;
    /// Serves what was seen to be a request, and rings the app if it is seen to sleep.
    fn serve(&mut self, look: &Self::Look);
    /// Nothing is being computed: says so in the window.
    fn rest(&mut self);
    /// Whether requests were answered in a look, without being found: their
    /// callers may sleep, and are owed a ring (R-SLP-5).
    fn refused(&mut self) -> bool {
        false
    }
    /// The declarations in the window.
    fn server(&self) -> &Server<WindowMemory>;
}

/// A channel's doorbells.
pub struct Bells {
    /// The app rings it.
    pub mine: BellWaiter,
    /// This side rings it.
    pub app: Bell,
}

/// A channel's thread, but for the work itself.
pub struct Loop {
    pulse: Arc<Pulse>,
    alarm: Arc<Alarm>,
    bells: Option<Bells>,
    spin_most: u64,
    spin_least: u64,
    preempted: u64,
    /// Cycles to spin for: less after being preempted, more again in peace.
    budget: u64,
}

/// What a wait led to.
enum Outcome<L> {
    /// A request was served.
    Served,
    /// A request was found.
    Found(L),
    End(End),
    Quiet,
}

impl Loop {
    /// `spin`: longest spin before sleep.
    pub fn new(pulse: Arc<Pulse>, alarm: Arc<Alarm>, bells: Option<Bells>, spin: Duration) -> Self {
        let spin_most = cycles_in(spin);
        Loop {
            pulse,
            alarm,
            bells,
            spin_most,
            spin_least: cycles_in(SPIN_MIN),
            preempted: cycles_in(PREEMPTED),
            budget: spin_most,
        }
    }

    /// Serves until told to stop, or until the channel breaks.
    pub fn run<W: Work>(mut self, work: &mut W) -> End {
        loop {
            let look = work.next();
            match W::seen(&look) {
                Seen::Request => work.serve(&look),
                Seen::Nothing => {
                    work.rest();
                    let mut outcome = self.spin(work);
                    if let Outcome::Quiet = outcome {
                        outcome = self.sleep(work);
                    }
                    match outcome {
                        Outcome::Found(look) => work.serve(&look),
                        Outcome::End(end) => return end,
                        Outcome::Served | Outcome::Quiet => {}
                    }
                }
                Seen::Broken(v) => return End::Broken(v),
            }
            if self.pulse.stopping() {
                work.rest();
                return End::Stopped;
            }
        }
    }

    #[inline]
    fn spin<W: Work>(&mut self, work: &mut W) -> Outcome<W::Look> {
        for _ in 0..EAGER_LOOKS {
            pause();
            let look = work.next();
            match W::seen(&look) {
                Seen::Request => {
                    work.serve(&look);
                    return Outcome::Served;
                }
                Seen::Nothing => {}
                Seen::Broken(v) => return Outcome::End(End::Broken(v)),
            }
        }
        self.spin_on(work)
    }

    fn spin_on<W: Work>(&mut self, work: &mut W) -> Outcome<W::Look> {
        if let Some(bells) = &self.bells {
            self.ring_sleepers(bells, work);
        }
        let from = cycles();
        let mut last = from;
        loop {
            for _ in 0..LOOKS_PER_READING {
                pause();
                let look = work.next();
                match W::seen(&look) {
                    Seen::Request => {
                        work.serve(&look);
                        self.budget = (self.budget + self.budget / 4).min(self.spin_most);
                        return Outcome::Served;
                    }
                    Seen::Nothing => {}
                    Seen::Broken(v) => return Outcome::End(End::Broken(v)),
                }
            }
            if self.pulse.stopping() {
                return Outcome::End(End::Stopped);
            }
            let mut now = cycles();
            if now.wrapping_sub(last) > self.preempted {
                self.budget = (self.budget / 2).max(self.spin_least);
                std::thread::yield_now();
                now = cycles();
            }
            last = now;
            if now.wrapping_sub(from) > self.budget {
                return Outcome::Quiet;
            }
        }
    }

    /// Rings the app if threads of it sleep, whether or not that was seen so far.
    fn ring_sleepers<W: Work>(&self, bells: &Bells, work: &W) {
        if work.server().must_ring() {
            bells.app.ring();
            work.server().rang();
        }
    }

    #[cold]
    fn sleep<W: Work>(&mut self, work: &mut W) -> Outcome<W::Look> {
        self.pulse.set_awake(false);
        let outcome = match &self.bells {
            Some(bells) => {
                work.server().declare_sleep();
                let outcome = self.until_rung(bells, work);
                work.server().declare_awake();
                outcome
            }
            None => self.look_now_and_then(work),
        };
        // Before anything is computed: the watch may be at rest.
        self.alarm.woke(&self.pulse);
        outcome
    }

    fn until_rung<W: Work>(&self, bells: &Bells, work: &mut W) -> Outcome<W::Look> {
        let mut limit = Some(FIRST_SLEEP);
        loop {
            let look = work.next_anywhere();
            match W::seen(&look) {
                Seen::Request => return Outcome::Found(look),
                Seen::Nothing => {}
                Seen::Broken(v) => return Outcome::End(End::Broken(v)),
            }
            if work.refused() {
                self.ring_sleepers(bells, work);
            }
            if self.pulse.stopping() {
                return Outcome::End(End::Stopped);
            }
            // An error here is a bell that is no bell; look now and then instead.
            if bells.mine.wait(limit).is_err() {
                std::thread::sleep(LOOK_LAST);
            }
            limit = None;
        }
    }

    fn look_now_and_then<W: Work>(&self, work: &mut W) -> Outcome<W::Look> {
        let mut pause = LOOK_FIRST;
        loop {
            std::thread::sleep(pause);
            let look = work.next_anywhere();
            match W::seen(&look) {
                Seen::Request => return Outcome::Found(look),
                Seen::Nothing => {}
                Seen::Broken(v) => return Outcome::End(End::Broken(v)),
            }
            if self.pulse.stopping() {
                return Outcome::End(End::Stopped);
            }
            pause = (pause * 2).min(LOOK_LAST);
        }
    }
}
