//! Circuit breakers: how often what runs for a client as a function at a
//! location has crashed, whoever used it and whatever was released since.
//!
//! Closed, a crash is followed by another start, later and later. After
//! [`CRASHES_MAX`] in [`CRASH_WINDOW_MS`] it opens: nothing is started for
//! [`OPEN_MS`], twice as long each further time. Then the next who asks makes
//! one trial. If that crashes within [`CRASH_WINDOW_MS`] it opens again.

use super::event::Action;
use super::services::Owner;
use super::{Core, Level, nacks};
use vfun_wire::Nack;
use vfun_wire::message::Location;

/// Crashes in [`CRASH_WINDOW_MS`] after which nothing is started for a while:
/// a driver that dies six times in half a minute will die a seventh time.
pub const CRASHES_MAX: usize = 6;
/// Time within which crashes are counted, ms.
pub const CRASH_WINDOW_MS: u64 = 30_000;
/// How long nothing is started at first.
pub const OPEN_MS: u64 = 5_000;
/// Longest time for which nothing is started, ms: it doubles from [`OPEN_MS`].
pub const OPEN_MOST_MS: u64 = 300_000;
/// Before the start that follows so many crashes, ms.
const DELAYS: [u64; CRASHES_MAX] = [0, 20, 100, 400, 1_000, 2_000];

/// What crashed: whose it was, function's name, location.
pub type BreakerKey = (Owner, String, u8);

/// Whether services may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Starts are made.
    Closed,
    /// None is, until this time, ms.
    Open(u64),
    /// The next start is a trial, or is under trial.
    HalfOpen,
}

/// Stops starts of what crashed too often: of one function, for one owner, at one location.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Breaker {
    /// When it crashed, within [`CRASH_WINDOW_MS`], ms.
    crashes: Vec<u64>,
    /// Nothing is started until then, ms.
    open_until: Option<u64>,
    /// Times it opened since it was last closed for good.
    opened: u32,
    /// When the trial was started, ms.
    trial: Option<u64>,
}

impl Breaker {
    /// A crash: `Ok` with the delay before the next start, ms, or `Err` with
    /// the time until which there is none.
    pub fn crashed(&mut self, now: u64) -> Result<u64, u64> {
        self.settle(now);
        self.crashes.retain(|t| now.saturating_sub(*t) < CRASH_WINDOW_MS);
        self.crashes.push(now);
        let n = self.crashes.len();
        if self.open_until.is_none() && n <= CRASHES_MAX {
            return Ok(DELAYS[n - 1]);
        }
        let open = OPEN_MS << self.opened.min(16);
        self.opened = self.opened.saturating_add(1);
        self.crashes.clear();
        self.trial = None;
        let until = now + open.min(OPEN_MOST_MS);
        self.open_until = Some(until);
        Err(until)
    }

    /// A trial that lived long enough closes it for good.
    fn settle(&mut self, now: u64) {
        if self.trial.is_some_and(|t| now.saturating_sub(t) >= CRASH_WINDOW_MS) {
            *self = Breaker::default();
        }
    }

    /// Whether services may be started at this time, ms.
    pub fn state(&self, now: u64) -> State {
        match (self.open_until, self.trial) {
            (None, _) => State::Closed,
            (Some(_), Some(t)) if now.saturating_sub(t) >= CRASH_WINDOW_MS => State::Closed,
            (Some(until), None) if now < until => State::Open(until),
            _ => State::HalfOpen,
        }
    }

    /// This one, as it was noted: no wait in it is longer than there can be,
    /// which would be one for ever.
    pub(super) fn kept_until(mut self, now: u64) -> Self {
        let latest = now.saturating_add(OPEN_MOST_MS);
        self.open_until = self.open_until.map(|t| t.min(latest));
        self.trial = self.trial.map(|t| t.min(now));
        self.crashes.truncate(CRASHES_MAX);
        self.crashes.iter_mut().for_each(|t| *t = (*t).min(now));
        self
    }

    /// A start is made: a trial, if it was open.
    pub fn starts(&mut self, now: u64) {
        self.settle(now);
        if self.open_until.is_some() && self.trial.is_none() {
            self.trial = Some(now);
        }
    }

    /// The trial that was just started did not come about.
    pub(super) fn untried(&mut self, now: u64) {
        self.settle(now);
        self.trial = None;
    }

    /// Whether it is as if it had never been.
    fn is_over(&self, now: u64) -> bool {
        let old = |t: u64| now.saturating_sub(t) >= CRASH_WINDOW_MS;
        let quiet = self.crashes.iter().all(|t| old(*t));
        // One that nobody tried again is forgotten in the end, too.
        let tried = self.trial.or(self.open_until.map(|t| t + OPEN_MOST_MS));
        quiet && tried.is_none_or(old)
    }
}

impl Core {
    /// Refuses what would need a start while there is none.
    pub(super) fn check_breaker(
        &self,
        now: u64,
        owner: Owner,
        function: &str,
        location: Location,
    ) -> Result<(), Nack> {
        let key = (owner, function.to_owned(), location.to_wire());
        match self.breakers.get(&key).map(|b| b.state(now)) {
            Some(State::Open(until)) => Err(nacks::crashed_too_often(function, until - now)),
            _ => Ok(()),
        }
    }

    /// Notes a crash; see [`Breaker::crashed`].
    pub(super) fn crashed(
        &mut self,
        now: u64,
        key: BreakerKey,
        out: &mut Vec<Action>,
    ) -> Result<u64, u64> {
        let (owner, function) = (key.0, key.1.clone());
        let mut breaker = match self.breakers.remove(&key) {
            Some(known) => known,
            None => {
                let over: Vec<BreakerKey> = self
                    .breakers
                    .iter()
                    .filter(|(_, b)| b.is_over(now))
                    .map(|(k, _)| k.clone())
                    .collect();
                over.iter().for_each(|k| drop(self.breakers.remove(k)));
                Breaker::default()
            }
        };
        let again = breaker.crashed(now);
        self.breakers.insert(key, breaker);
        if let Err(until) = again {
            let text = format!(
                "the service of '{function}' crashed too often: it is not started for {} ms",
                until - now
            );
            self.log_of_service(owner, Level::Warn, text, out);
        }
        again
    }

    /// Breakers that are not closed, for people.
    pub fn breakers(&self, now: u64) -> impl Iterator<Item = (&BreakerKey, State)> {
        self.breakers
            .iter()
            .map(move |(k, b)| (k, b.state(now)))
            .filter(|(_, s)| *s != State::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_back_off_then_open_and_old_ones_are_forgotten() {
        let mut b = Breaker::default();
        let delays: Vec<_> = (0..7).map(|i| b.crashed(i)).collect();
        assert_eq!(delays[0], Ok(0));
        assert!(delays[..6].windows(2).all(|w| w[0].unwrap() < w[1].unwrap()));
        assert_eq!(delays[6], Err(6 + OPEN_MS));
        let mut b = Breaker::default();
        for i in 0..100 {
            assert_eq!(b.crashed(i * CRASH_WINDOW_MS), Ok(0), "one in half a minute is no loop");
        }
    }

    #[test]
    fn one_trial_then_open_for_longer_or_closed_for_good() {
        let mut b = Breaker::default();
        assert_eq!((0..7).filter(|_| b.crashed(0).is_err()).count(), 1);
        let (mut now, mut open) = (0, OPEN_MS);
        for _ in 0..20 {
            assert_eq!(b.state(now + open - 1), State::Open(now + open));
            now += open;
            assert_eq!(b.state(now), State::HalfOpen);
            b.starts(now);
            assert_eq!(b.state(now + 1), State::HalfOpen);
            open = (open * 2).min(OPEN_MOST_MS);
            assert_eq!(b.crashed(now + 1), Err(now + 1 + open), "one crash is enough");
            now += 1;
        }
        now += open;
        b.starts(now);
        now += CRASH_WINDOW_MS;
        assert_eq!(b.state(now), State::Closed);
        assert_eq!(b.crashed(now), Ok(0), "the trial lived");
        assert!(!b.is_over(now) && b.is_over(now + CRASH_WINDOW_MS));
    }

    #[test]
    fn a_trial_that_did_not_come_about_is_made_again() {
        let mut b = Breaker::default();
        assert_eq!((0..7).filter(|_| b.crashed(0).is_err()).count(), 1);
        b.starts(OPEN_MS);
        b.untried(OPEN_MS + 1);
        let later = OPEN_MS + 2 * CRASH_WINDOW_MS;
        assert_eq!(b.state(later), State::HalfOpen, "nothing lived");
        b.starts(later);
        assert_eq!(b.crashed(later + 1), Err(later + 1 + 2 * OPEN_MS));
        // One that lived is not taken back by what comes after it.
        b.starts(later + 1 + 2 * OPEN_MS);
        let lived = later + 1 + 2 * OPEN_MS + CRASH_WINDOW_MS;
        b.untried(lived);
        assert_eq!(b.state(lived), State::Closed);
    }
}
