//! Calls that are answered later, through a real manager.

use crate::moving::{self, lease, offer, on_vf, order, words};
use std::time::{Duration, Instant};
use vfun::{CellState, Error, Function, FunctionRequest, Pending};
use vfun_testdriver::Mode;
use vfun_tests_local::{Stand, number};

fn with(mode: Mode, tail: &[u8]) -> Vec<u8> {
    [&[mode as u8][..], tail].concat()
}

fn later(ms: u32, tail: &[u8]) -> Vec<u8> {
    [&[Mode::Later as u8][..], &ms.to_le_bytes(), tail].concat()
}

/// Posts a call and waits until its driver has it.
fn held<'f>(stand: &Stand, f: &'f Function, args: &[u8]) -> Pending<'f> {
    let call = f.submit(args).unwrap();
    stand.until("it is held", |_| call.state() == CellState::Busy);
    call
}

fn fire(f: &Function) -> u64 {
    number(&f.call(&[Mode::Fire as u8]).unwrap())
}

#[test]
fn ten_thousand_calls_of_a_client_stay_open_and_are_all_answered() {
    const FUNCTIONS: usize = 10;
    const CALLS: u32 = 1001;
    let stand = Stand::start();
    let session = stand.connect("many");
    let request = FunctionRequest::new("misbehave").depth(1024).cell_bytes(0);
    let get = |_| session.negotiate(&request).unwrap().activate().unwrap();
    let functions: Vec<_> = (0..FUNCTIONS).map(get).collect();
    let open: Vec<Vec<_>> = functions
        .iter()
        .map(|f| {
            let call = |i: u32| f.submit(&with(Mode::Event, &i.to_le_bytes())).unwrap();
            (0..CALLS).map(call).collect()
        })
        .collect();
    for (f, calls) in functions.iter().zip(open) {
        // Those of the others are open still.
        assert_eq!(f.call(&with(Mode::Echo, b"meanwhile")).unwrap(), b"meanwhile");
        assert_eq!(fire(f), u64::from(CALLS));
        for (i, call) in (0..CALLS).zip(calls) {
            assert_eq!(call.wait().unwrap(), i.to_le_bytes());
        }
    }
    for f in functions {
        let stats = f.release().unwrap();
        assert_eq!((stats.calls, stats.errors), (u64::from(CALLS) + 2, 0));
    }
}

#[test]
fn what_waits_for_an_event_outlives_every_deadline() {
    let stand = Stand::start();
    let session = stand.connect("patient");
    let request = FunctionRequest::new("misbehave").deadline(Duration::from_millis(100));
    let f = session.negotiate(&request).unwrap().activate().unwrap();
    let mut event = held(&stand, &f, &with(Mode::Event, b"at last"));
    let begun = held(&stand, &f, &with(Mode::Hold, b"too late"));
    assert!(matches!(begun.wait(), Err(Error::Deadline)));
    // The manager looks after 2 s more whether calls are answered; a caller gives up
    // after 5.
    assert!(!event.ready_within(Duration::from_millis(5500)));
    assert_eq!(fire(&f), 2);
    assert_eq!(event.wait().unwrap(), b"at last");
    assert_eq!(stand.grants()[0].restarts, 0, "{}", stand.log());
}

#[test]
fn a_release_ends_open_calls_at_once() {
    let stand = Stand::start();
    let session = stand.connect("leaves");
    let request = FunctionRequest::new("misbehave").deadline(Duration::from_millis(2000));
    let f = session.negotiate(&request).unwrap().activate().unwrap();
    drop(held(&stand, &f, &[Mode::Hold as u8]));
    drop(held(&stand, &f, &[Mode::Event as u8]));
    let from = Instant::now();
    f.release().unwrap();
    assert!(from.elapsed() < Duration::from_millis(1500), "it waited for a deadline");
    // Its pages and its service serve the next one.
    let again = session.function("misbehave").unwrap();
    assert_eq!(again.call(&later(1, b"again")).unwrap(), b"again");
    assert_eq!(stand.grants().len(), 1);
}

#[test]
fn a_crash_ends_what_was_begun_and_loses_no_event() {
    let stand = Stand::start();
    let session = stand.connect("crashes");
    let f = session.function("misbehave").unwrap();
    let event = held(&stand, &f, &with(Mode::Event, b"event"));
    let begun = held(&stand, &f, &[Mode::Hold as u8]);
    assert!(matches!(f.call(&[Mode::Crash as u8]), Err(Error::DriverCrashed)));
    assert!(matches!(begun.wait(), Err(Error::ServiceLost)));
    stand.until("it waits again", |_| event.state() == CellState::Busy);
    assert_eq!(fire(&f), 1);
    assert_eq!(event.wait().unwrap(), b"event");
}

#[test]
fn a_manager_that_is_killed_does_not_touch_open_calls() {
    let mut stand = Stand::start();
    let session = stand.connect("stays");
    let f = session.function("misbehave").unwrap();
    let event = held(&stand, &f, &with(Mode::Event, b"event"));
    let timed = held(&stand, &f, &later(300, b"timed"));
    stand.kill_vfund();
    assert_eq!(timed.wait().unwrap(), b"timed");
    stand.start_vfund();
    assert_eq!(fire(&f), 1);
    assert_eq!(event.wait().unwrap(), b"event");
    assert_eq!(f.stats().unwrap().errors, 0);
}

#[test]
fn a_grant_moves_when_what_was_begun_is_answered() {
    let stand = Stand::with(moving::PREEMPT);
    offer(&stand, 1);
    moving::lease_by(&stand, vfun_leases::Policy::None);
    let session = stand.connect("moves");
    let f = session.function("misbehave").unwrap();
    let event = held(&stand, &f, &with(Mode::Event, b"event"));
    let begun = held(&stand, &f, &later(1000, b"begun"));
    assert!(!on_vf(&f));
    moving::lease_by(&stand, vfun_leases::Policy::Fair);
    // The other service has it only once the call was answered by the first one.
    stand.until("it moved", |stand| {
        let moved = lease(stand, "moves").switches > 0;
        assert!(!moved || begun.state() == CellState::Done, "it moved too early");
        moved
    });
    assert_eq!(begun.wait().unwrap(), b"begun");
    // It may move on at any time, and the event goes along. An answer that comes during a
    // move may be refused, so it is given again.
    stand.until("the event is answered", |_| {
        fire(&f);
        event.state() == CellState::Done
    });
    assert_eq!(event.wait().unwrap(), b"event");
    assert_eq!(moving::errors(&stand), 0);
}

#[test]
fn a_device_that_is_lost_under_an_open_call_leaves_it_to_the_software() {
    let stand = Stand::with(&["--leases", "first", "--lease-interval-ms", "10"]);
    offer(&stand, 1);
    let session = stand.connect("loses");
    let f = session.function("misbehave").unwrap();
    stand.until("it gets the VF", |_| on_vf(&f));
    let mut args = order(7);
    args[0] = Mode::LoseLater as u8;
    let answer = words(&f.call(&args).unwrap());
    assert_eq!((answer[0], answer[4]), (7, 0), "the same call, in software");
    assert_eq!(moving::errors(&stand), 0);
}
