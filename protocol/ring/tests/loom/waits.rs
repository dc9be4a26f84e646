//! The steps of a wait as both sides take them: `vfun_wait::wait` itself, in
//! each mode, over the model's channel. Time is made up, so that hybrid spins
//! once and then sleeps; of a batch of looks the model makes one.

use super::{Bell, channel, f, lost_wakeups, model, post, serve};
use crate::memory::Model;
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use vfun_ring::*;
use vfun_wait::{Policy, WaitHistory, WaitMode, WaitSteps, limits::LOOKS, wait};

/// What is left out, to show that it matters.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// Declares sleep only when it is about to doze, after the last look.
    Order,
    /// Looks whether the other side sleeps without a fence.
    Fence,
}

/// How a wait ended.
#[derive(PartialEq, Debug)]
enum Ended {
    Found,
    /// It would sleep until rung.
    Asleep,
}

/// What both sides share: time, and the doorbells.
struct Common {
    mine: Bell,
    theirs: Bell,
    /// Doze for real, or say that one would.
    dozes: bool,
    without: Without,
    asleep: bool,
    soft_looks: u32,
    time: Cell<u64>,
}

impl Common {
    fn new(mine: &Bell, theirs: &Bell, dozes: bool, without: Without) -> Self {
        let (mine, theirs) = (mine.clone(), theirs.clone());
        let (asleep, soft_looks, time) = (false, 0, Cell::new(0));
        Common { mine, theirs, dozes, without, asleep, soft_looks, time }
    }

    /// Whether to look at all.
    fn looks(&mut self, hard: bool) -> bool {
        if hard {
            // Who is asleep does not look.
            return !self.asleep;
        }
        self.soft_looks += 1;
        let looks = self.soft_looks % LOOKS == 1;
        // Spin mode alone looks so often. The others are not to be made to
        // wait for the other side's steps.
        if looks && self.soft_looks > 4 * LOOKS {
            thread::yield_now();
        }
        looks
    }

    fn doze(&mut self) {
        if self.dozes {
            self.mine.wait();
        } else {
            self.asleep = true;
        }
    }

    fn now(&self) -> u64 {
        self.time.set(self.time.get() + 40_000);
        self.time.get()
    }
}

struct Service {
    server: Server<Model>,
    unrung: bool,
    common: Common,
}

impl Service {
    /// As the service's loop does after an answer.
    fn ring_seen(&mut self) {
        if self.server.seems_asleep() {
            self.common.theirs.ring();
        } else {
            self.unrung = true;
        }
    }
}

impl WaitSteps for Service {
    type Found = Ended;

    fn look(&mut self, hard: bool) -> Option<Ended> {
        if !self.common.looks(hard) {
            return None;
        }
        match self.server.next_anywhere() {
            Next::Call(r) => {
                serve(&mut self.server, &r);
                self.ring_seen();
                Some(Ended::Found)
            }
            Next::Nothing => None,
            Next::Broken(v) => panic!("{v}"),
        }
    }

    fn given_up(&mut self) -> Option<Ended> {
        self.common.asleep.then_some(Ended::Asleep)
    }

    fn nudge(&mut self, _again: bool) {
        let asleep = |s: &Service| match s.common.without {
            Without::Fence => s.server.seems_asleep(),
            _ => s.server.must_ring(),
        };
        if std::mem::take(&mut self.unrung) && asleep(self) {
            self.common.theirs.ring();
        }
    }

    fn declare(&mut self) {
        if self.common.without != Without::Order {
            self.server.declare_sleep();
        }
    }

    fn awake(&mut self) {
        // Whoever sleeps on keeps its declaration, for the other side to see.
        if !self.common.asleep {
            self.server.declare_awake();
        }
    }

    fn doze(&mut self, _: Option<u64>) {
        self.nudge(true);
        if self.common.without == Without::Order {
            self.server.declare_sleep();
        }
        self.common.doze();
    }

    fn give_way(&mut self) {
        thread::yield_now();
    }
    fn pause(&self) {}
    fn now(&self) -> u64 {
        self.common.now()
    }
}

struct App {
    caller: Arc<Caller<Model>>,
    ticket: Ticket,
    n: u64,
    rung: bool,
    common: Common,
}

impl App {
    fn post(caller: &Arc<Caller<Model>>, n: u64, common: Common) -> Self {
        let ticket = post(caller, n);
        let rung = caller.seems_asleep();
        if rung {
            common.theirs.ring();
        }
        App { caller: caller.clone(), ticket, n, rung, common }
    }
}

impl WaitSteps for App {
    type Found = Ended;

    fn look(&mut self, hard: bool) -> Option<Ended> {
        if !self.common.looks(hard) {
            return None;
        }
        match self.caller.look(&self.ticket) {
            PollAnswer::Done(a) => {
                assert_eq!(a.inline[..8], f(self.n).to_le_bytes(), "somebody else's answer");
                Some(Ended::Found)
            }
            PollAnswer::NotYet => None,
            other => panic!("{other:?}"),
        }
    }

    fn given_up(&mut self) -> Option<Ended> {
        self.common.asleep.then_some(Ended::Asleep)
    }

    fn nudge(&mut self, again: bool) {
        let asleep = || match self.common.without {
            Without::Fence => self.caller.seems_asleep(),
            _ => self.caller.must_ring(),
        };
        if (again || !self.rung) && asleep() {
            self.common.theirs.ring();
        }
    }

    fn declare(&mut self) {
        if self.common.without != Without::Order {
            self.caller.declare_sleep();
        }
    }

    fn awake(&mut self) {
        if !self.common.asleep {
            self.caller.declare_awake();
        }
    }

    fn doze(&mut self, _: Option<u64>) {
        if self.common.without == Without::Order {
            self.caller.declare_sleep();
        }
        self.common.doze();
    }

    fn give_way(&mut self) {
        thread::yield_now();
    }
    fn pause(&self) {}
    fn now(&self) -> u64 {
        self.common.now()
    }
}

/// A service waits in `mode` while an app posts and then waits: whether the
/// service sleeps on without having been rung.
fn service_sleeps_on(mode: WaitMode, without: Without) -> bool {
    let (caller, server) = channel(1);
    let (to_service, to_app) = (Bell::new(), Bell::new());
    let common = Common::new(&to_service, &to_app, false, without);
    let service = thread::spawn(move || {
        let mut here = Service { server, unrung: false, common };
        wait(&Policy::service(mode), &WaitHistory::default(), &mut here)
    });
    let mut app = App::post(&caller, 5, Common::new(&to_app, &to_service, false, without));
    app.nudge(false); // a wait begins
    service.join().unwrap() == Ended::Asleep && !to_service.rung()
}

/// An app waits in `mode` while its call is answered and the service then
/// waits: whether the app sleeps on without having been rung.
fn app_sleeps_on(mode: WaitMode, without: Without) -> bool {
    let (caller, server) = channel(1);
    let (to_service, to_app) = (Bell::new(), Bell::new());
    let mut app = App::post(&caller, 5, Common::new(&to_app, &to_service, false, without));
    let common = Common::new(&to_service, &to_app, false, without);
    let service = thread::spawn(move || {
        let mut here = Service { server, unrung: false, common };
        assert_eq!(here.look(true), Some(Ended::Found), "posted before");
        here.nudge(false); // a wait begins
    });
    let ended = wait(&Policy::caller(mode), &WaitHistory::default(), &mut app);
    service.join().unwrap();
    ended == Ended::Asleep && !to_app.rung()
}

#[test]
fn waits_that_sleep_are_woken_in_each_mode() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert_eq!(lost_wakeups(move || service_sleeps_on(mode, Without::Nothing)), 0, "{mode}");
        assert_eq!(lost_wakeups(move || app_sleeps_on(mode, Without::Nothing)), 0, "{mode}");
    }
}

#[test]
fn without_the_steps_in_their_order_a_wait_sleeps_on() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert!(lost_wakeups(move || service_sleeps_on(mode, Without::Order)) > 0, "{mode}");
        assert!(lost_wakeups(move || app_sleeps_on(mode, Without::Order)) > 0, "{mode}");
    }
}

#[test]
fn without_the_nudges_fence_a_wait_sleeps_on() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert!(lost_wakeups(move || service_sleeps_on(mode, Without::Fence)) > 0, "{mode}");
        assert!(lost_wakeups(move || app_sleeps_on(mode, Without::Fence)) > 0, "{mode}");
    }
}

/// One call, both sides waiting for real: a lost wakeup is a deadlock.
fn one_call(app: WaitMode, service: WaitMode) {
    model(Some(2), move || {
        let (caller, server) = channel(1);
        let (to_service, to_app) = (Bell::new(), Bell::new());
        let common = Common::new(&to_service, &to_app, true, Without::Nothing);
        let served = thread::spawn(move || {
            let mut here = Service { server, unrung: false, common };
            wait(&Policy::service(service), &WaitHistory::default(), &mut here);
            here.nudge(false); // the next wait begins
        });
        let common = Common::new(&to_app, &to_service, true, Without::Nothing);
        let mut here = App::post(&caller, 5, common);
        wait(&Policy::caller(app), &WaitHistory::default(), &mut here);
        caller.take(here.ticket);
        served.join().unwrap();
    });
}

#[test]
fn a_call_between_any_two_modes_ends() {
    for &app in WaitMode::ALL {
        for &service in WaitMode::ALL {
            one_call(app, service);
        }
    }
}
