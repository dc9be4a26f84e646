//! One wait: what to do next, from nothing but readings of the clock.

use crate::limits::*;
use crate::{Policy, WaitHistory, WaitMode};

/// What to do before looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: look [`LOOKS`] times, with pauses.
    Spin,
    /// Let others run, then look once.
    Yield,
    /// Declare sleep, look once more, sleep.
    Sleep,
}

/// A wait whose first looks were in vain.
pub struct Plan<'a> {
    policy: &'a Policy,
    learned: &'a WaitHistory,
    start: u64,
    /// The last reading, and what was done since.
    last: (u64, Option<Step>),
    budget: u64,
    crowded: bool,
    steps: u32,
    /// The shortest batch of looks, ns.
    shortest: u64,
    gaps: u32,
    yields: u32,
    long_yields: u32,
}

impl<'a> Plan<'a> {
    /// A wait that begins at `now`, ns.
    pub fn new(policy: &'a Policy, learned: &'a WaitHistory, now: u64) -> Self {
        let asleep = policy.mode() == WaitMode::Sleep;
        let crowded = !asleep && learned.crowded(now);
        let budget = if asleep || crowded { 0 } else { learned.budget(policy, now) };
        let (steps, gaps, yields, long_yields) = (0, 0, 0, 0);
        let (last, shortest) = ((now, None), u64::MAX);
        Plan {
            policy,
            learned,
            start: now,
            last,
            budget,
            crowded,
            steps,
            shortest,
            gaps,
            yields,
            long_yields,
        }
    }

    /// Looks were in vain: what to do now. Sleep stays sleep.
    pub fn step(&mut self, now: u64) -> Step {
        self.note(now);
        let next = match self.policy.mode() {
            WaitMode::Sleep => Step::Sleep,
            WaitMode::Spin => self.never_asleep(now),
            WaitMode::Hybrid => self.hybrid(now),
        };
        self.steps = self.steps.wrapping_add(1);
        self.last = (now, Some(next));
        next
    }

    /// What the last step took.
    fn note(&mut self, now: u64) {
        let took = now.saturating_sub(self.last.0);
        match self.last.1 {
            Some(Step::Spin) => {
                self.shortest = self.shortest.min(took.max(1));
                if took > GAP && took / GAP_FACTOR >= self.shortest {
                    self.gaps += 1;
                }
            }
            Some(Step::Yield) => {
                self.yields = self.yields.saturating_add(1);
                self.long_yields += u32::from(took > LONG_YIELD);
            }
            _ => {}
        }
    }

    fn spins(&self, now: u64) -> bool {
        let spun = now.saturating_sub(self.start);
        let gaps = if spun < self.policy.first_spin() { GAPS_MAX } else { 1 };
        !self.crowded && self.gaps < gaps && spun < self.budget.min(self.policy.spin())
    }

    fn hybrid(&mut self, now: u64) -> Step {
        if self.last.1 == Some(Step::Sleep) {
            return Step::Sleep;
        }
        if self.last.1 != Some(Step::Yield) && self.spins(now) {
            return Step::Spin;
        }
        let waited = now.saturating_sub(self.start);
        // Others ran here although this thread was to spin for long.
        if self.gaps > 0 && waited > self.policy.first_spin() && !self.crowded {
            self.learned.note_crowded(self.start, now);
            self.crowded = true;
        }
        let gives_way =
            self.policy.yields() && (self.yields < PROMPT_YIELDS || waited < self.budget);
        match gives_way && self.long_yields < LONG_YIELDS_MAX {
            true => Step::Yield,
            false => Step::Sleep,
        }
    }

    fn never_asleep(&self, now: u64) -> Step {
        let gives_way = self.yields < PROMPT_YIELDS
            || self.long_yields > 0
            || self.steps.is_multiple_of(SPIN_YIELD_EVERY);
        match !self.spins(now) && gives_way {
            true => Step::Yield,
            false => Step::Spin,
        }
    }

    /// The wait ended awake, at `now`, with what it waited for.
    pub fn found(mut self, now: u64) {
        let took = now.saturating_sub(self.last.0);
        match self.last.1 {
            Some(Step::Yield) => {
                // A long yield was somebody else's, not the peer's.
                let prompt = self.yields < PROMPT_YIELDS && took <= LONG_YIELD;
                if prompt && !self.crowded && self.policy.mode() != WaitMode::Sleep {
                    self.learned.note_crowded(self.start, now);
                    self.crowded = true;
                }
            }
            Some(Step::Spin) if self.gaps == 0 => self.learned.note_roomy(),
            _ => {}
        }
        self.lasted(now, now.saturating_sub(self.start));
    }

    /// It ended asleep: declared at `slept`, awake at `now`.
    pub fn found_asleep(mut self, slept: u64, now: u64) {
        // What came while the thread was being woken came that much earlier.
        let awake = slept.saturating_sub(self.start);
        let spun = self.last.1 == Some(Step::Sleep) && awake >= SPIN_MIN;
        if spun
            && !self.crowded
            && now.saturating_sub(slept) < PROMPT_WAKE
            && self.policy.mode() == WaitMode::Hybrid
        {
            self.learned.note_crowded(self.start, now);
            self.crowded = true;
        }
        self.lasted(now, now.saturating_sub(self.start).saturating_sub(WAKE).max(awake));
    }

    fn lasted(&self, now: u64, ns: u64) {
        // A wait that did not spin, or seems to have spun in the peer's way, shows how
        // long others took this processor.
        let telling = !self.crowded && !self.learned.pressed(now);
        if telling && self.policy.mode() == WaitMode::Hybrid {
            self.learned.lasted(self.policy, ns);
        }
    }

    /// When the wait began, ns.
    pub fn start(&self) -> u64 {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const BEGAN: u64 = 1 << 40;

    fn steps(policy: &Policy, learned: &WaitHistory, times: &[u64]) -> Vec<Step> {
        steps_from(BEGAN, policy, learned, times)
    }

    fn steps_from(
        mut now: u64,
        policy: &Policy,
        learned: &WaitHistory,
        times: &[u64],
    ) -> Vec<Step> {
        let mut plan = Plan::new(policy, learned, now);
        let mut all = vec![];
        for t in times {
            all.push(plan.step(now));
            now += t;
        }
        all
    }

    fn spun(steps: &[Step]) -> usize {
        steps.iter().take_while(|s| **s == Step::Spin).count()
    }

    #[test]
    fn hybrid_spins_then_sleeps() {
        for (p, most) in
            [(Policy::service(WaitMode::Hybrid), 50), (Policy::caller(WaitMode::Hybrid), 100)]
        {
            let got = steps(&p, &WaitHistory::default(), &[1_000; 200]);
            assert_eq!(spun(&got), most);
            assert!(got[most..].iter().all(|s| *s == Step::Sleep));
        }
    }

    #[test]
    fn without_a_doorbell_it_gives_way_before_it_sleeps() {
        let p = Policy::caller(WaitMode::Hybrid).without_doorbell();
        let got = steps(&p, &WaitHistory::default(), &[1_000; 20_000]);
        assert_eq!((spun(&got), got[100]), (100, Step::Yield));
        assert_eq!(got.iter().position(|s| *s == Step::Sleep), Some(10_100));
    }

    #[test]
    fn a_long_spin_ends_as_soon_as_others_want_the_processor() {
        let (p, l) = (Policy::caller(WaitMode::Hybrid), WaitHistory::default());
        (0..50).for_each(|_| l.lasted(&p, 900_000));
        assert_eq!(spun(&steps(&p, &l, &[1_000; 2_000])), 1_024);
        let mut times = [1_000; 2_000];
        times[300] = 30_000;
        assert_eq!(spun(&steps(&p, &l, &times)), 301);
        let next = BEGAN + 2_100_000;
        assert_eq!(spun(&steps_from(next, &p, &l, &times)), 301, "once may be chance");
        let next = next + 2_100_000;
        assert_eq!(steps_from(next, &p, &l, &[1_000])[0], Step::Sleep, "now it does not spin");
        let later = next + PRESSED;
        assert_eq!(spun(&steps_from(later, &p, &l, &[1_000; 2_000])), 1_024, "as before");
    }

    /// A wait from `from` on that spins in vain and is woken `woken` after it went to
    /// sleep: for how long it spun.
    fn in_vain(p: &Policy, l: &WaitHistory, from: u64, woken: u64) -> u64 {
        let (mut plan, mut now) = (Plan::new(p, l, from), from);
        while plan.step(now) != Step::Sleep {
            now += 1_000;
        }
        plan.found_asleep(now, now + woken);
        now - from
    }

    #[test]
    fn a_peer_on_the_same_processor_is_given_way_by_sleeping() {
        let (p, l) = (Policy::caller(WaitMode::Hybrid), WaitHistory::default());
        let mut from = BEGAN;
        let mut one = |woken: u64| {
            from += 1_000_000;
            in_vain(&p, &l, from, woken)
        };
        assert_eq!(one(200_000), 100_000, "a wake across processors says nothing");
        let known = one(5_000);
        assert_eq!(known, 256_000, "it was there after 250 µs");
        assert_eq!(one(5_000), known, "once may be chance");
        assert!((0..8).all(|_| one(5_000) == 0), "no spin for a while");
        assert_eq!(one(5_000), 100_000, "then it is tried again");
        assert!((0..16).all(|_| one(5_000) == 0), "for twice as long");
    }

    /// A peer on a processor of its own that was kept from it for a while.
    #[test]
    fn now_and_then_a_prompt_wake_changes_nothing() {
        // With an answer between two that is there while the caller spins, or with time.
        for between in [true, false] {
            let (p, l) = (Policy::caller(WaitMode::Hybrid), WaitHistory::default());
            for n in 0..100 {
                let from = BEGAN + n * (SUSPECTED + 1_000_000);
                let spun = in_vain(&p, &l, from, 5_000);
                assert_eq!(spun, if n > 0 && between { 4_000 } else { 100_000 });
                if between {
                    let mut plan = Plan::new(&p, &l, from + 500_000);
                    assert_eq!(plan.step(from + 500_000), Step::Spin);
                    plan.found(from + 503_000);
                }
            }
        }
    }

    #[test]
    fn threads_that_waited_at_the_same_time_saw_one_thing() {
        let (p, l) = (Policy::caller(WaitMode::Hybrid), WaitHistory::default());
        for n in 0..8 {
            assert_eq!(in_vain(&p, &l, BEGAN + n, 5_000), 100_000);
        }
        assert_eq!(in_vain(&p, &l, BEGAN + 1_000_000, 5_000), 100_000);
        assert_eq!(in_vain(&p, &l, BEGAN + 2_000_000, 5_000), 0, "and this is the second");
    }

    #[test]
    fn a_thread_that_is_not_let_run_stops_spinning() {
        let p = Policy::caller(WaitMode::Hybrid);
        let mut times = vec![1_000; 30];
        times[5] = 30_000;
        assert_eq!(
            spun(&steps(&p, &WaitHistory::default(), &times)),
            30,
            "one may be an interrupt"
        );
        times[9] = 30_000;
        assert_eq!(spun(&steps(&p, &WaitHistory::default(), &times)), 10);
        // Looks that are slow by themselves are no gaps.
        assert_eq!(spun(&steps(&p, &WaitHistory::default(), &[15_000; 6])), 6);
    }

    #[test]
    fn yields_that_return_late_end_in_sleep() {
        let p = Policy::caller(WaitMode::Hybrid).spin_at_most(Duration::ZERO).without_doorbell();
        let got = steps(&p, &WaitHistory::default(), &[60_000; 8]);
        assert_eq!(got[..4], [Step::Yield; 4]);
        assert_eq!(got[4], Step::Sleep);
    }

    #[test]
    fn a_peer_that_needs_the_processor_gets_it_at_once_from_then_on() {
        let p = Policy::caller(WaitMode::Hybrid).without_doorbell();
        let l = WaitHistory::default();
        let from = std::cell::Cell::new(BEGAN);
        let one = |spins: usize| {
            let mut now = from.replace(from.get() + 1_000_000);
            let mut plan = Plan::new(&p, &l, now);
            for _ in 0..=spins {
                assert_ne!(plan.step(now), Step::Sleep);
                now += 1_000;
            }
            plan.found(now);
        };
        one(100); // the last step is a yield
        one(100); // once may be chance
        assert_eq!(steps_from(from.get(), &p, &l, &[1_000])[0], Step::Yield);
        (0..7).for_each(|_| one(0));
        assert_eq!(steps_from(from.get(), &p, &l, &[1_000])[0], Step::Spin, "tried again");
    }

    #[test]
    fn what_slept_is_taken_to_have_come_earlier() {
        let (p, l) = (Policy::service(WaitMode::Hybrid), WaitHistory::default());
        for _ in 0..64 {
            let plan = Plan::new(&p, &l, 0);
            plan.found_asleep(2_000, 2_000 + 10_000 + WAKE);
        }
        assert_eq!(l.budget(&p, 0), 16_000);
    }

    fn mode() -> impl Strategy<Value = WaitMode> {
        prop_oneof![Just(WaitMode::Hybrid), Just(WaitMode::Spin), Just(WaitMode::Sleep)]
    }

    proptest! {
        /// Whatever was learned, and however time goes.
        #[test]
        fn modes_keep_their_word(
            mode in mode(),
            service: bool,
            spin in 0u64..10_000_000,
            doorbell: bool,
            lengths in prop::collection::vec(0u64..100_000_000, 0..100),
            crowd in 0u64..5,
            times in prop::collection::vec(prop_oneof![0u64..3_000, 0u64..5_000_000], 1..400),
        ) {
            let p = if service { Policy::service(mode) } else { Policy::caller(mode) };
            let p = p.spin_at_most(Duration::from_nanos(spin));
            let p = if doorbell { p } else { p.without_doorbell() };
            let l = WaitHistory::default();
            lengths.iter().for_each(|&ns| l.lasted(&p, ns));
            (0..crowd).for_each(|n| l.note_crowded(BEGAN + n - 8, BEGAN + n - 7));
            let got = steps(&p, &l, &times);
            let before: Vec<u64> = times.iter().scan(0, |sum, t| { let at = *sum; *sum += t; Some(at) }).collect();
            match mode {
                WaitMode::Sleep => prop_assert!(got.iter().all(|s| *s == Step::Sleep)),
                WaitMode::Spin => prop_assert!(got.iter().all(|s| *s != Step::Sleep)),
                WaitMode::Hybrid => {
                    // Spin, yield, sleep, in this order, and none beyond its bound.
                    let rank = |s: &Step| match s { Step::Spin => 0, Step::Yield => 1, Step::Sleep => 2 };
                    prop_assert!(got.iter().map(rank).is_sorted());
                    for (step, at) in got.iter().zip(&before) {
                        match step {
                            Step::Spin => prop_assert!(*at < spin && crowd < 2),
                            Step::Yield => {}
                            Step::Sleep => {}
                        }
                    }
                    let yielded = got.iter().zip(&before).filter(|(s, at)| **s == Step::Yield && **at >= p.awake());
                    prop_assert!(yielded.count() <= PROMPT_YIELDS as usize);
                }
            }
        }

        #[test]
        fn budgets_are_bounded(
            service: bool,
            lengths in prop::collection::vec(0u64..u64::MAX, 0..200),
            spin in 0u64..u64::MAX,
        ) {
            let p = if service { Policy::service(WaitMode::Hybrid) } else { Policy::caller(WaitMode::Hybrid) };
            let p = p.spin_at_most(Duration::from_nanos(spin));
            let l = WaitHistory::default();
            for ns in lengths {
                l.lasted(&p, ns);
                let budget = l.budget(&p, 0);
                prop_assert!(budget <= p.awake() && budget >= SPIN_MIN.min(p.awake()));
            }
        }

        /// More waits that end soon never make the budget fall below what they need;
        /// more that end late never make it grow.
        #[test]
        fn reactions_are_monotone(
            lengths in prop::collection::vec(0u64..1_000_000, 0..100),
            soon in 0u64..20_000,
        ) {
            let p = Policy::service(WaitMode::Hybrid);
            let teach = |more: u64| {
                let l = WaitHistory::default();
                lengths.iter().for_each(|&ns| l.lasted(&p, ns));
                (0..1_000).for_each(|_| l.lasted(&p, more));
                l.budget(&p, 0)
            };
            prop_assert!(teach(soon) >= soon.min(SERVICE_SPIN));
            prop_assert_eq!(teach(10_000_000), SPIN_MIN);
        }

        #[test]
        fn a_longer_wait_never_makes_a_shorter_budget_pay_more(
            first in prop::collection::vec(0u64..60_000, 1..60),
        ) {
            // All waits longer than any that pays: nothing is spun for.
            let p = Policy::service(WaitMode::Hybrid);
            let (short, long) = (WaitHistory::default(), WaitHistory::default());
            for ns in &first {
                short.lasted(&p, *ns);
                long.lasted(&p, ns + 10_000_000);
            }
            prop_assert!(long.budget(&p, 0) <= short.budget(&p, 0));
        }
    }
}
