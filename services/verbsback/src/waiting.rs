//! The NIC's thread: runs the engine while there is work, and waits as a service's threads do
//! (`vfun_wait`): it spins for a while, declares that it sleeps, looks once more, and sleeps
//! until a program rings, a control call wakes it, or a timer of the engine ends.

use crate::limits::{NAP_FIRST, NAP_LAST};
use crate::nic::{Nic, NicShared};
use crate::tables::Tables;
use crate::turns::Turn;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_supervise::CHANNEL_THREAD;
use vfun_wait::{Policy, WaitHistory, WaitMode, WaitSteps, clock, wait};
use vfun_window::BellWaiter;

impl Nic {
    /// Starts the NIC's thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let nic = self.clone();
        // The manager knows threads that serve by their name. Channels of queues have none of
        // their own: this one is theirs.
        let thread = std::thread::Builder::new().name(format!("{CHANNEL_THREAD}nic"));
        thread.spawn(move || {
            let _all = EndsAll;
            serve(&nic.0);
        })
    }
}

/// Ends the process if the thread panics: nobody else would serve the programs, which would wait
/// for ever. The manager tells them that their NIC is gone, and starts another one.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn serve(shared: &NicShared) {
    let (policy, learned) = (Policy::service(WaitMode::Hybrid), WaitHistory::default());
    let mut here = NicWait {
        shared,
        turn: Some(shared.tables.enter()),
        now: 0,
        until: None,
        bells: None,
        nap: NAP_FIRST,
    };
    while !shared.stops.load(Ordering::Relaxed) {
        if here.look(false).is_none() {
            wait(&policy, &learned, &mut here);
        }
    }
}

/// The thread while it waits, or does not.
struct NicWait<'a> {
    shared: &'a NicShared,
    /// There but while it sleeps.
    turn: Option<Turn<'a, Tables>>,
    /// The engine's time, ns: the clock may go back by a little, this does not.
    now: u64,
    /// When there is something to do even if nobody rings.
    until: Option<u64>,
    /// Where it sleeps, and whether some programs have no doorbell.
    bells: Option<(BellWaiter, bool)>,
    /// The next pause where they have none.
    nap: Duration,
}

impl NicWait<'_> {
    fn tables(&mut self) -> &mut Tables {
        self.turn.as_mut().expect("not asleep")
    }

    /// Where to sleep, made anew when channels came or went. A bell that ever rang counts as
    /// rung then, so that no ring is lost.
    fn listen(&mut self) {
        if self.bells.is_some() && !self.tables().channels_changed {
            return;
        }
        let (bells, silent) = self.tables().bells();
        self.tables().channels_changed = false;
        let all: Vec<_> = bells.iter().chain([&self.shared.waker]).collect();
        // Without it the thread looks now and then.
        self.bells = BellWaiter::any(&all).ok().map(|waiter| (waiter, silent));
    }

    /// Sleeps for at most `limit`.
    fn sleep(&mut self, limit: Option<Duration>) {
        let nap = self.nap;
        let done = match &self.bells {
            Some((waiter, false)) => waiter.wait(limit).map(drop),
            Some((waiter, true)) => waiter.wait(Some(limit.map_or(nap, |l| l.min(nap)))).map(drop),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        if done.is_err() {
            std::thread::sleep(limit.map_or(nap, |l| l.min(nap)));
        }
        self.nap = (nap * 2).min(NAP_LAST);
    }
}

impl WaitSteps for NicWait<'_> {
    /// Something was done.
    type Found = ();

    #[inline]
    fn look(&mut self, _hard: bool) -> Option<()> {
        loop {
            self.now = self.now.max(clock::now());
            let (now, turn) = (self.now, self.turn.as_mut().expect("not asleep"));
            turn.let_others();
            let ran = turn.run(now);
            self.until = ran.until;
            if ran.worked {
                self.nap = NAP_FIRST;
                return Some(());
            }
            if !ran.more || self.shared.stops.load(Ordering::Relaxed) {
                return None;
            }
        }
    }

    fn given_up(&mut self) -> Option<()> {
        self.shared.stops.load(Ordering::Relaxed).then_some(())
    }

    /// Programs are rung where their events are made.
    fn nudge(&mut self, _again: bool) {}

    fn declare(&mut self) {
        self.shared.asleep.store(true, Ordering::SeqCst);
        self.listen();
        self.tables().engine.declare_sleep();
    }

    fn awake(&mut self) {
        self.tables().engine.declare_awake();
        self.shared.asleep.store(false, Ordering::SeqCst);
    }

    fn doze(&mut self, limit: Option<u64>) {
        let left = self.until.map(|until| until.saturating_sub(clock::now()));
        let limit = [limit, left].into_iter().flatten().min().map(Duration::from_nanos);
        self.turn = None;
        self.sleep(limit);
        self.turn = Some(self.shared.tables.enter());
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn pause(&self) {
        vfun_window::pause();
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::now()
    }
}
