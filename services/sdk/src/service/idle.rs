//! A channel's thread: serve what is there; when nothing is, wait as the
//! channel's policy says (`vfun_wait`): spin for a while, then sleep until
//! rung, or look now and then where nothing can ring.
//!
//! The order of the steps is that of the protocol's sleeping rules: look
//! without a fence while calls come in quick succession; once nothing comes,
//! fence and ring a sleeper that was missed; declare sleep, look at every cell
//! once more, sleep. The first sleep ends after a millisecond by itself,
//! because an app looks for the declaration without a fence and may miss one
//! that is made in the same moment.

use super::porter::SleepPlace;
use super::pulse::Pulse;
use super::watch::Alarm;
use std::sync::Arc;
use std::time::Duration;
use vfun_ring::{Server, Violation, WindowMemory};
use vfun_wait::{Policy, WaitHistory, WaitSteps, clock, wait};
use vfun_window::{Bell, BellWaiter, pause};

/// Without a doorbell: first and longest pause between two looks. At the
/// longest an idle channel takes under 1 % of a processor.
const LOOK_FIRST: Duration = Duration::from_micros(50);
const LOOK_LAST: Duration = Duration::from_millis(8);

/// What a look found, in short.
pub enum LookOutcome {
    /// A call, or a word of the manager, is there to be served.
    Request,
    /// There is nothing new to do.
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
    /// Its device is gone; what its driver said.
    Lost(String),
}

/// What a channel's thread does between looks.
pub trait ChannelWork {
    /// What a look gives; nothing at first. It is put together where it is used:
    /// moving a request would wait for the stores under way, those to lines that
    /// the app holds among them.
    type Look: Default;
    /// Looks for what is expected next.
    fn next(&mut self, look: &mut Self::Look);
    /// Looks at every cell once.
    fn next_anywhere(&mut self) -> Self::Look;
    /// What was found by this look.
    fn seen(look: &Self::Look) -> LookOutcome;
    /// Serves what was seen to be a request, and rings the app if it is seen to sleep.
    fn serve(&mut self, look: &Self::Look);
    /// Publishes answers to open calls that other threads gave and, if `hard`, ends
    /// those past their deadline; whether there were any.
    fn deliver(&mut self, _hard: bool) -> bool {
        false
    }
    /// When the next open call is past its deadline, ns of the clock.
    fn due(&self) -> Option<u64> {
        None
    }
    /// Nothing is being computed: says so in the window.
    fn rest(&mut self);
    /// The channel is let go of between two calls: as [`ChannelWork::rest`], and says
    /// where whoever serves it next begins.
    fn leave(&mut self) {
        self.rest();
    }
    /// Whether requests were answered for which the app was not rung: by
    /// [`ChannelWork::serve`], which saw no sleeper, or on the way of a look (R-SLP-5).
    fn owes_ring(&mut self) -> bool;
    /// How a wait's time was spent, ns.
    fn spent(&mut self, awake: u64, asleep: u64);
    /// The declarations in the window.
    fn server(&self) -> &Server<WindowMemory>;
}

/// A channel's doorbells: the one that wakes its thread, and the app's.
pub struct ChannelBells {
    /// The app rings it.
    pub mine: BellWaiter,
    /// Where to wait for it among many.
    pub sleep_place: Option<SleepPlace>,
    /// This side rings it.
    pub app: Bell,
}

/// A channel's thread, but for the work itself.
pub struct Loop {
    pulse: Arc<Pulse>,
    alarm: Arc<Alarm>,
    bells: Option<ChannelBells>,
    policy: Policy,
    learned: WaitHistory,
}

/// How a turn of the loop ended.
pub enum Turn {
    /// A call was served.
    Served,
    /// The loop ends, for this reason.
    Ended(End),
}

/// What ended a wait.
enum WaitEnd<L> {
    /// A request was served.
    Served,
    /// A request was found.
    Found(L),
    End(End),
}

impl Loop {
    /// Waits as `policy` says.
    pub fn new(
        pulse: Arc<Pulse>,
        alarm: Arc<Alarm>,
        bells: Option<ChannelBells>,
        policy: Policy,
    ) -> Self {
        // Without a doorbell a sleep may last for milliseconds: worth any spin.
        let policy = if bells.is_some() { policy } else { policy.steady() };
        Loop { pulse, alarm, bells, policy, learned: WaitHistory::default() }
    }

    /// Serves until told to stop, or until the channel breaks.
    pub fn run<W: ChannelWork>(&self, work: &mut W) -> End {
        loop {
            if let Turn::Ended(end) = self.turn(work) {
                return end;
            }
        }
    }

    /// The channel is another service's from now on: the porter looks at it no more.
    pub fn leave_sleep_place(&self) {
        if let Some(sleep_place) = self.bells.as_ref().and_then(|b| b.sleep_place.as_ref()) {
            sleep_place.leave();
        }
    }

    /// Waits for one call and serves it.
    #[inline(always)]
    pub fn turn<W: ChannelWork>(&self, work: &mut W) -> Turn {
        let mut looks = 0;
        // One place that serves, whichever look finds the call.
        loop {
            let mut look = W::Look::default();
            work.next(&mut look);
            match W::seen(&look) {
                LookOutcome::Request => {
                    work.serve(&look);
                    break;
                }
                LookOutcome::Nothing => {}
                LookOutcome::Broken(v) => return Turn::Ended(End::Broken(v)),
            }
            if looks == 0 {
                work.rest();
            }
            if looks == self.policy.first_looks() {
                match self.wait_on(work) {
                    Some(end) => return Turn::Ended(end),
                    None => break,
                }
            }
            looks += 1;
            pause();
        }
        if self.pulse.stopping() {
            work.leave();
            return Turn::Ended(End::Stopped);
        }
        Turn::Served
    }

    /// Waits for longer and serves what comes; the loop's end, if that came instead.
    #[inline(never)]
    fn wait_on<W: ChannelWork>(&self, work: &mut W) -> Option<End> {
        let mut here = WaitingChannel { work, on: self, nap: LOOK_FIRST };
        match wait(&self.policy, &self.learned, &mut here) {
            WaitEnd::Served => return None,
            WaitEnd::Found(look) => {
                work.serve(&look);
                return None;
            }
            WaitEnd::End(End::Stopped) => {}
            WaitEnd::End(end) => return Some(end),
        }
        work.leave();
        Some(End::Stopped)
    }
}

/// A channel while its thread waits.
struct WaitingChannel<'a, W> {
    work: &'a mut W,
    on: &'a Loop,
    /// Without a doorbell: the next pause.
    nap: Duration,
}

impl<W: ChannelWork> WaitSteps for WaitingChannel<'_, W> {
    type Found = WaitEnd<W::Look>;

    fn look(&mut self, hard: bool) -> Option<Self::Found> {
        if self.work.deliver(hard) {
            if hard {
                self.on.alarm.woke(&self.on.pulse);
            }
            return Some(WaitEnd::Served);
        }
        if hard {
            let look = self.work.next_anywhere();
            return match W::seen(&look) {
                LookOutcome::Request => {
                    // Before anything is computed: the watch may be at rest.
                    self.on.alarm.woke(&self.on.pulse);
                    Some(WaitEnd::Found(look))
                }
                LookOutcome::Nothing => None,
                LookOutcome::Broken(v) => Some(WaitEnd::End(End::Broken(v))),
            };
        }
        let mut look = W::Look::default();
        self.work.next(&mut look);
        match W::seen(&look) {
            LookOutcome::Request => {
                self.work.serve(&look);
                Some(WaitEnd::Served)
            }
            LookOutcome::Nothing => None,
            LookOutcome::Broken(v) => Some(WaitEnd::End(End::Broken(v))),
        }
    }

    fn given_up(&mut self) -> Option<Self::Found> {
        self.on.pulse.stopping().then_some(WaitEnd::End(End::Stopped))
    }

    fn nudge(&mut self, _again: bool) {
        // A ring stands: whoever had declared sleep before it wakes, whoever
        // declares it later looks once more. So nobody is rung twice for one answer.
        if let Some(bells) = &self.on.bells
            && self.work.owes_ring()
            && self.work.server().must_ring()
        {
            self.work.server().about_to_ring();
            bells.app.ring();
        }
    }

    fn declare(&mut self) {
        self.on.pulse.set_awake(false);
        if self.on.bells.is_some() {
            self.work.server().declare_sleep();
        }
    }

    fn awake(&mut self) {
        if self.on.bells.is_some() {
            self.work.server().declare_awake();
        }
    }

    fn doze(&mut self, limit: Option<u64>) {
        // Requests that were refused in the last look.
        self.nudge(true);
        let Some(bells) = &self.on.bells else {
            std::thread::sleep(self.nap);
            self.nap = (self.nap * 2).min(LOOK_LAST);
            return;
        };
        let due = self.work.due().map(|due| due.saturating_sub(clock::now()));
        let limit = [limit, due].into_iter().flatten().min();
        let limit = limit.map(Duration::from_nanos);
        let done = match &bells.sleep_place {
            Some(sleep_place) => sleep_place.wait(&bells.mine, limit),
            None => bells.mine.wait(limit).map(drop),
        };
        // An error here is a bell that is no bell; look now and then instead.
        if done.is_err() {
            std::thread::sleep(LOOK_LAST);
        }
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn pause(&self) {
        pause();
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }

    fn spent(&mut self, awake: u64, asleep: u64) {
        self.work.spent(awake, asleep);
    }
}
