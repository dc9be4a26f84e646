//! Many channels share one bell (a window has eight), and each ring of it wakes
//! everybody who waits on it. So whoever has waited for long goes to rest: its own
//! thread no longer listens to the shared bell but to one of its own, and the
//! porter, one thread of the service, listens for all of these. At a ring it looks
//! at their lines and wakes those that have something to serve. A ring so wakes the
//! porter and those who were busy lately, however many channels there are.
//!
//! No ring is lost, because somebody listens at each moment: the porter listens before
//! a thread ceases to, and the thread looks once more after that; a thread listens
//! again before the porter lets go of it, and a bell that is listened to anew counts
//! as one that has just rung.
//!
//! An app can ring without end, and have many lines to look at. So no lock is held
//! while lines are looked at, bells take turns, and a bell that rang in vain too
//! often is not listened to for a while. The threads of other bells wait for nothing of it.
//!
//! Nothing here makes a decision on what the app wrote: a line that says nonsense
//! wakes its own channel, whose thread checks it.

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Result;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vfun_ring::{WindowMemory, is_posted};
use vfun_supervise::PORTER_THREAD;
use vfun_window::{Bell, BellWaiter};

/// Channels that share a bell from which on those without calls go to rest. Below it
/// a ring wakes few anyway, and to be woken by the porter takes some microseconds more.
const CROWD: usize = 4;
/// How long a channel has had no call when it goes to rest: what is called more often
/// listens by itself.
const REST_AFTER: Duration = Duration::from_millis(200);
/// Where a channel's waiter has the shared bell, and how many bells it has.
pub(super) const SHARED: usize = 0;
const WAITED_FOR: usize = 2;
/// A thread that listens again, and waits, looks after this at the latest: what it
/// drained may have been a ring for it. As long as a first sleep.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Stack of the porter's thread, which calls nothing deep.
const PORTER_STACK: usize = 64 << 10;
/// What the porter's own bell is called.
const END: u64 = 0;
/// The porter looks at this many lines of a bell's channels, or at one channel's, before
/// it is another bell's turn.
const LINES_AT_ONCE: usize = 4096;
/// So many looks in vain within this time, and a bell is not listened to for `DEAF`: an
/// app may ring it without end.
const IN_VAIN: (u32, Duration) = (8, Duration::from_millis(10));
const DEAF: Duration = Duration::from_millis(1);

/// The porter of a service. Its thread begins with the first channel that goes to rest,
/// and ends with this.
pub struct Porter(Arc<PorterState>);

/// Which bell: the laying out of the window that it belongs to, which is not 0, and
/// its number there.
pub type WhichBell = (u64, u16);

/// What the porter shares with the channels' threads.
struct PorterState {
    epoll: OwnedFd,
    bells: Mutex<SharedBells>,
    /// Whether the porter's thread runs.
    staffed: Mutex<bool>,
    end: Bell,
    ended: AtomicBool,
    /// Threads that it woke.
    woken: AtomicU64,
    /// How often it has begun to look at a bell's channels.
    looks: AtomicU64,
    rest_after: Duration,
}

#[derive(Default)]
struct SharedBells {
    of: BTreeMap<WhichBell, u64>,
    /// By the number that the porter's events bear.
    by: BTreeMap<u64, Arc<Sharers>>,
    last: u64,
}

/// Who shares a bell.
#[derive(Default)]
struct Sharers {
    number: u64,
    channels: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    resting: BTreeMap<u64, RestingChannel>,
    /// What the porter listens to, while anybody rests.
    listened: Option<Bell>,
    vain: VainLooks,
}

/// A channel that rests.
struct RestingChannel {
    of: Resting,
    /// It was woken and has not left yet. It looks everywhere after that.
    woken: bool,
}

/// What the porter has of a channel that rests.
#[derive(Clone)]
pub struct Resting {
    pub memory: WindowMemory,
    pub depth: u16,
    /// The channel's own bell, the only one that its thread listens to.
    pub wake: Bell,
}

/// Looks at a bell's channels that found nothing.
#[derive(Default)]
struct VainLooks {
    count: u32,
    since: Option<Instant>,
}

impl VainLooks {
    /// One more; whether they are too many.
    fn again(&mut self, now: Instant) -> bool {
        match self.since {
            Some(since) if now.saturating_duration_since(since) < IN_VAIN.1 => self.count += 1,
            _ => (self.since, self.count) = (Some(now), 1),
        }
        let many = self.count > IN_VAIN.0;
        if many {
            // The next one in vain is one too many as well, for as long as it goes on.
            self.since = Some(now);
        }
        many
    }
}

/// A look at a bell's channels under way.
#[derive(Default)]
struct LookUnderWay {
    /// The channel that was looked at last.
    after: Option<u64>,
    found: bool,
    /// It rang meanwhile: once more from the first one on.
    again: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Porter {
    pub fn new() -> Result<Self> {
        Self::with(REST_AFTER)
    }

    fn with(rest_after: Duration) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let end = Bell::new()?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN | EventFlags::ET)?;
        Ok(Porter(Arc::new(PorterState {
            epoll,
            bells: Mutex::default(),
            staffed: Mutex::default(),
            end,
            ended: AtomicBool::new(false),
            woken: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            rest_after,
        })))
    }

    /// A channel's place to wait for the `shared` bell.
    pub fn sleep_place(
        &self,
        which: WhichBell,
        channel: u64,
        shared: &Bell,
        rests: Resting,
    ) -> SleepPlace {
        SleepPlace {
            lodge: self.0.clone(),
            sharers: lock(&self.0.bells).join(which),
            which,
            channel,
            shared: shared.clone(),
            rests,
            resting: Cell::new(false),
        }
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.end.ring();
    }
}

impl SharedBells {
    /// One more channel waits for this bell.
    fn join(&mut self, which: WhichBell) -> Arc<Sharers> {
        let number = *self.of.entry(which).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        let new = || Arc::new(Sharers { number, ..Sharers::default() });
        let sharers = self.by.entry(number).or_insert_with(new);
        sharers.channels.fetch_add(1, Ordering::Relaxed);
        sharers.clone()
    }

    /// One channel less waits for this bell.
    fn part(&mut self, which: WhichBell, sharers: &Sharers) {
        if sharers.channels.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.by.remove(&sharers.number);
            self.of.remove(&which);
        }
    }
}

/// Wakes all when the porter's thread ends, also where it unwinds.
struct WakesAllOnDrop<'a>(&'a PorterState);

impl Drop for WakesAllOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl PorterState {
    /// What the porter's thread does until the service ends.
    fn serve(&self) {
        // Nobody may rely on it after it.
        let _closes = WakesAllOnDrop(self);
        let mut looks = BTreeMap::<u64, LookUnderWay>::new();
        let mut deaf = BTreeMap::<u64, Instant>::new();
        while !self.ended.load(Ordering::SeqCst) {
            let Ok(rang) = self.rang(limit(&looks, &deaf)) else { return };
            for number in rang {
                looks.entry(number).and_modify(|look| look.again = true).or_default();
            }
            let (now, mut due) = (Instant::now(), vec![]);
            deaf.retain(|number, at| {
                let over = *at <= now;
                due.extend(over.then_some(*number));
                !over
            });
            if due.into_iter().any(|number| self.hear(number).is_err()) {
                return;
            }
            looks.retain(|number, look| {
                let sharers = lock(&self.bells).by.get(number).cloned();
                let Some(sharers) = sharers else { return false };
                if self.look(&sharers, look) {
                    return true;
                }
                if !look.found && self.deafen(&sharers) {
                    // What rang meanwhile counts when it is listened to again.
                    deaf.insert(*number, Instant::now() + DEAF);
                    return false;
                }
                std::mem::take(look).again
            });
        }
    }

    /// Waits for bells: which rang.
    fn rang(&self, limit: Option<Duration>) -> Result<Vec<u64>> {
        let limit = limit
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let mut events = [std::mem::MaybeUninit::uninit(); 16];
        match epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) {
            Ok((got, _)) => Ok(got.iter().map(|e| e.data.u64()).collect()),
            Err(Errno::INTR) => Ok(vec![]),
            Err(e) => Err(e.into()),
        }
    }

    /// Looks at some more of a bell's channels, and wakes those that have something to
    /// serve. Whether there are more.
    fn look(&self, sharers: &Sharers, look: &mut LookUnderWay) -> bool {
        if look.after.is_none() {
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        let mut lines = 0;
        while lines < LINES_AT_ONCE {
            let Some((channel, of)) = sharers.next(look.after) else { return false };
            look.after = Some(channel);
            if let Some(of) = of {
                lines += usize::from(of.depth);
                if is_posted(&of.memory, of.depth) && sharers.wake(channel) {
                    look.found = true;
                    self.woken.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        true
    }

    /// A look was in vain. Whether the bell is not listened to from now on.
    fn deafen(&self, sharers: &Sharers) -> bool {
        let mut state = lock(&sharers.state);
        if !state.vain.again(Instant::now()) {
            return false;
        }
        // An error: nobody rests, and it is not listened to anyway.
        state.listened.as_ref().is_some_and(|bell| epoll::delete(&self.epoll, bell).is_ok())
    }

    /// Listens to a bell again, if anybody rests there. If it rang, it counts as rung now.
    fn hear(&self, number: u64) -> Result<()> {
        let sharers = lock(&self.bells).by.get(&number).cloned();
        let Some(sharers) = sharers else { return Ok(()) };
        match &lock(&sharers.state).listened {
            Some(bell) => self.listen(bell, number),
            None => Ok(()),
        }
    }

    fn listen(&self, bell: &Bell, number: u64) -> Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        match epoll::add(&self.epoll, bell, EventData::new_u64(number), flags) {
            // All of them left, and others came.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Its thread runs from now on.
    fn staff(self: &Arc<Self>) -> Result<()> {
        let mut staffed = lock(&self.staffed);
        if !*staffed {
            let lodge = self.clone();
            std::thread::Builder::new()
                .name(PORTER_THREAD.into())
                .stack_size(PORTER_STACK)
                .spawn(move || lodge.serve())?;
            *staffed = true;
        }
        Ok(())
    }

    /// Wakes all, who then find that nobody listens for them.
    fn close(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let all: Vec<_> = lock(&self.bells).by.values().cloned().collect();
        for sharers in all {
            lock(&sharers.state).resting.values().for_each(|rest| rest.of.wake.ring());
        }
    }
}

/// How long the porter sleeps at most.
fn limit(looks: &BTreeMap<u64, LookUnderWay>, deaf: &BTreeMap<u64, Instant>) -> Option<Duration> {
    if !looks.is_empty() {
        return Some(Duration::ZERO);
    }
    deaf.values().min().map(|due| due.saturating_duration_since(Instant::now()))
}

impl Sharers {
    /// The next one that rests, and what to look at if it was not woken yet.
    fn next(&self, after: Option<u64>) -> Option<(u64, Option<Resting>)> {
        let state = lock(&self.state);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (channel, rest) = state.resting.range((from, Bound::Unbounded)).next()?;
        Some((*channel, (!rest.woken).then(|| rest.of.clone())))
    }

    /// Wakes a channel, if it still rests.
    fn wake(&self, channel: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(rest) = state.resting.get_mut(&channel).filter(|r| !r.woken) else {
            return false;
        };
        rest.woken = true;
        rest.of.wake.ring();
        true
    }
}

/// Where one channel's thread waits.
pub struct SleepPlace {
    lodge: Arc<PorterState>,
    sharers: Arc<Sharers>,
    which: WhichBell,
    channel: u64,
    shared: Bell,
    rests: Resting,
    resting: Cell<bool>,
}

impl SleepPlace {
    /// Waits until a bell rings or `limit` has passed; it may end early. Look after it.
    pub fn wait(&self, waiter: &BellWaiter, limit: Option<Duration>) -> Result<()> {
        if self.resting.get() {
            if limit.is_none() {
                waiter.wait(None)?;
            }
            self.listen(waiter)?;
            // A bell that is listened to anew counts as rung, and would end the next sleep.
            for _ in 0..WAITED_FOR {
                waiter.wait(Some(Duration::ZERO))?;
            }
            return match limit {
                None => Ok(()),
                Some(limit) => waiter.wait(Some(limit.min(LOOK_AGAIN))).map(drop),
            };
        }
        if limit.is_some() || !self.is_crowded() {
            return waiter.wait(limit).map(drop);
        }
        if waiter.wait(Some(self.lodge.rest_after))? {
            return Ok(());
        }
        match self.go_to_rest(waiter) {
            // To look once more.
            Ok(()) => Ok(()),
            Err(_) => waiter.wait(None).map(drop),
        }
    }

    fn is_crowded(&self) -> bool {
        self.sharers.channels.load(Ordering::Relaxed) > CROWD
    }

    /// The porter listens from now on, and this thread no longer.
    fn go_to_rest(&self, waiter: &BellWaiter) -> Result<()> {
        self.lodge.staff()?;
        let mut state = lock(&self.sharers.state);
        if self.lodge.ended.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        if state.listened.is_none() {
            self.lodge.listen(&self.shared, self.sharers.number)?;
            state.listened = Some(self.shared.clone());
        }
        state.resting.insert(self.channel, RestingChannel { of: self.rests.clone(), woken: false });
        self.resting.set(true);
        drop(state);
        // Where this fails it is merely woken too often.
        let _ = waiter.deafen(SHARED);
        Ok(())
    }

    /// This thread listens by itself again, and then the porter no longer has to.
    fn listen(&self, waiter: &BellWaiter) -> Result<()> {
        match waiter.listen(SHARED) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                // It rests on, and looks before it waits again: it may be woken anew.
                if let Some(rest) = lock(&self.sharers.state).resting.get_mut(&self.channel) {
                    rest.woken = false;
                }
                return Err(e);
            }
            // Or it never ceased to.
            _ => {}
        }
        self.leave();
        Ok(())
    }

    /// The porter no longer looks at this channel's lines, but for a look under way.
    pub fn leave(&self) {
        if !self.resting.replace(false) {
            return;
        }
        let mut state = lock(&self.sharers.state);
        state.resting.remove(&self.channel);
        if state.resting.is_empty()
            && let Some(bell) = state.listened.take()
        {
            let _ = epoll::delete(&self.lodge.epoll, &bell);
        }
    }
}

impl Drop for SleepPlace {
    fn drop(&mut self) {
        self.leave();
        lock(&self.lodge.bells).part(self.which, &self.sharers);
    }
}

#[cfg(test)]
mod tests;
