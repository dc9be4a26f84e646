//! How a service starts, ends, and outlives what goes wrong around it.

use crate::common;

use common::{App, PATIENCE, Service, Shape, built, native, start_of};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use vfun_ring::{Memory, PollAnswer, sync::Ordering};
use vfun_supervise::{Driver, EXIT_CANNOT_START, EXIT_DEADLINE, FromService, ToService};
use vfun_testdriver::Mode;
use vfun_wire::Status;
use vfun_wire::channel::{Command, in_header, line_off};
use vfun_wire::kind::ChannelKind;
use vfun_wire::status::BreakReason;

fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn a_call_past_its_deadline_ends_the_service_which_says_so() {
    for (doorbell, idle_ms) in [(true, 0), (false, 0), (true, 1500)] {
        let mut s = Service::misbehaving();
        let app = s.open(5, Shape { deadline_ms: 500, doorbell, ..Shape::default() });
        app.ok(&[]);
        sleep_ms(idle_ms); // past the watch's own rest
        let from = Instant::now();
        let ticket = app.post(&[Mode::Hang as u8]);
        assert_eq!(s.hear(), FromService::Deadline { channel: 5 });
        assert!(from.elapsed() >= Duration::from_millis(500), "early: {:?}", from.elapsed());
        assert_eq!(s.end().code(), Some(EXIT_DEADLINE));
        assert!(from.elapsed() < common::PATIENCE, "late: {:?}", from.elapsed());
        let current = app.caller.memory().load(in_header::CURRENT, Ordering::Acquire);
        assert_eq!(
            current,
            (ticket.cell() as u64 + 1) << 32 | u64::from(ticket.seq()),
            "names the call"
        );
        assert_eq!(app.caller.look(&ticket), PollAnswer::NotYet, "the manager answers it");
    }
}

#[test]
fn calls_within_their_deadline_go_on_for_ever() {
    let mut s = Service::misbehaving();
    let app = s.open(5, Shape { deadline_ms: 2000, ..Shape::default() });
    for _ in 0..9 {
        app.ok(&[&[Mode::Sleep as u8][..], &300u32.to_le_bytes()].concat());
    }
    s.stop();
}

#[test]
fn a_manager_that_does_not_listen_does_not_hold_the_deadline() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape { deadline_ms: 200, ..Shape::default() });
    // Closing unknown channels is answered until the socket is full.
    for channel in 1000..1600 {
        let n = vfun_supervise::send(s.socket(), &ToService::Close { channel }, &[]);
        if n.is_err() {
            break;
        }
    }
    let _hangs = app.post(&[Mode::Hang as u8]);
    assert_eq!(s.end().code(), Some(EXIT_DEADLINE));
}

#[test]
fn a_crash_is_a_signal_and_the_next_service_goes_on_without_repeating_the_call() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    app.ok(&[Mode::Count as u8]);
    let crash = app.post_quietly(Command::Set, &[Mode::Crash as u8]);
    let after: Vec<_> =
        (0..3).map(|_| app.post_quietly(Command::Set, &[Mode::Count as u8])).collect();
    app.ring();
    assert!(s.end().signal().is_some());
    assert_eq!(app.caller.look(&crash), PollAnswer::NotYet);
    let mut next = Service::misbehaving();
    next.serve(1, &app);
    assert_eq!(app.finish(crash), (Status::DriverCrashed, vec![]));
    // In any order: that of calls which wait for the next service is not promised.
    let mut answers: Vec<_> = after.into_iter().map(|ticket| app.finish(ticket)).collect();
    answers.sort_by_key(|(_, count)| count.clone());
    let expected = [1u64, 2, 3].map(|n| (Status::Ok, n.to_le_bytes().to_vec()));
    assert_eq!(answers, expected, "each ran once, from a fresh state");
    next.stop();
}

#[test]
fn a_stack_overflow_takes_only_its_service() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let _lost = app.post(&[Mode::Fault as u8]);
    assert!(s.end().signal().is_some());
}

#[test]
fn a_channel_taken_over_after_a_close_goes_on_where_it_was() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    for _ in 0..20 {
        app.ok(&[]);
    }
    s.close(1);
    let waiting = app.post(&[Mode::Echo as u8, 42]);
    assert!(app.answer_within(&waiting, Duration::from_millis(50)).is_none(), "nobody serves");
    s.serve(2, &app);
    assert_eq!(app.finish(waiting), (Status::Ok, vec![42]));
    s.close(2);
    // One that is closed already, one that never was: said again, it could be
    // taken for the end of one that is opened anew.
    s.tell(ToService::Close { channel: 2 });
    s.tell(ToService::Close { channel: 99 });
    s.heard();
    s.stop();
}

#[test]
fn a_service_that_was_killed_is_followed_by_another() {
    let mut s = Service::of("echo");
    let app = s.open(1, Shape::default());
    app.ok(b"before");
    s.child.kill().unwrap();
    s.end();
    let tickets: Vec<_> = (0..8u8).map(|i| app.post(&[i])).collect();
    let mut next = Service::of("echo");
    next.serve(1, &app);
    for (i, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(app.finish(ticket), (Status::Ok, vec![i as u8]));
    }
}

#[test]
fn a_violation_breaks_its_channel_and_no_other() {
    let mut s = Service::of("echo");
    let (bad, good) = (s.open(1, Shape::default()), s.open(2, Shape::default()));
    bad.ok(b"fine so far");
    bad.caller.memory().store(line_off(3) / 8, 9999, Ordering::Release);
    bad.ring();
    match s.hear() {
        FromService::Broken { channel: 1, reason } => assert!(reason.contains("9999"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(bad.caller.broken(), Some(BreakReason::BadSequence));
    assert_eq!(good.ok(b"untouched"), b"untouched");
    s.close(1);
    s.stop();
}

#[test]
fn stop_finishes_the_call_under_way() {
    let mut s = Service::misbehaving();
    let app = s.open(1, Shape::default());
    let ticket = app.post(&[&[Mode::Sleep as u8][..], &200u32.to_le_bytes()].concat());
    sleep_ms(50);
    s.tell(ToService::Stop);
    s.hand(2, &App::new(Shape::default()));
    assert!(matches!(s.hear(), FromService::OpenFailed { channel: 2, .. }));
    assert_eq!(s.end().code(), Some(0));
    assert_eq!(app.finish(ticket), (Status::Ok, vec![]));
}

#[test]
fn when_the_manager_dies_calls_go_on() {
    for doorbell in [true, false] {
        let mut s = Service::of("echo");
        let app = s.open(1, Shape { doorbell, ..Shape::default() });
        app.ok(b"one");
        s.socket = None;
        for _ in 0..5 {
            sleep_ms(20);
            assert_eq!(app.ok(b"two"), b"two");
        }
        assert!(s.child.try_wait().unwrap().is_none());
    }
    let mut s = Service::of("echo");
    s.socket = None;
    assert_eq!(s.end().code(), Some(0), "with no channel there is nothing to stay for");
}

#[test]
fn a_service_that_cannot_start_says_why() {
    let here = |library| Driver::Native { library };
    let not_a_library = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&not_a_library, "#!/bin/sh\n").unwrap();
    let mut other_version = start_of("echo", native("libvfun_fn_echo.so"));
    other_version.version = 2 << 16 | 7;
    let mut no_such_cpu = start_of("echo", native("libvfun_fn_echo.so"));
    no_such_cpu.cpus = vec![999_999];
    for (start, words) in [
        (start_of("echo", here("/nowhere/lib.so".into())), "is it built and installed"),
        (start_of("echo", here("/".into())), "is not a file"),
        (start_of("echo", here(not_a_library.path().into())), "not a shared library"),
        (start_of("echo", here(built("libvfun_fn_sum.so"))), "driver is that of sum"),
        (other_version, "the manifest says echo 2.7, but the driver is version 1.0"),
        (no_such_cpu, "processors [999999]"),
    ] {
        let mut s = Service::spawn(start);
        match s.hear() {
            FromService::Failed { reason } => assert!(reason.contains(words), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(s.end().code(), Some(EXIT_CANNOT_START));
    }
    let mut s = Service::spawn(start_of("x", Driver::Floor));
    s.socket = None;
    s.end();
}

#[test]
fn a_window_that_is_truncated_ends_no_service() {
    let mut s = Service::of("echo");
    let other = s.open(1, Shape::default());
    for bytes in [0, 4096] {
        let app = App::in_file(Shape::default());
        s.serve(2, &app);
        assert_eq!(app.ok(b"before"), b"before");
        let file = std::fs::File::from(app.window.try_clone().unwrap());
        file.set_len(bytes).unwrap();
        // It looks by the clock, and writes its last words. Its app broke no rule.
        s.close(2);
        assert_eq!(other.ok(b"after"), b"after");
    }
    s.stop();
}

#[test]
fn a_channel_that_cannot_be_served_says_why_and_harms_nothing() {
    let mut s = Service::of("echo");
    let good = s.open(1, Shape::default());
    let mut refused = |app: &App, words: &str| {
        s.hand(7, app);
        match s.hear() {
            FromService::OpenFailed { channel: 7, reason } => {
                assert!(reason.contains(words), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    };
    refused(&App::new(Shape { kind: ChannelKind::Floor, ..Shape::default() }), "does not serve");
    let mut app = App::new(Shape::default());
    app.place.kind = 99;
    refused(&app, "unknown kind");
    let mut app = App::new(Shape::default());
    app.bells = None;
    refused(&app, "descriptors");
    let mut app = App::new(Shape::default());
    app.place.ranges[1].2 = app.place.ranges[0].2 + 4096;
    refused(&app, "overlap");
    let mut app = App::new(Shape::default());
    app.place.ranges[1].2 += 4096;
    refused(&app, "outside the window's heap");
    // And its file is no larger.
    app.window_bytes += 4096;
    refused(&app, "the range ends at");
    // No sum of what a manager says wraps around to another place of the file.
    app.origin = u64::MAX - 4095;
    refused(&app, "from byte 18446744073709547520 of its file on");
    app.window_bytes = u64::MAX;
    refused(&app, "no window has");
    let mut app = App::new(Shape::default());
    app.place.ranges[0].2 += 8;
    refused(&app, "whole pages");
    let mut app = App::new(Shape::default());
    app.place.shape[0] = 3;
    refused(&app, "beyond a limit");
    let mut app = App::new(Shape::default());
    app.place.ranges.swap(0, 1);
    refused(&app, "another side");
    s.hand(1, &App::new(Shape::default()));
    assert!(matches!(s.hear(), FromService::OpenFailed { channel: 1, .. }), "served already");
    assert_eq!(good.ok(b"ok"), b"ok");
    // The driver's own refusal.
    for (setting, words) in
        [("fail", "not today (driver's code 77)"), ("panic", "init was told to")]
    {
        let mut start = start_of("misbehave", native("libvfun_testdriver.so"));
        start.settings.insert(setting.into(), "not today".into());
        let mut s = Service::start(start);
        s.hand(1, &App::new(Shape::default()));
        match s.hear() {
            FromService::OpenFailed { channel: 1, reason } => {
                assert!(reason.contains(words), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        s.stop();
    }
}

#[test]
fn an_unreadable_message_is_ignored() {
    let mut s = Service::of("echo");
    vfun_window::fdpass::send(s.socket(), b"{\"to\":\"moon\"}", &[]).unwrap();
    let app = s.open(1, Shape::default());
    assert_eq!(app.ok(b"ok"), b"ok");
    s.stop();
}

#[test]
fn without_a_manager_the_program_says_who_starts_it() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_vfun-service"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(EXIT_CANNOT_START));
    assert!(String::from_utf8_lossy(&out.stderr).contains("vfund starts this program"));
}

#[test]
fn idle_channels_take_next_to_no_processor() {
    for doorbell in [true, false] {
        let mut s = Service::of("echo");
        let app = s.open(1, Shape { doorbell, depth: 64, ..Shape::default() });
        app.ok(b"once");
        sleep_ms(1500);
        // The least of three: what else runs here makes each look dearer.
        let share = (0..3)
            .map(|_| {
                let (from, used) = (Instant::now(), s.cpu());
                sleep_ms(700);
                (s.cpu() - used).as_secs_f64() / from.elapsed().as_secs_f64()
            })
            .fold(f64::MAX, f64::min);
        println!("idle, doorbell {doorbell}: {:.3} % of a processor", share * 100.0);
        // How little exactly is for `vfun bench footprint` to say; here only that
        // it sleeps, and with a doorbell does nothing else.
        let most = if doorbell { 0.0005 } else { 0.1 };
        assert!(share < most, "{:.3} %", share * 100.0);
        assert_eq!(app.ok(b"still there"), b"still there");
    }
}

#[test]
fn a_service_is_small_and_starts_at_once() {
    let mut times: Vec<Duration> = (0..9)
        .map(|_| {
            let from = Instant::now();
            let s = Service::of("echo");
            let took = from.elapsed();
            s.stop();
            took
        })
        .collect();
    times.sort();
    let mut s = Service::of("echo");
    let _apps: Vec<_> = (0..10).map(|n| s.open(n, Shape::default())).collect();
    let kb = s.status_kb("VmRSS:");
    println!("exec to Ready {:?} (median of 9); {kb} kB resident with 10 channels", times[4]);
    assert!(kb < 15_000, "{kb} kB");
    assert!(times[4] < Duration::from_millis(200), "{:?}", times[4]);
}

/// Times that threads of the service went to sleep so far.
fn sleeps(service: &Service) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", service.child.id())).unwrap();
    let of = |task: std::fs::DirEntry| -> Option<u64> {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse().ok()
    };
    tasks.filter_map(|task| of(task.unwrap())).sum()
}

/// Channels that share a bell, once all of them rest.
#[test]
fn a_ring_wakes_few_of_many_channels() {
    const CHANNELS: usize = 40;
    const CALLS: u64 = 25;
    let mut service = Service::of("echo");
    let shape = || Shape { doorbell: true, ..Shape::default() };
    let mut apps: Vec<App> = (0..CHANNELS).map(|_| App::new(shape())).collect();
    let bells = apps[0].bells.clone();
    for (channel, app) in apps.iter_mut().enumerate() {
        (app.bells, app.bell) = (bells.clone(), 1);
        service.serve(channel as u64, app);
        assert_eq!(app.ok(b"awake"), b"awake");
    }
    let quiet = |service: &Service| {
        let before = sleeps(service);
        std::thread::sleep(Duration::from_millis(600));
        sleeps(service) - before
    };
    let start = Instant::now();
    while quiet(&service) > 0 {
        assert!(start.elapsed() < PATIENCE, "its threads do not go to rest");
    }
    let before = sleeps(&service);
    for _ in 0..CALLS {
        // Long enough for the service to sleep; where it does not nobody is rung.
        std::thread::sleep(Duration::from_millis(4));
        assert_eq!(apps[CHANNELS / 2].ok(b"busy"), b"busy");
    }
    let slept = sleeps(&service) - before;
    assert!(slept < 12 * CALLS, "{slept} sleeps for {CALLS} calls on one of {CHANNELS} channels");
    // And everybody else is woken when it is called.
    for app in apps.iter().rev() {
        assert_eq!(app.ok(b"here"), b"here");
    }
    service.stop();
}
