//! Calls through the real service process.

use crate::common;

use common::{App, Service, Shape, native, start_of};
use std::time::{Duration, Instant};
use vfun_ring::{Memory, sync::Ordering};
use vfun_supervise::ToService;
use vfun_testdriver::{Mode, SENTENCE};
use vfun_wire::Status;
use vfun_wire::channel::{CellState, in_header, line_off};
use vfun_wire::kind::ChannelKind;

fn asks(mode: Mode, n: u32) -> Vec<u8> {
    [&[mode as u8][..], &n.to_le_bytes()].concat()
}

fn no_data() -> Shape {
    Shape { cell_bytes: 0, ..Shape::default() }
}

#[test]
fn the_functions_that_ship_give_known_results() {
    let two = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
    let mut s = Service::of("factorial");
    assert_eq!(s.open(1, no_data()).ok(&two(20, 3)), 2_432_902_008_176_640_000u64.to_le_bytes());
    let mut s = Service::of("fibonacci");
    assert_eq!(s.open(1, no_data()).ok(&two(93, 3)), 12_200_160_415_121_876_738u64.to_le_bytes());
    let mut s = Service::of("sum");
    let array: Vec<u8> =
        [1, 0, 0, 0, 0, 0, 0, 0].into_iter().chain((0..4000).map(|i| i as u8)).collect();
    let want: u64 = array[8..].iter().map(|&b| u64::from(b)).sum();
    assert_eq!(s.open(1, Shape::default()).ok(&array), want.to_le_bytes());
    let mut s = Service::of("sha256");
    let digest = s.open(1, Shape::default()).ok(&[b'a'; 1000]);
    assert_eq!(digest[..4], [0x41, 0xed, 0xec, 0xe4]);
    assert_eq!(digest.len(), 32);
    s.stop();
}

#[test]
fn echo_of_every_size_in_line_and_in_the_data_space() {
    let mut s = Service::of("echo");
    let app = s.open(1, Shape::default());
    let bytes: Vec<u8> = (0..4096).map(|i| (i % 253) as u8).collect();
    for n in [0, 1, 7, 8, 9, 47, 48, 49, 64, 1000, 4095, 4096] {
        assert_eq!(app.ok(&bytes[..n]), bytes[..n], "{n} bytes");
    }
    let small = s.open(2, no_data());
    assert_eq!(small.ok(&bytes[..48]), bytes[..48]);
    s.stop();
}

#[test]
fn a_drivers_error_has_its_code_and_sentence() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let (status, bytes) = app.call(&asks(Mode::Code, 4711));
    assert_eq!(status, Status::DriverError);
    assert_eq!(bytes[..4], 4711u32.to_le_bytes());
    assert_eq!(&bytes[4..], SENTENCE.as_bytes(), "in the data space there is room for all");
    let small = s.open(2, no_data());
    let (status, bytes) = small.call(&asks(Mode::Code, 5));
    assert_eq!((status, bytes.len()), (Status::DriverError, 48));
    assert_eq!(&bytes[4..], &SENTENCE.as_bytes()[..44]);
    assert_eq!(small.ok(&[Mode::Echo as u8, 9]), [9], "and the channel lives on");
}

#[test]
fn more_results_than_fit_are_refused() {
    let mut s = Service::misbehaving();
    for (n, shape) in [(1, Shape::default()), (2, no_data())] {
        let app = s.open(n, shape);
        assert_eq!(app.call(&[Mode::TooLarge as u8]), (Status::ResultTooLarge, vec![]));
        assert_eq!(app.ok(&[Mode::Echo as u8, 9]), [9]);
    }
    let app = s.open(3, Shape::default());
    assert_eq!(app.ok(&asks(Mode::Fill, 4096)).len(), 4096);
    assert_eq!(app.call(&asks(Mode::Fill, 4097)).0, Status::ResultTooLarge);
}

#[test]
fn more_arguments_than_the_driver_takes_do_not_reach_it() {
    let mut s = Service::of("factorial");
    let app = s.open(1, Shape::default());
    assert_eq!(app.call(&[0; 17]), (Status::BadLength, vec![]));
    assert_eq!(app.call(&[0; 100]), (Status::BadLength, vec![]));
    let (status, bytes) = app.call(&[0; 15]);
    assert_eq!(status, Status::DriverError);
    assert_eq!(i32::from_le_bytes(bytes[..4].try_into().unwrap()), vfun_sdk::abi::BAD_ARGS);
}

#[test]
fn a_panic_is_an_error_and_the_state_starts_afresh() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let other = s.open(2, Shape::default());
    other.ok(&[Mode::Count as u8]);
    assert_eq!(app.ok(&[Mode::Count as u8]), 1u64.to_le_bytes());
    assert_eq!(app.ok(&[Mode::Count as u8]), 2u64.to_le_bytes());
    let (status, bytes) = app.call(&[Mode::Panic as u8]);
    assert_eq!(status, Status::DriverError);
    assert_eq!(i32::from_le_bytes(bytes[..4].try_into().unwrap()), vfun_sdk::abi::PANIC);
    let words = String::from_utf8(bytes[4..].to_vec()).unwrap();
    assert!(words.starts_with("panic: the test driver was told to panic"), "{words}");
    assert_eq!(app.ok(&[Mode::Count as u8]), 1u64.to_le_bytes());
    assert_eq!(
        other.ok(&[Mode::Count as u8]),
        2u64.to_le_bytes(),
        "the other app's state is its own"
    );
    s.stop();
}

#[test]
fn rst_clears_one_channels_state() {
    let mut s = Service::misbehaving();
    let (a, b) = (s.open(1, Shape::default()), s.open(2, Shape::default()));
    for app in [&a, &b] {
        app.ok(&[Mode::Count as u8]);
    }
    assert_eq!(a.rst(), (Status::Ok, vec![]));
    assert_eq!(a.ok(&[Mode::Count as u8]), 1u64.to_le_bytes());
    assert_eq!(b.ok(&[Mode::Count as u8]), 2u64.to_le_bytes());
}

#[test]
fn the_driver_is_told_of_app_and_settings() {
    let mut start = start_of("misbehave", native("libvfun_testdriver.so"));
    start.settings.insert("greeting".into(), "grüß dich".into());
    let mut s = Service::start(start);
    let app = s.open(77, Shape::default());
    assert_eq!(app.ok(&[Mode::Whoami as u8]), "app77\0grüß dich".as_bytes());
}

#[test]
fn the_window_names_the_call_under_way_and_only_that() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let current = || app.caller.memory().load(in_header::CURRENT, Ordering::Acquire);
    app.ok(&[]);
    let ticket = app.post(&asks(Mode::Sleep, 100));
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(app.caller.state(&ticket), CellState::Busy);
    assert_eq!(current(), (ticket.cell() as u64 + 1) << 32 | u64::from(ticket.seq()));
    app.finish(ticket);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(current(), 0);
}

#[test]
fn an_app_that_sleeps_is_rung() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    for _ in 0..20 {
        let ticket = app.post(&asks(Mode::Sleep, 5));
        app.caller.declare_sleep();
        assert!(app.answer_within(&ticket, Duration::ZERO).is_none());
        assert!(app.waiter.as_ref().unwrap().wait(Some(common::PATIENCE)).unwrap(), "not rung");
        app.caller.declare_awake();
        app.finish(ticket);
    }
    // Counted after the ring, so it may still be on its way.
    let rang = || app.caller.memory().load(in_header::RANG, Ordering::Relaxed);
    let until = std::time::Instant::now() + common::PATIENCE;
    while rang() < 20 {
        assert!(std::time::Instant::now() < until, "{}", rang());
        std::thread::yield_now();
    }
}

#[test]
fn an_app_that_sleeps_on_a_malformed_call_is_rung() {
    use vfun_wire::channel::{Word0, Word1};
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let mem = app.caller.memory();
    let lines = |cell: usize| line_off(cell) / 8;
    for (cell, pause_ms) in [(0, 0), (1, 20), (2, 0), (3, 20)] {
        std::thread::sleep(Duration::from_millis(pause_ms)); // let it sleep, or not
        app.caller.declare_sleep();
        mem.store(lines(cell) + 1, Word1 { len: 49, status: 0 }.pack(), Ordering::Relaxed);
        mem.store(
            lines(cell),
            Word0 { seq: 1, op: 1, ..Word0::default() }.pack(),
            Ordering::Release,
        );
        app.ring();
        let until = std::time::Instant::now() + common::PATIENCE;
        while Word0::unpack(mem.load(lines(cell), Ordering::Acquire)).seq != 1 {
            assert!(app.waiter.as_ref().unwrap().wait(Some(common::PATIENCE)).unwrap(), "not rung");
            assert!(std::time::Instant::now() < until);
        }
        app.caller.declare_awake();
        let word1 = Word1::unpack(mem.load(lines(cell) + 1, Ordering::Relaxed));
        assert_eq!(word1.status, Status::BadLength.to_wire());
    }
}

#[test]
fn many_threads_keep_a_channel_full() {
    let mut s = Service::of("echo");
    let app = s.open(1, Shape { depth: 16, ..Shape::default() });
    std::thread::scope(|scope| {
        for t in 0..4u32 {
            let app = &app;
            scope.spawn(move || {
                for i in 0..5_000u32 {
                    let n = if i % 10 == 0 { 100 } else { 8 };
                    let args: Vec<u8> = (0..n).map(|k| (t * 31 + i + k) as u8).collect();
                    assert_eq!(app.ok(&args), args);
                }
            });
        }
    });
    let calls = app.caller.memory().load(in_header::CALLS, Ordering::Relaxed);
    assert_eq!(calls, 20_000);
}

#[test]
fn more_spinners_than_processors_make_progress() {
    let services: Vec<Service> = (0..6).map(|_| Service::of("echo")).collect();
    let from = std::time::Instant::now();
    std::thread::scope(|scope| {
        for mut s in services {
            scope.spawn(move || {
                let app = s.open(1, Shape::default());
                for i in 0..2_000u32 {
                    assert_eq!(app.ok(&i.to_le_bytes()), i.to_le_bytes());
                }
                s.stop();
            });
        }
    });
    println!("6 services and 6 callers, 2000 calls each: {:?}", from.elapsed());
    assert!(from.elapsed() < common::PATIENCE);
}

#[test]
fn many_channels_of_one_service() {
    let mut s = Service::misbehaving();
    let apps: Vec<App> = (0..40)
        .map(|n| s.open(n, Shape { depth: 2, doorbell: n % 2 == 0, ..Shape::default() }))
        .collect();
    for round in 1..=3u64 {
        let tickets: Vec<_> = apps.iter().map(|a| a.post(&[Mode::Count as u8])).collect();
        for (app, ticket) in apps.iter().zip(tickets) {
            assert_eq!(app.finish(ticket), (Status::Ok, round.to_le_bytes().to_vec()));
        }
    }
    for n in 0..40 {
        s.close(n);
    }
    s.stop();
}

#[test]
fn the_floor_answers_raw_lines() {
    let mut s = Service::start(start_of("floor", vfun_supervise::Driver::Floor));
    for doorbell in [true, false] {
        let shape = Shape {
            kind: ChannelKind::Floor,
            cell_bytes: 0,
            depth: 8,
            doorbell,
            ..Shape::default()
        };
        let app = s.open(u64::from(doorbell), shape);
        let mem = app.caller.memory();
        for i in 0..1000u64 {
            let at = line_off(i as usize % 8) / 8;
            mem.store(at, i + 1, Ordering::Release);
            app.ring();
            let until = std::time::Instant::now() + common::PATIENCE;
            while mem.load(at, Ordering::Acquire) != i + 1 {
                assert!(std::time::Instant::now() < until, "no answer to line {i}");
                std::hint::spin_loop();
            }
            if i % 250 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    s.stop();
}

/// Calls of one thread, each made as soon as the one before it is answered.
fn calls_within(app: &App, time: Duration) -> u32 {
    let (from, mut n) = (Instant::now(), 0);
    while from.elapsed() < time {
        app.ok(&[]);
        n += 1;
    }
    n
}

#[test]
fn a_bounded_channel_is_slowed_down_and_no_call_of_it_fails() {
    for doorbell in [true, false] {
        let mut s = Service::misbehaving();
        let app = s.open(3, Shape { calls_per_s: 200, doorbell, ..Shape::default() });
        let free = s.open(4, Shape { doorbell, ..Shape::default() });
        let (from, n) = (Instant::now(), calls_within(&app, Duration::from_millis(1000)));
        let most = from.elapsed().as_secs_f64() * 200.0 + 2.0;
        assert!(f64::from(n) <= most, "{n} calls, at most {most}");
        // Its neighbour in the same process is not bounded, while it waits.
        let waits = app.post(&[]);
        (0..500).for_each(|_| drop(free.ok(&[])));
        app.finish(waits);
        // Another bound holds for the channel that is there.
        s.tell(ToService::Rate { channel: 3, calls_per_s: 1 });
        s.tell(ToService::Rate { channel: 77, calls_per_s: 1 });
        s.heard();
        app.ok(&[]);
        app.ok(&[]);
        let (from, waits) = (Instant::now(), app.post(&[]));
        assert!(app.answer_within(&waits, Duration::from_millis(300)).is_none(), "it waits");
        s.tell(ToService::Rate { channel: 3, calls_per_s: 0 });
        app.finish(waits);
        (0..500).for_each(|_| drop(app.ok(&[])));
        assert!(from.elapsed() >= Duration::from_millis(300));
        // One that waits for its time does not keep the channel from closing.
        s.tell(ToService::Rate { channel: 3, calls_per_s: 1 });
        s.heard();
        let pending: Vec<_> = (0..4).map(|_| app.post(&[])).collect();
        s.close(3);
        drop(pending);
        s.stop();
    }
}
