//! The phases of a wait whose first looks were in vain. All clocks are read here.

use super::mood::Mood;
use super::policy::WaitPolicy;
use super::slack::Slack;
use std::time::{Duration, Instant};
use vfun_window::{cycles, pause};

/// Looks before the clock is read for the first time: about 20 to 50 µs.
const BLIND_LOOKS: u32 = 1_000;
/// Looks between two readings of the clock while spinning.
const BATCH: u32 = 32;
/// A batch of looks that takes this many times the shortest one was interrupted.
const GAP_FACTOR: u64 = 24;
/// Interrupted batches after which somebody else wants this processor.
const GAPS_MAX: u32 = 2;
/// A yield that returns after this long let somebody else compute.
const LONG_YIELD: Duration = Duration::from_micros(50);
/// Long yields after which a thread with a doorbell rather sleeps.
const LONG_YIELDS_MAX: u32 = 4;
/// Yields among the first of which an answer means that the peer needed this processor.
const PROMPT_YIELDS: u32 = 4;
/// First sleep after declaring it: whoever posted or answered without a fence
/// may have missed the declaration, so it is not trusted for longer than this.
const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// Longest sleep with a doorbell: the channel and the window are checked this often.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Shortest and longest sleep without a doorbell.
const TIMED_SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// Without a doorbell a sleep is this fraction of the time already waited, so
/// that looking late costs less than a hundredth.
const SLEEP_FRACTION: u32 = 128;

/// What a wait needs of its place when looking alone does not help.
pub(crate) trait Sleeper {
    /// Makes sure, now and then, that the other side is awake.
    fn nudge(&self);
    /// Sleeps on a doorbell, having declared it and looked once more by
    /// `ready`; false if there is no doorbell.
    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> bool;
}

/// Looks until something is found or `until` passes (`None`). `look` is told
/// whether this is a hard look, which also checks what changes seldom.
pub(crate) fn wait_long<T>(
    policy: &WaitPolicy,
    mood: &Mood,
    place: &impl Sleeper,
    until: Option<Instant>,
    mut look: impl FnMut(bool) -> Option<T>,
) -> Option<T> {
    let past = |now: Instant| until.is_some_and(|u| now >= u);
    let crowded = mood.crowded();
    if !crowded {
        for _ in 0..BLIND_LOOKS {
            if let Some(found) = look(false) {
                return Some(found);
            }
            pause();
        }
    }
    if let Some(found) = look(true) {
        return Some(found);
    }
    let start = Instant::now();
    if past(start) {
        return None;
    }
    if !crowded
        && policy.spin > Duration::ZERO
        && let Some(found) = spin(policy, start, &mut look)
    {
        mood.note_roomy();
        return Some(found);
    }
    if policy.yields > Duration::ZERO && !(policy.sleeps && mood.sleeps_often() && !crowded)
        || !policy.sleeps
    {
        let mut turns = 0u32;
        let mut long = 0;
        let mut before = Instant::now();
        loop {
            std::thread::yield_now();
            turns = turns.wrapping_add(1);
            let now = Instant::now();
            if let Some(found) = look(turns.is_multiple_of(256)) {
                // Long turns were somebody else's, not the peer's.
                if turns <= PROMPT_YIELDS && !crowded && now - before < LONG_YIELD {
                    mood.note_crowded();
                }
                mood.note_awake();
                return Some(found);
            }
            if past(now) {
                return None;
            }
            if turns.is_multiple_of(1024) {
                place.nudge();
            }
            if policy.sleeps {
                long += u32::from(now - before >= LONG_YIELD);
                if now - start >= policy.yields || long >= LONG_YIELDS_MAX {
                    break;
                }
            }
            before = now;
        }
    }
    let found = sleep(place, start, until, &mut look);
    if found.is_some() {
        mood.note_slept();
    }
    found
}

/// Spins until the budget is used up, or until gaps between looks show that
/// this thread was not let run: then somebody else wants the processor.
fn spin<T>(
    policy: &WaitPolicy,
    start: Instant,
    look: &mut impl FnMut(bool) -> Option<T>,
) -> Option<T> {
    let (mut shortest, mut gaps) = (u64::MAX, 0);
    loop {
        let from = cycles();
        for _ in 0..BATCH {
            if let Some(found) = look(false) {
                return Some(found);
            }
            pause();
        }
        let took = cycles().wrapping_sub(from);
        shortest = shortest.min(took.max(1));
        gaps += u32::from(took / GAP_FACTOR >= shortest);
        if gaps >= GAPS_MAX || start.elapsed() >= policy.spin {
            return None;
        }
    }
}

fn sleep<T>(
    place: &impl Sleeper,
    start: Instant,
    until: Option<Instant>,
    look: &mut impl FnMut(bool) -> Option<T>,
) -> Option<T> {
    let left = |now: Instant| until.map_or(Duration::MAX, |u| u.saturating_duration_since(now));
    let mut timeout = FIRST_SLEEP;
    let mut slack = None;
    loop {
        let now = Instant::now();
        let left = left(now);
        if left.is_zero() {
            return look(true);
        }
        place.nudge();
        let mut found = None;
        let slept = place.sleep(timeout.min(left), &mut || {
            found = look(true);
            found.is_some()
        });
        if found.is_some() {
            return found;
        }
        if slept {
            timeout = LONGEST_SLEEP;
        } else {
            slack.get_or_insert_with(Slack::tight);
            let nap = (now - start) / SLEEP_FRACTION;
            std::thread::sleep(nap.clamp(TIMED_SLEEP.0, TIMED_SLEEP.1).min(left));
        }
        if let Some(found) = look(true) {
            return Some(found);
        }
    }
}
