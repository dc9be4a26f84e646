//! The function `bond`: orders go to agents, reports to the manager, and what is is said.

use crate::common;

use common::{App, PATIENCE, Service, Shape, start_of};
use std::time::{Duration, Instant};
use vfun_bond::{Call, Mode, Order, Path, REPORTS_PER_S, Report};
use vfun_ring::PollAnswer;
use vfun_sdk::abi;
use vfun_sdk::service::NO_ORDER;
use vfun_supervise::{Driver, FromService, ToService};
use vfun_wire::Status;

fn bond() -> Service {
    Service::start(start_of(vfun_bond::FUNCTION, Driver::Bond))
}

fn open(s: &mut Service, channel: u64) -> App {
    s.open(channel, Shape { cell_bytes: 1024, ..Shape::default() })
}

fn order(number: u64) -> Order {
    Order { number, path: Path::Vf, report_ms: 1000 }
}

fn report(order: u64) -> Report {
    Report {
        order,
        agent: "0.1.0".into(),
        bond: "bond0".into(),
        mode: Mode::Bond,
        mac: "02:00:00:00:00:01".into(),
        path: Some(Path::Paravirtual),
        vf: None,
        packets: order,
        latency_us: None,
        trouble: None,
    }
}

fn next(have: u64) -> Vec<u8> {
    Call::Next { have }.to_bytes()
}

fn tell(r: &Report) -> Vec<u8> {
    Call::Tell(r.clone()).to_bytes()
}

/// The driver's error that a call ended with.
fn failed((status, bytes): (Status, Vec<u8>)) -> (i32, String) {
    assert_eq!(status, Status::DriverError, "{}", String::from_utf8_lossy(&bytes));
    let (code, words) = bytes.split_first_chunk().expect("a code");
    (i32::from_le_bytes(*code), String::from_utf8_lossy(words).into_owned())
}

#[test]
fn an_order_answers_the_call_that_waits_for_it() {
    let mut s = bond();
    let (app, other) = (open(&mut s, 1), open(&mut s, 2));
    let (waits, others) = (app.post(&next(0)), other.post(&next(0)));
    s.tell(ToService::Order { channel: 1, order: order(7) });
    let (status, bytes) = app.finish(waits);
    assert_eq!((status, Order::from_bytes(&bytes)), (Status::Ok, Ok(order(7))));
    // An order that the agent has not got is answered at once, one that it has is not.
    assert_eq!(Order::from_bytes(&app.ok(&next(3))), Ok(order(7)));
    let waits = app.post(&next(7));
    s.tell(ToService::Order { channel: 1, order: order(7) });
    assert_eq!(app.answer_within(&waits, Duration::from_millis(100)), None, "it has that one");
    s.tell(ToService::Order { channel: 1, order: order(9) });
    assert_eq!(Order::from_bytes(&app.finish(waits).1), Ok(order(9)));
    assert_eq!(other.caller.look(&others), PollAnswer::NotYet, "the order of another VM");
    // For a channel that is not there.
    s.tell(ToService::Order { channel: 3, order: order(8) });
    s.stop();
}

#[test]
fn one_call_waits_at_a_time() {
    let mut s = bond();
    let app = open(&mut s, 1);
    let first = app.post(&next(0));
    let second = app.post(&next(0));
    let (code, words) = failed(app.finish(first));
    assert!(code == NO_ORDER && words.contains("a later call"), "{words}");
    assert_eq!(app.rst().0, Status::Ok);
    let (code, words) = failed(app.finish(second));
    assert!(code == NO_ORDER && words.contains("rst"), "{words}");
    s.stop();
}

#[test]
fn what_is_no_message_is_refused_and_the_channel_goes_on() {
    let mut s = bond();
    let app = open(&mut s, 1);
    for wrong in [&b""[..], b"{}", &tell(&Report { bond: "two\nlines".into(), ..report(1) })] {
        assert_eq!(failed(app.call(wrong)).0, abi::BAD_ARGS);
    }
    assert!(app.ok(&tell(&report(1))).is_empty());
    assert_eq!(s.hear(), FromService::Told { channel: 1, report: report(1) });
    s.stop();
}

/// What the service tells until it tells this report of channel 1; all are of it.
fn told_until(s: &mut Service, last: u64) -> Vec<u64> {
    let mut told = vec![];
    while told.last() != Some(&last) {
        match s.hear() {
            FromService::Told { channel: 1, report } => told.push(report.order),
            other => panic!("{other:?}"),
        }
    }
    told
}

#[test]
fn newer_reports_take_the_place_of_older_ones_and_the_last_is_told() {
    let mut s = bond();
    let app = open(&mut s, 1);
    let from = Instant::now();
    for n in 1..=500 {
        app.ok(&tell(&report(n)));
    }
    let told = told_until(&mut s, 500);
    assert!(told.is_sorted(), "{told:?}");
    let most = 2 + from.elapsed().as_millis() as usize * REPORTS_PER_S as usize / 1000;
    assert!(told.len() <= most, "{} reports, and {most} were due", told.len());
    s.stop();
}

#[test]
fn a_manager_that_takes_over_is_told_the_last_report() {
    let mut s = bond();
    let app = open(&mut s, 1);
    app.ok(&tell(&report(5)));
    assert_eq!(told_until(&mut s, 5), [5]);
    s.tell(ToService::Report { by: 3 });
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until);
        match s.hear() {
            FromService::Told { channel: 1, report } => break assert_eq!(report.order, 5),
            FromService::Channels { .. } | FromService::Opened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    s.stop();
}

#[test]
fn another_service_goes_on_with_the_call_that_waits() {
    let mut s = bond();
    let app = open(&mut s, 1);
    s.tell(ToService::Order { channel: 1, order: order(7) });
    assert_eq!(Order::from_bytes(&app.ok(&next(0))), Ok(order(7)));
    let waits = app.post(&next(7));
    // Calls are served in turn: once this one is answered, the one before waits for an order.
    app.ok(&tell(&report(7)));
    s.child.kill().unwrap();
    s.end();
    let mut another = bond();
    another.serve(1, &app);
    another.tell(ToService::Order { channel: 1, order: order(8) });
    assert_eq!(Order::from_bytes(&app.finish(waits).1), Ok(order(8)));
    another.stop();
}
