//! How soon a step is done again that did not do what it should.

use crate::decide::Step;
use crate::limits::{CALM, PAUSE_MAX, PAUSE_MIN};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Done {
    /// When it may be done again.
    next: Instant,
    pause: Duration,
    times: u32,
}

/// Remembers each step by itself: two that undo each other's work are slowed down, too.
#[derive(Default)]
pub struct Pace {
    done: BTreeMap<Step, Done>,
    calm_since: Option<Instant>,
}

impl Pace {
    /// Whether the step may be done now. If so, the same step waits the next time.
    pub fn may(&mut self, step: Step, now: Instant) -> bool {
        self.calm_since = None;
        let (pause, times) = match self.done.get(&step) {
            Some(done) if now < done.next => return false,
            Some(done) => ((done.pause * 2).min(PAUSE_MAX), done.times.saturating_add(1)),
            None => (PAUSE_MIN, 1),
        };
        self.done.insert(step, Done { next: now + pause, pause, times });
        true
    }

    /// The first time when one of these steps may be done.
    pub fn next(&self, steps: &[Step]) -> Option<Instant> {
        steps.iter().filter_map(|s| self.done.get(s)).map(|done| done.next).min()
    }

    /// How often the step was done.
    pub fn times(&self, step: Step) -> u32 {
        self.done.get(&step).map_or(0, |done| done.times)
    }

    /// Everything is as it should be. After a while pauses begin anew.
    pub fn calm(&mut self, now: Instant) {
        if now >= *self.calm_since.get_or_insert(now) + CALM {
            self.done.clear();
        }
    }

    /// Something else is wanted.
    pub fn forget(&mut self) {
        *self = Pace::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_that_undo_each_other_get_slow() {
        let start = Instant::now();
        let (mut pace, mut done) = (Pace::default(), 0);
        for ms in 0..60_000 {
            let now = start + Duration::from_millis(ms);
            done += usize::from(pace.may(Step::Down(1), now));
            done += usize::from(pace.may(Step::Enslave(1), now));
        }
        assert!((2 * 12..=2 * 20).contains(&done), "{done} steps in a minute");
    }

    #[test]
    fn calm_forgets_and_a_step_ends_the_calm() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.may(Step::Options, start) && !pace.may(Step::Options, start));
        pace.calm(start);
        assert!(!pace.may(Step::Options, start + Duration::from_millis(100)));
        pace.calm(start + Duration::from_millis(150));
        pace.calm(start + Duration::from_millis(150) + CALM);
        assert_eq!(pace.next(&[Step::Options]), None);
    }
}
