//! Every interleaving (and every stale value the memory model allows) of
//! small channels. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p vfun-ring --test loom --release
//! ```
//!
//! The tests named `without_…` break the sleep and wake handshake on purpose
//! and must find the lost wakeup: they prove that the others could fail. Where
//! a model blocks on a doorbell, a lost wakeup shows as a deadlock, which loom
//! reports (the process then aborts).
#![cfg(loom)]

mod memory;
mod waits;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use memory::{Model, channel};
use std::sync::atomic::Ordering;
use vfun_ring::*;
use vfun_wire::Status;
use vfun_wire::channel::Command;

/// A doorbell as `vfun_window::Bell` is one: rings are kept until waited for.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Self {
        Bell(Arc::new((Mutex::new(false), Condvar::new())))
    }
    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
    fn rung(&self) -> bool {
        *self.0.0.lock().unwrap()
    }
    /// Blocks for ever if nobody rings: loom then reports a deadlock.
    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn model(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check(f);
}

fn post(caller: &Caller<Model>, n: u64) -> Ticket {
    loop {
        match caller.claim() {
            Ok(claim) => return caller.post_inline(claim, Command::Set, &n.to_le_bytes()),
            Err(Full) => thread::yield_now(),
        }
    }
}

/// The function that the server computes: any answer but the caller's own is noticed.
fn f(n: u64) -> u64 {
    n * 1000 + 7
}

fn serve(server: &mut Server<Model>, r: &Request) {
    assert_eq!((r.command, r.len), (Command::Set, 8));
    let n = u64::from_le_bytes(r.inline[..8].try_into().unwrap());
    assert!(n > 0, "a request was seen before its arguments");
    server.answer_inline(r.cell, Status::Ok, &f(n).to_le_bytes());
}

fn finish(caller: &Caller<Model>, ticket: Ticket, n: u64) -> Result<(), Ticket> {
    match caller.look(&ticket) {
        PollAnswer::Done(a) => {
            assert_eq!((a.status, a.len), (0, 8));
            assert_eq!(a.inline[..8], f(n).to_le_bytes(), "somebody else's answer");
            caller.take(ticket);
            Ok(())
        }
        PollAnswer::NotYet => Err(ticket),
        other => panic!("{other:?}"),
    }
}

fn spin_until_finished(caller: &Caller<Model>, mut ticket: Ticket, n: u64) {
    while let Err(again) = finish(caller, ticket, n) {
        ticket = again;
        thread::yield_now();
    }
}

fn spin_serve(server: &mut Server<Model>, calls: usize, mut after: impl FnMut(&mut Server<Model>)) {
    let mut served = 0;
    while served < calls {
        match server.next_anywhere() {
            Next::Call(r) => {
                serve(server, &r);
                after(server);
                served += 1;
            }
            Next::Nothing => thread::yield_now(),
            Next::Broken(v) => panic!("{v}"),
        }
    }
    assert_eq!(server.next_anywhere(), Next::Nothing, "more requests than calls");
}

/// Two threads of the app and the service: each call is answered once, with
/// its own data. Two calls share one cell when `depth` is 1. Every step rings
/// (three spinning threads have too many interleavings), but most looks come
/// before the ring that tells of them.
fn two_callers(depth: u16, preemptions: usize) {
    model(Some(preemptions), move || {
        let (caller, mut server) = channel(depth);
        let posted = Bell::new();
        let changed = [Bell::new(), Bell::new()];
        let one = |caller: Arc<Caller<Model>>, n: u64, posted: Bell, changed: [Bell; 2]| {
            let mine = &changed[n as usize - 1];
            let mut ticket = loop {
                match caller.claim() {
                    Ok(claim) => break caller.post_inline(claim, Command::Set, &n.to_le_bytes()),
                    Err(Full) => mine.wait(),
                }
            };
            posted.ring();
            while let Err(again) = finish(&caller, ticket, n) {
                ticket = again;
                mine.wait();
            }
            changed.iter().for_each(Bell::ring);
        };
        let a = {
            let (caller, posted, changed) = (caller.clone(), posted.clone(), changed.clone());
            thread::spawn(move || one(caller, 1, posted, changed))
        };
        let b = {
            let (posted, changed) = (posted.clone(), changed.clone());
            thread::spawn(move || {
                let mut served = 0;
                while served < 2 {
                    match server.next_anywhere() {
                        Next::Call(r) => {
                            serve(&mut server, &r);
                            changed.iter().for_each(Bell::ring);
                            served += 1;
                        }
                        Next::Nothing => posted.wait(),
                        Next::Broken(v) => panic!("{v}"),
                    }
                }
                assert_eq!(server.next_anywhere(), Next::Nothing, "more requests than calls");
            })
        };
        one(caller, 2, posted, changed);
        a.join().unwrap();
        b.join().unwrap();
    });
}

#[test]
fn two_callers_are_answered_once_each() {
    two_callers(2, 2);
}

#[test]
fn two_callers_share_one_cell() {
    two_callers(1, 2);
}

/// A cell used again carries the second call's data, never the first's.
#[test]
fn a_cell_is_used_again() {
    model(Some(3), || {
        let (caller, mut server) = channel(1);
        let s = thread::spawn(move || spin_serve(&mut server, 2, |_| ()));
        for n in 1..=2 {
            let t = post(&caller, n);
            spin_until_finished(&caller, t, n);
        }
        s.join().unwrap();
    });
}

/// The service sleeps as R-SLP says until it has served one call.
fn sleeping_service(
    server: &mut Server<Model>,
    bell: &Bell,
    calls: usize,
    mut after: impl FnMut(&mut Server<Model>),
) {
    let mut served = 0;
    while served < calls {
        let mut found = server.next_anywhere();
        if found == Next::Nothing {
            server.declare_sleep();
            found = server.next_anywhere();
            if found == Next::Nothing {
                bell.wait();
            }
            server.declare_awake();
        }
        if let Next::Call(r) = found {
            serve(server, &r);
            after(server);
            served += 1;
        }
    }
}

/// A thread of the app sleeps as R-SLP says until its call is answered.
fn sleep_until_finished(caller: &Caller<Model>, bell: &Bell, mut ticket: Ticket, n: u64) {
    loop {
        match finish(caller, ticket, n) {
            Ok(()) => return,
            Err(again) => ticket = again,
        }
        caller.declare_sleep();
        if matches!(caller.look(&ticket), PollAnswer::NotYet) {
            bell.wait();
        }
        caller.declare_awake();
    }
}

/// In how many executions a side slept on although there was work, and
/// nobody rang. Counted, not asserted inside: the broken variants are looked
/// at the same way.
fn lost_wakeups(one: impl Fn() -> bool + Send + Sync + 'static) -> usize {
    let lost = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = lost.clone();
    model(None, move || {
        if one() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    lost.load(Ordering::Relaxed)
}

/// The service goes to sleep while a caller posts: whether it sleeps on.
fn service_sleeps_on(must_ring: fn(&Caller<Model>) -> bool, look_again: bool) -> bool {
    let (caller, mut server) = channel(1);
    let service = thread::spawn(move || {
        if server.next_anywhere() != Next::Nothing {
            return false;
        }
        server.declare_sleep();
        !look_again || server.next_anywhere() == Next::Nothing
    });
    let _posted = post(&caller, 5);
    let rang = must_ring(&caller);
    service.join().unwrap() && !rang
}

#[test]
fn a_service_that_goes_to_sleep_is_woken() {
    assert_eq!(lost_wakeups(|| service_sleeps_on(Caller::must_ring, true)), 0);
}

/// The fence in `must_ring` is what the test above depends on.
#[test]
fn without_the_callers_fence_a_wakeup_is_lost() {
    assert!(lost_wakeups(|| service_sleeps_on(Caller::seems_asleep, true)) > 0);
}

/// So is the second look, after declaring sleep.
#[test]
fn without_the_services_second_look_a_wakeup_is_lost() {
    assert!(lost_wakeups(|| service_sleeps_on(Caller::must_ring, false)) > 0);
}

/// A caller goes to sleep while the service answers: whether it sleeps on.
fn caller_sleeps_on(must_ring: fn(&Server<Model>) -> bool, look_again: bool) -> bool {
    let (caller, mut server) = channel(1);
    let ticket = post(&caller, 5);
    let service = thread::spawn(move || {
        let Next::Call(r) = server.next_anywhere() else { panic!("posted before") };
        serve(&mut server, &r);
        must_ring(&server)
    });
    let not_yet = |t: &Ticket| caller.look(t) == PollAnswer::NotYet;
    let sleeps = not_yet(&ticket) && {
        caller.declare_sleep();
        !look_again || not_yet(&ticket)
    };
    let rang = service.join().unwrap();
    sleeps && !rang
}

#[test]
fn a_caller_that_goes_to_sleep_is_woken() {
    assert_eq!(lost_wakeups(|| caller_sleeps_on(Server::must_ring, true)), 0);
}

#[test]
fn without_the_services_fence_a_wakeup_is_lost() {
    assert!(lost_wakeups(|| caller_sleeps_on(Server::seems_asleep, true)) > 0);
}

#[test]
fn without_the_callers_second_look_a_wakeup_is_lost() {
    assert!(lost_wakeups(|| caller_sleeps_on(Server::must_ring, false)) > 0);
}

/// Both sides sleep at every chance, for two calls through one cell.
#[test]
fn both_sides_sleep_and_wake() {
    model(Some(3), || {
        let (caller, mut server) = channel(1);
        let (to_service, to_app) = (Bell::new(), Bell::new());
        let (service_bell, app_bell) = (to_service.clone(), to_app.clone());
        let s = thread::spawn(move || {
            sleeping_service(&mut server, &service_bell, 2, |server| {
                if server.must_ring() {
                    app_bell.ring();
                }
            });
        });
        for n in 1..=2 {
            let t = post(&caller, n);
            if caller.must_ring() {
                to_service.ring();
            }
            sleep_until_finished(&caller, &to_app, t, n);
        }
        s.join().unwrap();
    });
}

/// Two threads of the app sleep on a bell each (a waiter of its own on the
/// shared vector), and one ring wakes both.
#[test]
fn two_callers_sleep_and_wake() {
    model(Some(2), || {
        let (caller, mut server) = channel(2);
        let bells = [Bell::new(), Bell::new()];
        let theirs = bells.clone();
        let s = thread::spawn(move || {
            spin_serve(&mut server, 2, |server| {
                if server.must_ring() {
                    theirs.iter().for_each(Bell::ring);
                }
            });
        });
        let (other, bell) = (caller.clone(), bells[0].clone());
        let a = thread::spawn(move || {
            let t = post(&other, 1);
            sleep_until_finished(&other, &bell, t, 1);
        });
        let t = post(&caller, 2);
        sleep_until_finished(&caller, &bells[1], t, 2);
        a.join().unwrap();
        s.join().unwrap();
    });
}
