//! A grant in the middle of a hand-over: whoever dies there, and whether or not a
//! manager is there, it is served in the end by one of the two, and no call is lost.

use crate::moving::*;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun::{CellState, Function, Session};
use vfun_admin::switch::Phase;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, Stop};

/// A grant in software that is on its way to a VF. Its service stands still, with
/// the word to hand it over in its socket.
struct Handing {
    stand: Stand,
    _session: Session,
    f: Function,
    /// Who has the channel.
    from: u32,
    /// Who stands by for it.
    to: u32,
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).expect("a pid"), signal).expect("it is there");
}

fn handing() -> Handing {
    let stand = Stand::with(&["--leases", "none", "--lease-interval-ms", "10"]);
    offer(&stand, 1);
    let session = stand.connect("moving");
    let f = session.function("misbehave").unwrap();
    assert!(!on_vf(&f));
    let from = stand.grants()[0].pid.expect("it runs");
    send(from, Signal::STOP);
    lease_by(&stand, vfun_leases::Policy::First);
    stand.until("it is handed over", |s| lease(s, "moving").moving == Some(Phase::Handing));
    let services = match stand.ask(&Ask::Services) {
        Reply::Services { services, .. } => services,
        other => panic!("{other:?}"),
    };
    let mut pids = services.iter().filter(|s| s.function == "misbehave").map(|s| s.pid);
    let to = pids.find(|pid| *pid != from).expect("it stands by");
    Handing { stand, _session: session, f, from, to }
}

/// One dies, and so does the manager, which cannot have noticed. What stands still
/// when its parent dies is let go on by the kernel, so the order matters.
fn dies_unseen(stand: &mut Stand, pid: u32) {
    send(stand.pid(), Signal::STOP);
    send(pid, Signal::KILL);
    stand.kill_vfund();
}

impl Handing {
    /// A manager comes; leases are given to nobody, so what is on the VF leaves it.
    fn next_manager(&mut self, most_restarts: u32) {
        self.stand.start_vfund();
        let f = &self.f;
        self.stand.until("it is in software again", |_| !on_vf(f));
        lease_by(&self.stand, vfun_leases::Policy::First);
        self.stand.until("and moves as before", |_| on_vf(f));
        let grants = self.stand.grants();
        assert_eq!(grants[0].counters.errors, 0);
        assert!(grants[0].restarts <= most_restarts, "{}", grants[0].restarts);
    }
}

#[test]
fn it_is_handed_over_while_no_manager_is_there() {
    let mut h = handing();
    let call = h.f.submit(&order(1)).unwrap();
    h.stand.kill_vfund();
    send(h.from, Signal::CONT);
    call.wait().unwrap();
    h.stand.until("it is on the VF, without a manager", |_| on_vf(&h.f));
    h.next_manager(0);
}

#[test]
fn whoever_handed_it_over_may_die_while_no_manager_is_there() {
    let mut h = handing();
    h.stand.kill_vfund();
    send(h.from, Signal::CONT);
    h.stand.until("it is on the VF, without a manager", |_| on_vf(&h.f));
    send(h.from, Signal::KILL);
    for _ in 0..100 {
        assert!(on_vf(&h.f));
    }
    // One, if it died before it had let go.
    h.next_manager(1);
}

#[test]
fn who_dies_with_it_leaves_its_calls_to_the_next_manager() {
    let mut h = handing();
    let call = h.f.submit(&order(1)).unwrap();
    dies_unseen(&mut h.stand, h.from);
    // Only a manager can tell the other one that it is its turn.
    std::thread::sleep(Duration::from_millis(100));
    assert_ne!(call.state(), CellState::Done);
    h.stand.start_vfund();
    assert_eq!(words(&call.wait().unwrap())[..2], [1, 0], "it ran once, in a new state");
    let f = &h.f;
    h.stand.until("it is in software again", |_| !on_vf(f));
    assert_eq!(errors(&h.stand), 0);
}

#[test]
fn who_stands_by_may_die_while_no_manager_is_there() {
    let mut h = handing();
    let call = h.f.submit(&order(1)).unwrap();
    dies_unseen(&mut h.stand, h.to);
    // It passes the baton to nobody, or answers this one first.
    std::thread::sleep(Duration::from_millis(100));
    h.stand.start_vfund();
    assert_eq!(words(&call.wait().unwrap())[0], 1);
    assert!(!on_vf(&h.f));
    assert_eq!(errors(&h.stand), 0);
}

/// The calls a second of a grant are those of its channel, whichever services have it.
#[test]
fn a_bound_on_calls_holds_whichever_service_has_the_channel() {
    const RATE: u32 = 20;
    let stand = Stand::with(PREEMPT);
    let text = format!("[client.host.function.misbehave]\ncalls_per_s = {RATE}\n");
    stand.ask(&Ask::SetPolicy { text, file: "test.toml".into() });
    offer(&stand, 1);
    let session = stand.connect("bound");
    let fs = [0, 1].map(|_| session.function("misbehave").unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = fs.each_ref().map(|f| {
            scope.spawn(|| {
                let (began, mut calls) = (Instant::now(), 0);
                while !stop.load(Ordering::Relaxed) || calls < 2 * RATE {
                    on_vf(f);
                    calls += 1;
                }
                (calls, began.elapsed())
            })
        });
        let end = Stop(&stop);
        stand.until("they move", |s| switches(s) > 100);
        drop(end);
        for thread in threads {
            let (calls, time) = thread.join().unwrap();
            // What comes evenly, what a channel that rested may catch up on, and one.
            let most = f64::from(RATE) * (time.as_secs_f64() + 0.1) + 1.0;
            assert!(f64::from(calls) <= most, "{calls} calls in {time:?}");
        }
    });
}
