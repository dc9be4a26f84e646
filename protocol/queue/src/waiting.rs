//! How an end waits: `vfun_wait`'s policy, in the steps of R-SLP-1 to 4.

use crate::broken::Broken;
use std::time::Duration;
use vfun_wait::{Policy, WaitHistory, WaitSteps, clock};
use vfun_window::{Bell, BellWaiter, pause};

/// Sleep by the clock where a doorbell fails (R-SLP-7).
const WITHOUT_BELL: Duration = Duration::from_millis(1);

/// An end of a queue, as a wait sees it.
pub trait End {
    /// Whether what is waited for is there: room, or an entry. A hard look asks
    /// too whether the other side has ended the queue.
    ///
    /// # Errors
    /// [`Broken`]: nothing will come any more.
    fn ready(&mut self, hard: bool) -> Result<bool, Broken>;
    /// Whether the other side must be rung for what was done so far: fence,
    /// then look (R-QUE-8).
    fn must_ring(&self) -> bool;
    /// Declares that this side sleeps, and fences. Look once more after this,
    /// then sleep.
    fn declare_sleep(&self);
    /// Takes the declaration back.
    fn declare_awake(&self);
}

/// What a wait needs of the process around it.
pub trait WaitEnvironment {
    /// Rings the other side.
    fn ring(&self);
    /// Sleeps until rung, or for at most `limit` (`None`: as long as this side may).
    fn doze(&self, limit: Option<Duration>);
    /// Lets another thread of this processor run.
    fn give_way(&self) {
        std::thread::yield_now();
    }
    /// What the processor does between two looks.
    #[inline(always)]
    fn pause(&self) {
        pause();
    }
    /// Nanoseconds of a clock that never goes back.
    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }
}

/// The doorbells of one end, on one machine.
pub struct Bells {
    /// The other side rings it.
    pub mine: BellWaiter,
    /// This side rings it.
    pub theirs: Bell,
}

impl WaitEnvironment for Bells {
    fn ring(&self) {
        self.theirs.ring();
    }
    fn doze(&self, limit: Option<Duration>) {
        if self.mine.wait(limit).is_err() {
            std::thread::sleep(WITHOUT_BELL);
        }
    }
}

/// Waits until `end` is ready; `false` if the time `until` (ns of
/// [`WaitEnvironment::now`]) came first. `rung`: the other side was rung after what this
/// side did last, and need not be looked at again.
///
/// # Errors
/// [`Broken`]: nothing will come any more.
pub fn wait<E: End, A: WaitEnvironment>(
    end: &mut E,
    around: &A,
    rung: bool,
    (policy, learned): (&Policy, &WaitHistory),
    until: Option<u64>,
) -> Result<bool, Broken> {
    for _ in 0..policy.first_looks() {
        if end.ready(false)? {
            return Ok(true);
        }
        around.pause();
    }
    vfun_wait::wait(policy, learned, &mut WaitingEnd { end, around, rung, until })
}

struct WaitingEnd<'a, E, A> {
    end: &'a mut E,
    around: &'a A,
    rung: bool,
    until: Option<u64>,
}

impl<E: End, A: WaitEnvironment> WaitSteps for WaitingEnd<'_, E, A> {
    type Found = Result<bool, Broken>;

    #[inline]
    fn look(&mut self, hard: bool) -> Option<Self::Found> {
        match self.end.ready(hard) {
            Ok(false) => None,
            found => Some(found),
        }
    }

    fn given_up(&mut self) -> Option<Self::Found> {
        self.until.is_some_and(|until| self.now() >= until).then(|| self.end.ready(true))
    }

    fn nudge(&mut self, again: bool) {
        if (again || !self.rung) && self.end.must_ring() {
            self.around.ring();
        }
    }

    fn declare(&mut self) {
        self.end.declare_sleep();
    }

    fn awake(&mut self) {
        self.end.declare_awake();
    }

    fn doze(&mut self, limit: Option<u64>) {
        let left = self.until.map(|until| until.saturating_sub(self.now()));
        let limit = [limit, left].into_iter().flatten().min();
        self.around.doze(limit.map(Duration::from_nanos));
    }

    fn give_way(&mut self) {
        self.around.give_way();
    }

    #[inline(always)]
    fn pause(&self) {
        self.around.pause();
    }

    #[inline]
    fn now(&self) -> u64 {
        self.around.now()
    }
}
