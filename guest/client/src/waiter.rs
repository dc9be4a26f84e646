//! Waiting for any of several calls, by a descriptor that event loops take.
//!
//! A [`Waiter`] is an epoll: it holds the bells of the functions it waits for and a
//! timer, all edge-triggered, as nobody reads a bell empty. Taking the edges out is
//! part of arming. The timer is what bounds a first sleep (R-SLP-3), what looks after
//! a channel that no bell tells of, and the only thing there is without a doorbell.

use crate::calls::{Flight, Way};
use crate::error::{Error, Result};
use crate::function::Active;
use crate::pending::Pending;
use crate::tcp::Connection;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfun_window::{Bell, Process, pause};

/// The first sleep with a doorbell: a service may have missed the declaration (R-SLP-3).
const FIRST_SLEEP: Duration = Duration::from_millis(1);
/// Longest sleep with a doorbell: the channel and the window are checked this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Shortest and longest sleep without one, and the part of the time waited that it is.
const TIMED_SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
const SLEEP_FRACTION: u32 = 128;
/// How long [`Waiter::wait`] looks before it arms.
const LOOK: Duration = Duration::from_micros(20);
/// More rings than these in vain within the time beside it are somebody's who means no
/// good (a bell may be shared): the bells are not listened to for [`DEAF`], only the timer.
const IN_VAIN: (u32, Duration) = (64, Duration::from_millis(10));
const DEAF: Duration = Duration::from_millis(100);

/// What an event of the epoll is of.
const TIMER: u64 = 0;
const RUNG: u64 = 1;

/// A call under way, to be waited for among others.
#[derive(Clone, Copy)]
pub struct InFlight<'a> {
    function: &'a Arc<Active>,
    flight: Option<&'a Flight>,
}

impl<'a> InFlight<'a> {
    pub(crate) fn new(function: &'a Arc<Active>, flight: Option<&'a Flight>) -> Self {
        InFlight { function, flight }
    }

    /// Whether it is answered; so is one whose results were taken.
    fn answered(&self) -> bool {
        self.flight.is_none_or(|f| self.function.calls.poll(f))
    }

    /// The same, or nobody is left who would answer it.
    fn settled(&self) -> bool {
        self.flight.is_none_or(|f| self.function.calls.poll_hard(f))
    }
}

impl<'a> From<&'a Pending<'_>> for InFlight<'a> {
    fn from(p: &'a Pending<'_>) -> Self {
        p.in_flight()
    }
}

/// Waits for any of several calls, which may be of several functions and sessions.
///
/// Its descriptor ([`AsFd`]) is for `poll`, epoll and event loops: after
/// [`Waiter::arm`] it is readable once one of the calls may be answered. Do not read
/// it: arm again, or disarm. Without an armed waiter calls cost nothing more. While it
/// is armed, the services of its calls ring at each answer.
///
/// Spurious wakes happen, but at most some 7000 a second.
pub struct Waiter {
    process: Process,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Functions at which sleep is declared.
    armed: Vec<Weak<Active>>,
    /// What is in the epoll beside the timer.
    sources: Vec<Source>,
    /// Since when it has been armed again and again, and how often.
    since: Option<(Instant, u32)>,
    vain: VainWakes,
}

/// A descriptor that wakes the waiter, by what it belongs to.
enum Source {
    Bell(Bell),
    /// A connection, and what tells of what other threads read from it.
    Line(Arc<Connection>, Arc<Bell>),
}

impl Source {
    fn is_of(&self, other: &Wakes) -> bool {
        match (self, other) {
            (Source::Bell(a), Wakes::Bell(b)) => a.is_same(b),
            (Source::Line(a, _), Wakes::Line(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        match self {
            Source::Bell(bell) => [Some(bell.as_fd()), None],
            Source::Line(line, bell) => [Some(line.socket()), Some(bell.as_fd())],
        }
    }
}

/// What can wake a program that waits for a function's calls.
enum Wakes {
    Bell(Bell),
    Line(Arc<Connection>),
    Clock,
}

fn wakes(function: &Active) -> Wakes {
    match function.calls.way() {
        Ok(Way::Window(w)) => w.bell().map_or(Wakes::Clock, Wakes::Bell),
        Ok(Way::Tcp(t)) => Wakes::Line(t.connection().clone()),
        Ok(Way::Floor(_) | Way::Queues(_)) | Err(_) => Wakes::Clock,
    }
}

/// Rings that brought nothing.
#[derive(Default)]
struct VainWakes {
    count: u32,
    since: Option<Instant>,
    deaf_until: Option<Instant>,
}

impl VainWakes {
    fn ring(&mut self, now: Instant) {
        match self.since {
            Some(since) if now.saturating_duration_since(since) < IN_VAIN.1 => self.count += 1,
            _ => (self.since, self.count) = (Some(now), 1),
        }
        if self.count > IN_VAIN.0 {
            self.since = None;
            self.deaf_until = Some(now + DEAF);
        }
    }

    fn is_deaf(&self, now: Instant) -> bool {
        self.deaf_until.is_some_and(|until| now < until)
    }
}

impl Waiter {
    /// A waiter for one thread or event loop.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the process has no descriptors left; it takes two, and
    /// one more for each TCP connection.
    pub fn new() -> Result<Self> {
        let made = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let on = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), on)?;
            Ok((epoll, timer))
        };
        let (epoll, timer) = made().map_err(failed)?;
        let (armed, sources, process) = (vec![], vec![], Process::current());
        Ok(Waiter {
            process,
            epoll,
            timer,
            armed,
            sources,
            since: None,
            vain: VainWakes::default(),
        })
    }

    /// Returns which calls are answered, as places in `calls`. If none is, the
    /// descriptor becomes readable as soon as one of them may be answered. Sleep on it,
    /// then arm again, because there are spurious wakes. Without calls this only disarms.
    ///
    /// # Errors
    /// As [`Waiter::new`].
    pub fn arm<'a, C>(&mut self, calls: impl IntoIterator<Item = C>) -> Result<Vec<usize>>
    where
        C: Into<InFlight<'a>>,
    {
        let calls: Vec<InFlight<'a>> = calls.into_iter().map(Into::into).collect();
        self.arm_these(&calls)
    }

    /// Makes the descriptor unreadable; services no longer ring for it.
    pub fn disarm(&mut self) {
        self.lie_down();
        if !self.is_ours() {
            return;
        }
        self.since = None;
        // Nothing can fail here that would matter: the next arming does it all again.
        let _ = self.set_timer(Duration::ZERO);
        let _ = self.drain();
    }

    /// Waits until one of the calls is answered, and returns its place in `calls`; `None`
    /// if `timeout` has passed first. Without a `timeout` it waits without a limit.
    ///
    /// # Errors
    /// As [`Waiter::new`].
    pub fn wait<'a, C>(
        &mut self,
        calls: impl IntoIterator<Item = C>,
        timeout: Option<Duration>,
    ) -> Result<Option<usize>>
    where
        C: Into<InFlight<'a>>,
    {
        let calls: Vec<InFlight<'a>> = calls.into_iter().map(Into::into).collect();
        self.check(&calls)?;
        let began = Instant::now();
        let until = timeout.and_then(|t| began.checked_add(t));
        while !calls.is_empty() && began.elapsed() < LOOK {
            if let Some(found) = calls.iter().position(InFlight::answered) {
                return Ok(Some(found));
            }
            pause();
        }
        loop {
            let found = self.arm_these(&calls)?;
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if let Some(first) = found.first() {
                return Ok(Some(*first));
            }
            if calls.is_empty() || left.is_some_and(|left| left.is_zero()) {
                self.disarm();
                return Ok(None);
            }
            let left = left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
            let ts =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&ts)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    /// Makes the descriptor readable soon, for a call that could not be looked at now.
    ///
    /// # Errors
    /// As [`Waiter::new`].
    #[doc(hidden)]
    pub fn look_again(&mut self) -> Result<()> {
        self.set_timer(TIMED_SLEEP.1).map_err(failed)
    }

    /// Fails in a child of the process whose the waiter or one of the calls is.
    fn check(&self, calls: &[InFlight<'_>]) -> Result<()> {
        if !self.is_ours() {
            return Err(Error::Forked);
        }
        calls.iter().try_for_each(|c| c.function.calls.way().map(drop))
    }

    fn arm_these(&mut self, calls: &[InFlight<'_>]) -> Result<Vec<usize>> {
        self.check(calls)?;
        let those = |which: fn(&InFlight<'_>) -> bool| -> Vec<usize> {
            calls.iter().enumerate().filter(|(_, c)| which(c)).map(|(i, _)| i).collect()
        };
        let rung = self.drain().map_err(failed)?;
        let found = those(|c| c.answered());
        let now = Instant::now();
        if rung && found.is_empty() && (calls.is_empty() || !self.armed.is_empty()) {
            self.vain.ring(now);
        }
        if !found.is_empty() || calls.is_empty() {
            self.disarm();
            if calls.is_empty() && self.vain.is_deaf(now) {
                // Somebody else's bell must not wake who waits for nothing.
                self.listen(&[], true).map_err(failed)?;
            }
            return Ok(found);
        }
        self.lie_down();
        let mut functions: Vec<&Arc<Active>> = vec![];
        for call in calls {
            if !functions.iter().any(|f| Arc::ptr_eq(f, call.function)) {
                functions.push(call.function);
            }
        }
        let deaf = self.vain.is_deaf(now);
        let all_ring = self.listen(&functions, deaf).map_err(failed)?;
        for function in functions {
            if let Ok(Way::Window(w)) = function.calls.way() {
                w.sleep_elsewhere();
            }
            self.armed.push(Arc::downgrade(function));
        }
        // An answer before the declaration rang nobody.
        let found = those(|c| c.settled());
        if !found.is_empty() {
            self.disarm();
            return Ok(found);
        }
        let (since, times) = *self.since.get_or_insert((now, 0));
        self.since = Some((since, times + 1));
        let waited = now.saturating_duration_since(since);
        let sleep = match (all_ring, times) {
            (true, 0) => FIRST_SLEEP,
            (true, _) => LONGEST_SLEEP,
            (false, _) => (waited / SLEEP_FRACTION).clamp(TIMED_SLEEP.0, TIMED_SLEEP.1),
        };
        let sleep = if deaf { TIMED_SLEEP.1 } else { sleep };
        self.set_timer(sleep).map_err(failed)?;
        Ok(found)
    }

    /// Whether this is the process that made it: a child of fork shares the epoll
    /// with its parent, and has no part in its functions.
    pub(crate) fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// Takes declarations of sleep back.
    fn lie_down(&mut self) {
        if !self.is_ours() {
            return self.armed.drain(..).for_each(std::mem::forget);
        }
        // One that is gone has nothing to take back, and is not kept for it.
        for function in self.armed.drain(..).filter_map(|f| f.upgrade()) {
            if let Ok(Way::Window(w)) = function.calls.way() {
                w.awake_elsewhere();
            }
        }
    }

    /// Has exactly what wakes for these functions in the epoll; whether all have
    /// something that does.
    fn listen(&mut self, functions: &[&Arc<Active>], deaf: bool) -> rustix::io::Result<bool> {
        let wanted: Vec<Wakes> = match deaf {
            true => vec![],
            false => functions.iter().map(|f| wakes(f)).collect(),
        };
        let gone = |s: &Source| !wanted.iter().any(|w| s.is_of(w));
        for source in self.sources.extract_if(.., |s| gone(s)) {
            for fd in source.descriptors().into_iter().flatten() {
                epoll::delete(&self.epoll, fd)?;
            }
        }
        let mut all_ring = !deaf;
        for wakes in wanted {
            if self.sources.iter().any(|s| s.is_of(&wakes)) {
                continue;
            }
            let source = match wakes {
                Wakes::Bell(bell) => Source::Bell(bell),
                Wakes::Line(line) => {
                    let bell = Arc::new(Bell::new().map_err(|e| {
                        rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::MFILE)
                    })?);
                    line.listen(&bell);
                    Source::Line(line, bell)
                }
                Wakes::Clock => {
                    all_ring = false;
                    continue;
                }
            };
            let on = epoll::EventFlags::IN | epoll::EventFlags::ET;
            for fd in source.descriptors().into_iter().flatten() {
                epoll::add(&self.epoll, fd, epoll::EventData::new_u64(RUNG), on)?;
            }
            self.sources.push(source);
            // A bell that rang before it was listened to is an edge, too.
            self.drain()?;
        }
        Ok(all_ring)
    }

    /// Takes the edges out, so that the descriptor is not readable; whether one was a bell's.
    fn drain(&self) -> rustix::io::Result<bool> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut rung = false;
        // One edge each at most.
        for _ in 0..=self.sources.len() / 4 {
            let mut events = [std::mem::MaybeUninit::uninit(); 8];
            match epoll::wait(&self.epoll, &mut events[..], Some(&now)) {
                Ok((got, _)) => {
                    rung |= got.iter().any(|e| e.data.u64() == RUNG);
                    if got.is_empty() {
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(rung)
    }

    /// Once, after so long; never for zero.
    fn set_timer(&self, after: Duration) -> rustix::io::Result<()> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let spec = Itimerspec { it_interval: none, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).map(drop)
    }
}

#[cold]
fn failed(e: rustix::io::Errno) -> Error {
    Error::BadOption(format!("no descriptor to wait by: {}", std::io::Error::from(e)))
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl std::os::fd::AsRawFd for Waiter {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.epoll.as_raw_fd()
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiter({} functions armed)", self.armed.len())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.lie_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_in_vain_are_not_listened_to_for_ever() {
        let (mut vain, start) = (VainWakes::default(), Instant::now());
        let at = |us: u64| start + Duration::from_micros(us);
        // One in a millisecond is anybody's.
        (0..1000).for_each(|ms| vain.ring(at(ms * 1000)));
        assert!(!vain.is_deaf(at(1_000_000)));
        (0..65).for_each(|n| vain.ring(at(2_000_000 + n)));
        assert!(vain.is_deaf(at(2_000_100)) && vain.is_deaf(at(2_099_000)));
        assert!(!vain.is_deaf(at(2_101_000)), "and then listened to again");
    }
}
