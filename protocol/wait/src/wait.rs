//! The steps of a wait, in their order (R-SLP-1 to 4).

use crate::limits::*;
use crate::{Plan, Policy, Step, WaitHistory, WaitMode};

/// One side's way of doing the steps.
pub trait WaitSteps {
    /// What ends a wait.
    type Found;
    /// Looks for it. A hard look looks everywhere, and checks what changes seldom.
    fn look(&mut self, hard: bool) -> Option<Self::Found>;
    /// Whatever else ends the wait: a time limit, being told to stop.
    fn given_up(&mut self) -> Option<Self::Found>;
    /// Makes sure that the other side is awake: fence, then look whether it
    /// sleeps, then ring (R-SLP-2). Unless `again`, not if it was rung after
    /// the last post or answer: that ring stands.
    fn nudge(&mut self, again: bool);
    /// Declares sleep, and fences.
    fn declare(&mut self);
    /// Takes the declaration back.
    fn awake(&mut self);
    /// Sleeps on the doorbell for at most `limit` ns (`None`: as long as this
    /// side may), or by the clock where there is none.
    fn doze(&mut self, limit: Option<u64>);
    /// Lets another thread of this processor run.
    fn give_way(&mut self);
    /// What the processor does between two looks.
    fn pause(&self);
    /// Whether what is waited for is about to come, so that a sleep would last
    /// longer (R-SLP-8).
    fn soon(&self) -> bool {
        false
    }
    /// Nanoseconds of a clock that never goes back.
    fn now(&self) -> u64;
    /// How the wait's time was spent, when it ends: awake and asleep, ns.
    fn spent(&mut self, _awake: u64, _asleep: u64) {}
}

/// Waits until something is found or the wait is given up.
pub fn wait<P: WaitSteps>(policy: &Policy, learned: &WaitHistory, place: &mut P) -> P::Found {
    place.nudge(false);
    let start = place.now();
    let mut plan = Plan::new(policy, learned, start);
    let mut now = start;
    let mut steps = 0u32;
    loop {
        let found = match plan.step(now) {
            Step::Spin => spin(place),
            Step::Yield => {
                place.give_way();
                place.look(false)
            }
            Step::Sleep => match stay(policy, place) {
                None => break,
                found => found,
            },
        };
        steps = steps.wrapping_add(1);
        let found = match found {
            None if steps.is_multiple_of(HARD_EVERY) => place.look(true),
            found => found,
        };
        now = place.now();
        if let Some(found) = found {
            plan.found(now);
            place.spent(now.saturating_sub(start), 0);
            return found;
        }
        if steps.is_multiple_of(NUDGE_EVERY) {
            place.nudge(true);
        }
        if let Some(end) = place.given_up() {
            place.spent(now.saturating_sub(start), 0);
            return end;
        }
    }
    asleep(policy, plan, place, now)
}

/// Looks for a while longer instead of sleeping, if that is worth it.
#[cold]
#[inline(never)]
fn stay<P: WaitSteps>(policy: &Policy, place: &mut P) -> Option<P::Found> {
    if policy.mode() == WaitMode::Sleep || !place.soon() {
        return None;
    }
    let (from, mut steps) = (place.now(), 0u32);
    loop {
        steps += 1;
        // Whoever is to bring it may need this very processor.
        if steps.is_multiple_of(SOON_YIELD_EVERY) {
            place.give_way();
        }
        let found = spin(place);
        if found.is_some() || place.now().saturating_sub(from) >= SOON || !place.soon() {
            return found;
        }
    }
}

#[inline]
fn spin<P: WaitSteps>(place: &mut P) -> Option<P::Found> {
    for _ in 0..LOOKS {
        place.pause();
        let found = place.look(false);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Declare, fence, look once more, sleep; and again until something is found.
#[cold]
#[inline(never)]
fn asleep<P: WaitSteps>(policy: &Policy, plan: Plan<'_>, place: &mut P, slept: u64) -> P::Found {
    // A sleeper that was declared without being seen looks again soon.
    let mut limit = Some(FIRST_SLEEP);
    let (found, late) = loop {
        place.declare();
        let mut found = place.look(true);
        let late = found.is_none();
        if late {
            place.doze(limit);
            limit = None;
        }
        place.awake();
        if late {
            found = place.look(true).or_else(|| stay(policy, place));
        }
        if let Some(found) = found {
            break (Ok(found), late);
        }
        if let Some(end) = place.given_up() {
            break (Err(end), late);
        }
        place.nudge(true);
    };
    let now = place.now();
    place.spent(slept.saturating_sub(plan.start()), now.saturating_sub(slept));
    match found {
        Ok(found) => {
            if late {
                plan.found_asleep(slept, now);
            } else {
                plan.found(now);
            }
            found
        }
        Err(end) => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A place that writes down what is done there; looks find something
    /// after `after` of them. For `soon` questions it comes soon.
    struct Diary {
        soon: Cell<u32>,
        said: Vec<&'static str>,
        looks: u32,
        after: u32,
        time: Cell<u64>,
        spent: Option<(u64, u64)>,
    }

    impl WaitSteps for Diary {
        type Found = u32;
        fn look(&mut self, hard: bool) -> Option<u32> {
            if hard {
                self.said.push("look");
            }
            self.looks += 1;
            (self.looks > self.after).then_some(self.looks)
        }
        fn given_up(&mut self) -> Option<u32> {
            None
        }
        fn nudge(&mut self, again: bool) {
            self.said.push(if again { "nudge again" } else { "nudge" });
        }
        fn declare(&mut self) {
            self.said.push("declare");
        }
        fn awake(&mut self) {
            self.said.push("awake");
        }
        fn doze(&mut self, limit: Option<u64>) {
            self.said.push(if limit.is_some() { "doze a while" } else { "doze" });
            self.time.set(self.time.get() + 500_000);
        }
        fn give_way(&mut self) {
            self.said.push("give way");
        }
        fn pause(&self) {}
        fn soon(&self) -> bool {
            let left = self.soon.get();
            self.soon.set(left.saturating_sub(1));
            left > 0
        }
        fn now(&self) -> u64 {
            self.time.set(self.time.get() + 1_000);
            self.time.get()
        }
        fn spent(&mut self, awake: u64, asleep: u64) {
            self.spent = Some((awake, asleep));
        }
    }

    fn diary(mode: WaitMode, after: u32) -> Diary {
        coming(mode, after, 0)
    }

    fn coming(mode: WaitMode, after: u32, soon: u32) -> Diary {
        let (said, looks, time, spent) = (vec![], 0, Cell::new(0), None);
        let mut d = Diary { said, looks, after, time, spent, soon: Cell::new(soon) };
        wait(&Policy::service(mode), &WaitHistory::default(), &mut d);
        d
    }

    #[test]
    fn sleep_mode_looks_once_after_declaring_and_dozes() {
        let d = diary(WaitMode::Sleep, 0);
        assert_eq!(d.said, ["nudge", "declare", "look", "awake"]);
        let d = diary(WaitMode::Sleep, 3);
        let first = ["nudge", "declare", "look", "doze a while", "awake", "look"];
        let then = ["nudge again", "declare", "look", "doze", "awake", "look"];
        assert_eq!(d.said, [first, then].concat());
        let (awake, asleep) = d.spent.unwrap();
        assert!(awake <= 1_000 && asleep >= 1_000_000, "{awake} {asleep}");
    }

    #[test]
    fn what_is_about_to_come_is_not_slept_for() {
        let enough = 50 * LOOKS + 50;
        let d = coming(WaitMode::Hybrid, enough, u32::MAX);
        assert!(!d.said.contains(&"declare"), "{:?}", d.said);
        let d = coming(WaitMode::Sleep, enough, u32::MAX);
        assert!(d.said.contains(&"declare"), "who is to sleep sleeps");
        // It was said to come, and did not.
        let d = coming(WaitMode::Hybrid, 500 * LOOKS, u32::MAX);
        assert_eq!(d.said.iter().filter(|s| **s == "doze a while").count(), 1, "{:?}", d.said);
        assert!(d.said.contains(&"give way"));
        let d = coming(WaitMode::Hybrid, 500 * LOOKS, 3);
        assert!(!d.said.contains(&"give way"), "nobody says so any more");
    }

    #[test]
    fn spin_mode_never_declares_sleep() {
        let d = diary(WaitMode::Spin, 200_000);
        let strange =
            d.said.iter().find(|s| !["nudge", "nudge again", "look", "give way"].contains(s));
        assert_eq!(strange, None);
        assert!(d.said.contains(&"look") && d.said.contains(&"nudge again"));
        assert_eq!(d.spent.unwrap().1, 0);
    }

    #[test]
    fn hybrid_spins_then_sleeps() {
        let d = diary(WaitMode::Hybrid, 100);
        assert_eq!(d.said, ["nudge"], "found spinning");
        let d = diary(WaitMode::Hybrid, 50 * LOOKS + 50);
        assert_eq!(d.said[..3], ["nudge", "declare", "look"]);
        assert!(d.said.contains(&"doze a while"));
        let (awake, asleep) = d.spent.unwrap();
        assert!((50_000..60_000).contains(&awake) && asleep > 400_000, "{awake} {asleep}");
    }
}
