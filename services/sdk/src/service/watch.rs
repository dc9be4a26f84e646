//! Deadlines. No call reads a clock: the main thread looks at each channel's
//! pulse now and then, and a call that it has seen under way for longer than
//! the deadline is over it. So a deadline is never cut short, and is noticed
//! up to a quarter late.

use super::pulse::Pulse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun_wait::clock;
use vfun_window::Bell;

/// Most and least time between two looks.
const LOOK_MAX: Duration = Duration::from_millis(50);
const LOOK_MIN: Duration = Duration::from_millis(1);
/// How long the watch goes on after the last sign of life, so that a channel
/// that wakes often need not wake the watch each time.
const LINGER: Duration = Duration::from_secs(1);
/// Least time that a driver's `init` has: it may compile or load what it needs.
const INIT_DEADLINE: Duration = Duration::from_secs(10);

/// Between channel threads and the watch in the main thread.
pub struct Alarm {
    parked: AtomicBool,
    bell: Bell,
}

impl Alarm {
    pub fn new() -> std::io::Result<Self> {
        Ok(Alarm { parked: AtomicBool::new(false), bell: Bell::new()? })
    }
    /// What wakes the main thread.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }
    /// A channel's thread is awake again: starts the watch if it rests.
    pub fn woke(&self, pulse: &Pulse) {
        pulse.set_awake(true);
        if self.parked.load(Ordering::SeqCst) {
            self.bell.ring();
        }
    }
}

/// What the watch keeps of one channel.
pub struct Watched {
    deadline: Duration,
    /// The pulse at an earlier look, and when that was first seen.
    seen: (u64, Instant),
}

impl Watched {
    pub fn new(deadline: Duration, now: Instant) -> Self {
        Watched { deadline, seen: (0, now) }
    }

    /// Looks at the pulse. True if one call has been under way for too long.
    pub fn overran(&mut self, pulse: &Pulse, now: Instant) -> bool {
        let calls = pulse.calls();
        if self.seen.0 != calls {
            self.seen = (calls, now);
            if calls % 2 == 1 {
                pulse.sight(calls, clock::now());
            }
            return false;
        }
        // The first thing under way on every channel is the driver's init.
        let limit = if calls == 1 { self.deadline.max(INIT_DEADLINE) } else { self.deadline };
        calls % 2 == 1 && now.duration_since(self.seen.1) >= limit
    }

    /// How often to look.
    pub fn look_every(&self) -> Duration {
        (self.deadline / 8).clamp(LOOK_MIN, LOOK_MAX)
    }
}

/// When to look next.
pub struct NextCheck {
    quiet_since: Instant,
}

impl NextCheck {
    pub fn new(now: Instant) -> Self {
        NextCheck { quiet_since: now }
    }

    /// How long the main thread may sleep: `None` for ever. `awake` says
    /// whether any channel's thread is awake, `every` how often to look then.
    pub fn until(
        &mut self,
        alarm: &Alarm,
        now: Instant,
        every: Option<Duration>,
        awake: impl Fn() -> bool,
    ) -> Option<Duration> {
        alarm.parked.store(false, Ordering::SeqCst);
        let every = every?;
        if awake() {
            self.quiet_since = now;
            return Some(every);
        }
        if now.duration_since(self.quiet_since) < LINGER {
            return Some(every);
        }
        // Either this sees the thread awake, or the thread sees the watch parked.
        alarm.parked.store(true, Ordering::SeqCst);
        if awake() {
            alarm.parked.store(false, Ordering::SeqCst);
            self.quiet_since = now;
            return Some(every);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_call_that_lasts_is_over_its_deadline() {
        let t = Instant::now();
        let ms = Duration::from_millis;
        let mut w = Watched::new(ms(100), t);
        let p = Pulse::default();
        assert!(!w.overran(&p, t + ms(500)), "idle for long");
        p.begin();
        assert!(!w.overran(&p, t + ms(510)));
        assert!(!w.overran(&p, t + ms(609)), "init may take longer");
        p.end();
        p.begin();
        assert!(!w.overran(&p, t + ms(610)), "another call");
        assert!(!w.overran(&p, t + ms(709)));
        assert!(w.overran(&p, t + ms(710)));
        assert_eq!(p.begun_by(), None, "it has not ended");
        p.end();
        assert!(!w.overran(&p, t + ms(900)), "ended at last");
        assert!(p.begun_by().is_some(), "a call that is held then has begun no later");
        p.begin();
        p.end();
        assert_eq!(p.begun_by(), None, "that was the call before");
    }

    #[test]
    fn the_watch_rests_when_all_sleep_and_wakes_with_them() {
        let t = Instant::now();
        let alarm = Alarm::new().unwrap();
        let pulse = Pulse::default();
        let mut rest = NextCheck::new(t);
        let every = Some(Duration::from_millis(5));
        assert_eq!(rest.until(&alarm, t, None, || true), None, "nothing to watch");
        alarm.woke(&pulse);
        assert_eq!(rest.until(&alarm, t + LINGER * 2, every, || pulse.awake()), every);
        pulse.set_awake(false);
        let t = t + LINGER * 2;
        assert_eq!(rest.until(&alarm, t + LINGER / 2, every, || pulse.awake()), every, "lingers");
        assert_eq!(rest.until(&alarm, t + LINGER, every, || pulse.awake()), None);
        let waiter = vfun_window::BellWaiter::new(alarm.bell()).unwrap();
        assert!(!waiter.wait(Some(Duration::ZERO)).unwrap());
        alarm.woke(&pulse);
        assert!(waiter.wait(Some(Duration::ZERO)).unwrap());
    }
}
