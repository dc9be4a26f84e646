//! The steps of a wait as both ends take them: `vfun_queue::wait`, which is
//! `vfun_wait::wait`, in each mode. Time is made up, so that hybrid spins once
//! and then sleeps; of a batch of looks the model makes one.

use super::memory::{Bell, queue};
use super::{In, Out, entry, model, take};
use loom::thread;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vfun_queue::*;
use vfun_wait::{Policy, WaitHistory, WaitMode, limits::LOOKS};

/// What is left out, to show that it matters.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// Declares sleep only when it is about to doze, after the last look.
    Order,
    /// Looks whether the other side sleeps without a fence.
    Fence,
}

/// Sleeping for good is said so.
const ASLEEP: Broken = Broken::Ended(Reason::Other(99));

/// An end that may leave something out.
struct Ends<E> {
    end: E,
    without: Without,
    looks: u32,
    asleep: std::rc::Rc<Cell<bool>>,
    seems_asleep: fn(&E) -> bool,
}

impl<E: End> Ends<E> {
    fn new(end: E, without: Without, seems_asleep: fn(&E) -> bool) -> Self {
        Ends { end, without, looks: 0, asleep: Default::default(), seems_asleep }
    }
}

impl<E: End> End for Ends<E> {
    fn ready(&mut self, hard: bool) -> Result<bool, Broken> {
        if self.asleep.get() {
            return Err(ASLEEP);
        }
        if hard {
            return self.end.ready(true);
        }
        self.looks += 1;
        if self.looks % LOOKS != 1 {
            return Ok(false);
        }
        // Spin mode alone looks so often. The others are not to be made to
        // wait for the other side's steps.
        if self.looks > 8 * LOOKS {
            thread::yield_now();
        }
        self.end.ready(false)
    }
    fn must_ring(&self) -> bool {
        match self.without {
            Without::Fence => (self.seems_asleep)(&self.end),
            _ => self.end.must_ring(),
        }
    }
    fn declare_sleep(&self) {
        if self.without != Without::Order {
            self.end.declare_sleep();
        }
    }
    fn declare_awake(&self) {
        // An end that sleeps on keeps its declaration, for the other side to see.
        if !self.asleep.get() {
            self.end.declare_awake();
        }
    }
}

/// The process around an end: made-up time, loom's doorbells.
struct Made {
    mine: Bell,
    theirs: Bell,
    /// Doze for real, or say that one would.
    dozes: bool,
    asleep: std::rc::Rc<Cell<bool>>,
    time: Cell<u64>,
}

impl WaitEnvironment for Made {
    fn ring(&self) {
        self.theirs.ring();
    }
    fn doze(&self, _: Option<Duration>) {
        if self.dozes {
            self.mine.wait();
        } else {
            self.asleep.set(true);
        }
    }
    fn give_way(&self) {
        thread::yield_now();
    }
    fn pause(&self) {}
    fn now(&self) -> u64 {
        self.time.set(self.time.get() + 40_000);
        self.time.get()
    }
}

fn around<E>(end: &Ends<E>, mine: &Bell, theirs: &Bell, dozes: bool) -> Made {
    let (mine, theirs, asleep) = (mine.clone(), theirs.clone(), end.asleep.clone());
    Made { mine, theirs, dozes, asleep, time: Cell::new(0) }
}

fn wait_on<E: End>(end: &mut Ends<E>, around: &Made, policy: &Policy) -> Result<bool, Broken> {
    let found = wait(end, around, true, (policy, &WaitHistory::default()), None);
    if found == Err(ASLEEP) && end.without == Without::Order {
        end.end.declare_sleep();
    }
    found
}

fn lost(f: impl Fn() -> bool + Sync + Send + 'static) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    model(Some(3), move || {
        if f() {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    count.load(Ordering::Relaxed)
}

/// What an end does after its step, when it waits for nothing more: the ring
/// that a seen declaration asks for, then the fence and the look of R-SLP-2.
fn leave<E: End>(end: &Ends<E>, bell: &Bell) {
    if (end.seems_asleep)(&end.end) || end.must_ring() {
        bell.ring();
    }
}

fn out_end(p: Out, without: Without) -> Ends<Out> {
    Ends::new(p, without, Producer::seems_asleep)
}

fn in_end(c: In, without: Without) -> Ends<In> {
    Ends::new(c, without, Consumer::seems_asleep)
}

/// A consumer waits in `mode` while an entry comes: whether it sleeps on
/// without having been rung.
fn consumer_sleeps_on(mode: WaitMode, without: Without) -> bool {
    let (mut p, c) = queue(2);
    let (to_consumer, to_producer) = (Bell::new(), Bell::new());
    let (mine, theirs) = (to_consumer.clone(), to_producer.clone());
    let consumer = thread::spawn(move || {
        let mut end = in_end(c, without);
        let here = around(&end, &mine, &theirs, false);
        wait_on(&mut end, &here, &Policy::service(mode))
    });
    p.produce(&[entry(1)]).unwrap();
    leave(&out_end(p, without), &to_consumer);
    consumer.join().unwrap() == Err(ASLEEP) && !to_consumer.rung()
}

/// A producer waits for room in `mode` while an entry is taken.
fn producer_sleeps_on(mode: WaitMode, without: Without) -> bool {
    let (mut p, mut c) = queue(2);
    assert_eq!(p.produce(&[entry(1), entry(2)]), Ok(2));
    let (to_consumer, to_producer) = (Bell::new(), Bell::new());
    let (mine, theirs) = (to_producer.clone(), to_consumer.clone());
    let producer = thread::spawn(move || {
        let mut end = out_end(p, without);
        let here = around(&end, &mine, &theirs, false);
        wait_on(&mut end, &here, &Policy::caller(mode))
    });
    assert_eq!(take(&mut c, 1, 1), [1]);
    leave(&in_end(c, without), &to_producer);
    producer.join().unwrap() == Err(ASLEEP) && !to_producer.rung()
}

#[test]
fn waits_that_sleep_are_woken_in_each_mode() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert_eq!(lost(move || consumer_sleeps_on(mode, Without::Nothing)), 0, "{mode}");
        assert_eq!(lost(move || producer_sleeps_on(mode, Without::Nothing)), 0, "{mode}");
    }
}

#[test]
fn without_the_steps_in_their_order_a_wait_sleeps_on() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert!(lost(move || consumer_sleeps_on(mode, Without::Order)) > 0, "{mode}");
        assert!(lost(move || producer_sleeps_on(mode, Without::Order)) > 0, "{mode}");
    }
}

#[test]
fn without_the_fence_a_wait_sleeps_on() {
    for mode in [WaitMode::Hybrid, WaitMode::Sleep] {
        assert!(lost(move || consumer_sleeps_on(mode, Without::Fence)) > 0, "{mode}");
        assert!(lost(move || producer_sleeps_on(mode, Without::Fence)) > 0, "{mode}");
    }
}

/// Three entries through two places, both ends waiting for real: a lost wakeup
/// is a deadlock.
fn three_entries(out: WaitMode, inn: WaitMode) {
    model(Some(2), move || {
        let (p, c) = queue(2);
        let (to_consumer, to_producer) = (Bell::new(), Bell::new());
        let (mine, theirs) = (to_consumer.clone(), to_producer.clone());
        let consumer = thread::spawn(move || {
            let mut end = in_end(c, Without::Nothing);
            let here = around(&end, &mine, &theirs, true);
            for n in 1..=3 {
                assert_eq!(wait_on(&mut end, &here, &Policy::service(inn)), Ok(true));
                assert_eq!(take(&mut end.end, 1, 1), [n]);
                leave(&end, &theirs);
            }
        });
        let mut end = out_end(p, Without::Nothing);
        let here = around(&end, &to_producer, &to_consumer, true);
        for n in 1..=3 {
            assert_eq!(wait_on(&mut end, &here, &Policy::caller(out)), Ok(true));
            assert_eq!(end.end.produce(&[entry(n)]), Ok(1));
            leave(&end, &to_consumer);
        }
        consumer.join().unwrap();
    });
}

#[test]
fn entries_go_between_any_two_modes() {
    for &out in WaitMode::ALL {
        for &inn in WaitMode::ALL {
            three_entries(out, inn);
        }
    }
}
