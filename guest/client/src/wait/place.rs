//! An app's thread while it waits.

use super::policy::WaitPolicy;
use super::slack::Slack;
use crate::transport::DoorbellWaiter;
use std::time::{Duration, Instant};
use vfun_wait::{WaitHistory, WaitSteps, clock, wait};
use vfun_window::pause;

/// Longest sleep with a doorbell: the channel and the window are checked this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Shortest and longest sleep without a doorbell.
const TIMED_SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// Without a doorbell a sleep is this fraction of the time already waited, so
/// that looking late costs less than a hundredth.
const SLEEP_FRACTION: u64 = 128;

/// What a wait needs of its channel when looking alone does not help.
pub(crate) trait Sleeper {
    /// Makes sure that the other side is awake.
    fn nudge(&self);
    /// Takes a place to sleep and declares it; `None` without a doorbell.
    fn declare(&self) -> Option<Box<dyn DoorbellWaiter>>;
    /// Takes the declaration back, and the place.
    fn awake(&self, waiter: Box<dyn DoorbellWaiter>);
    /// Whether an answer is about to come, although nobody serves just now.
    fn soon(&self) -> bool {
        false
    }
}

/// Looks until something is found or `until` passes (`None`). `look` is told
/// whether this is a hard look, which also checks what changes seldom.
/// `rung`: the other side was rung after what is waited for was posted.
pub(crate) fn wait_long<T>(
    policy: &WaitPolicy,
    learned: &WaitHistory,
    sleeper: &impl Sleeper,
    rung: bool,
    until: Option<Instant>,
    look: impl FnMut(bool) -> Option<T>,
) -> Option<T> {
    let began = None;
    let mut here = LongWait { sleeper, look, until, rung, began, waiter: None, slack: None };
    wait(policy.policy(), learned, &mut here)
}

struct LongWait<'a, S, F> {
    sleeper: &'a S,
    look: F,
    until: Option<Instant>,
    rung: bool,
    /// When the first sleep began, by the clock of waits.
    began: Option<u64>,
    /// Where to sleep, while sleep is declared.
    waiter: Option<Box<dyn DoorbellWaiter>>,
    slack: Option<Slack>,
}

impl<T, S: Sleeper, F: FnMut(bool) -> Option<T>> WaitSteps for LongWait<'_, S, F> {
    /// `None`: the time limit has passed.
    type Found = Option<T>;

    #[inline]
    fn look(&mut self, hard: bool) -> Option<Option<T>> {
        (self.look)(hard).map(Some)
    }

    fn given_up(&mut self) -> Option<Option<T>> {
        // Reading the system's clock takes longer than a look; few waits have a limit.
        let past = self.until.is_some_and(|until| Instant::now() >= until);
        past.then(|| (self.look)(true))
    }

    fn nudge(&mut self, again: bool) {
        if again || !self.rung {
            self.sleeper.nudge();
        }
    }

    fn declare(&mut self) {
        self.waiter = self.sleeper.declare();
    }

    fn awake(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.sleeper.awake(waiter);
        }
    }

    fn doze(&mut self, limit: Option<u64>) {
        let left = match self.until {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        let limit = limit.map_or(LONGEST_SLEEP, Duration::from_nanos);
        if let Some(waiter) = &mut self.waiter {
            return waiter.wait(limit.min(left));
        }
        self.slack.get_or_insert_with(Slack::tight);
        let now = self.now();
        let waited = now.saturating_sub(*self.began.get_or_insert(now));
        let nap = Duration::from_nanos(waited / SLEEP_FRACTION);
        std::thread::sleep(nap.clamp(TIMED_SLEEP.0, TIMED_SLEEP.1).min(left));
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn pause(&self) {
        pause();
    }

    fn soon(&self) -> bool {
        self.sleeper.soon()
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }
}
