//! From negotiation to release, with every function that ships.

use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun::{CellState, ChannelKind, Error, FunctionRequest, FunctionVersion, NackCode, Preference};
use vfun_admin::Ask;
use vfun_testdriver::Mode;
use vfun_tests_local::{Stand, args, number, programs, repo};
use vfun_wire::channel::{in_header, line_off};

#[test]
fn the_functions_that_ship_compute_what_they_say() {
    let stand = Stand::start();
    let session = stand.connect("shipped");
    assert!(session.describe().contains("host"), "{}", session.describe());
    assert!(session.info().doorbell);

    let factorial = session.function("factorial").unwrap();
    assert_eq!(number(&factorial.call(&args(20, 1)).unwrap()), 2_432_902_008_176_640_000);
    let wrapped = (1..=51u64).fold(1u64, u64::wrapping_mul);
    assert_eq!(number(&factorial.call(&args(51, 1000)).unwrap()), wrapped);
    let fibonacci = session.function("fibonacci").unwrap();
    assert_eq!(number(&fibonacci.call(&args(93, 3)).unwrap()), 12_200_160_415_121_876_738);

    let echo = session.function("echo").unwrap();
    for len in [0usize, 1, 7, 8, 47, 48, 49, 64, 4095, 4096] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(echo.call(&data).unwrap(), data, "{len} bytes");
    }
    let sha = session.function("sha256").unwrap();
    let digest = sha.call(b"abc").unwrap();
    assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);

    let stats = factorial.release().unwrap();
    assert_eq!((stats.calls, stats.errors), (2, 0));
    let names: Vec<_> = session.list().unwrap().into_iter().map(|f| f.name).collect();
    for name in ["echo", "factorial", "fibonacci", "floor", "resize", "sha256", "sum", "zstd"] {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }
}

#[test]
fn data_is_compressed_and_an_image_resized() {
    let stand = Stand::start();
    let session = stand.connect("media");
    let cells = |name| FunctionRequest::new(name).depth(2).cell_bytes(1 << 20);
    let open = |name| session.negotiate(&cells(name)).unwrap().activate().unwrap();
    let text = b"of windows and of functions ".repeat(10_000);
    let frame = open("zstd").call(&[&3u32.to_le_bytes()[..], &text].concat()).unwrap();
    assert_eq!(frame[..4], [0x28, 0xb5, 0x2f, 0xfd], "a Zstandard frame");
    assert!(frame.len() < text.len() / 100);
    let head: Vec<u8> = [100u32, 50, 200, 150].iter().flat_map(|n| n.to_le_bytes()).collect();
    let colour = [10, 200, 30, 255];
    let resize = open("resize");
    let grown = resize.call(&[head, colour.repeat(100 * 50)].concat()).unwrap();
    assert!(grown == colour.repeat(200 * 150));
    let short = resize.call(&[0; 16]).unwrap_err().to_string();
    assert!(short.contains("0 x 0 has no pixel"), "{short}");
}

#[test]
fn a_large_array_is_summed_where_it_was_written() {
    let stand = Stand::start();
    let session = stand.connect("sum");
    let n = 4 << 20;
    let request = FunctionRequest::new("sum").depth(2).cell_bytes(n + 64);
    let sum = session.negotiate(&request).unwrap().activate().unwrap();
    let mut slot = sum.borrow().unwrap();
    slot[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    for (i, b) in slot[8..8 + n as usize].iter_mut().enumerate() {
        *b = (i % 7) as u8;
    }
    let expect: u64 = (0..u64::from(n)).map(|i| i % 7).sum();
    let mut result = [0; 8];
    assert_eq!(slot.call_into(8 + n as usize, &mut result).unwrap(), 8);
    assert_eq!(number(&result), expect);
}

#[test]
fn many_calls_in_flight_come_back_each_with_its_own_answer() {
    let stand = Stand::start();
    let session = stand.connect("flight");
    let echo = session.function("echo").unwrap();
    let depth = usize::from(echo.info().depth);
    for round in 0..50u64 {
        let calls: Vec<_> = (0..depth as u64)
            .map(|i| echo.submit(&(round << 32 | i).to_le_bytes()).unwrap())
            .collect();
        assert!(matches!(echo.submit(b"one more"), Err(Error::Full { .. })));
        for (i, call) in calls.into_iter().enumerate().rev() {
            assert_eq!(number(&call.wait().unwrap()), round << 32 | i as u64);
        }
    }
}

#[test]
fn threads_share_a_channel_and_more_callers_than_cores_finish() {
    let stand = Stand::start();
    std::thread::scope(|scope| {
        for app in 0..3 {
            let stand = &stand;
            scope.spawn(move || {
                let session = stand.connect(&format!("app{app}"));
                // Three services: each app calls another function.
                let f = session.function(["echo", "sha256", "factorial"][app]).unwrap();
                std::thread::scope(|inner| {
                    for t in 0..2u64 {
                        let f = &f;
                        inner.spawn(move || {
                            for i in 0..2000u64 {
                                let sent = args(5, 1 + (i + t) % 3);
                                let got = f.call(&sent).unwrap();
                                match app {
                                    0 => assert_eq!(got, sent),
                                    1 => assert_eq!(got.len(), 32),
                                    _ => assert_eq!(number(&got), 120),
                                }
                            }
                        });
                    }
                });
                assert_eq!(f.stats().unwrap().calls, 4000);
            });
        }
    });
}

#[test]
fn rst_clears_what_a_function_keeps_and_apps_do_not_see_each_other() {
    let stand = Stand::start();
    let session = stand.connect("one");
    let f = || session.function("misbehave").unwrap();
    let (a, b) = (f(), f());
    let count = |f: &vfun::Function| number(&f.call(&[7]).unwrap());
    assert_eq!((count(&a), count(&a), count(&b)), (1, 2, 1), "each channel has a state of its own");
    a.rst().unwrap();
    assert_eq!((count(&a), count(&b)), (1, 2));
    assert_eq!(stand.totals().3, 1, "one service for a client's function");
}

#[test]
fn the_published_states_of_a_call_are_seen() {
    let stand = Stand::start();
    let session = stand.connect("states");
    let f = session.function("misbehave").unwrap();
    let mut slow = f.submit(&[6, 44, 1, 0, 0]).unwrap();
    let behind = f.submit(&[0, 9]).unwrap();
    stand.until("busy", |_| slow.state() == CellState::Busy);
    assert_eq!(behind.state(), CellState::Wait);
    while !slow.poll() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(slow.state(), CellState::Done);
    assert_eq!(behind.wait().unwrap(), [9]);
}

#[test]
fn what_cannot_be_granted_is_refused_by_name() {
    let stand = Stand::start();
    let session = stand.connect("refused");
    let code = |r: FunctionRequest| match session.negotiate(&r) {
        Err(Error::Refused(n)) => (n.code, n.software_instead),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("granted"),
    };
    let echo = || FunctionRequest::new("echo");
    assert_eq!(code(FunctionRequest::new("nothing")).0, NackCode::UnknownFunction);
    assert_eq!(code(echo().version(FunctionVersion::new(9, 0))).0, NackCode::WrongVersion);
    assert_eq!(code(echo().preference(Preference::Hardware)), (NackCode::NoHardware, true));
    assert_eq!(code(echo().cell_bytes(512 << 20)).0, NackCode::NoCapacity);
    let refused = session.negotiate(&echo().depth(1).cell_bytes(512 << 20)).err();
    let told = refused.expect("it does not fit").to_string();
    assert!(told.contains("536870912 bytes of arguments and as many of results"), "{told}");
    assert!(told.contains("send less in a call"), "{told}");
    // A full window: each channel takes about a third of it.
    let third = || echo().depth(1).cell_bytes(40 << 20);
    let held: Vec<_> =
        (0..3).map(|_| session.negotiate(&third()).unwrap().activate().unwrap()).collect();
    let full = session.negotiate(&third()).unwrap().activate();
    assert!(matches!(full, Err(Error::Refused(n)) if n.code == NackCode::NoCapacity));
    assert_eq!(held[0].call(b"still here").unwrap(), b"still here");
    drop(held);
    stand.until("room again", |_| {
        session.negotiate(&third()).and_then(vfun::Grant::activate).is_ok()
    });
}

#[test]
fn a_functions_own_error_codes_have_meanings() {
    let stand = Stand::start();
    let session = stand.connect("codes");
    let fewer = (-3, "fewer than two numbers of 8 bytes".to_owned());
    assert_eq!(session.function_codes("factorial").unwrap(), [fewer]);
    assert_eq!(session.function_codes("echo").unwrap(), [], "it has none");
    let e = session.function_codes("factoriel").unwrap_err();
    assert!(matches!(&e, Error::Refused(n) if n.code == NackCode::UnknownFunction), "{e}");
    assert!(e.to_string().contains("factorial"), "what was probably meant: {e}");

    // As many as take several answers, in order; and `vfun call` says what one means.
    let file = repo().join("services/testdriver/function.toml");
    let all: Vec<_> = [-3].into_iter().chain(1..32).map(|c| (c, format!("meaning {c}"))).collect();
    let codes: String = all.iter().map(|(c, means)| format!("{c} = \"{means}\"\n")).collect();
    let manifest = std::fs::read_to_string(&file).unwrap() + "\n[codes]\n" + &codes;
    stand.ask(&Ask::AddFunction { manifest, file });
    assert_eq!(session.function_codes("misbehave").unwrap(), all);
    let call = |code: i32| {
        let hex: String = code.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
        let out = std::process::Command::new(programs().join("vfun"))
            .arg("--root")
            .arg(stand.root())
            .args([
                "call",
                "misbehave",
                "--quiet",
                "--hex",
                &format!("{:02x}{hex}", Mode::Code as u8),
            ])
            .output()
            .unwrap();
        String::from_utf8(out.stderr).unwrap()
    };
    let said = call(7);
    assert!(said.contains("Code 7 of misbehave means: meaning 7."), "{said}");
    let said = call(77);
    assert!(said.contains("77") && !said.contains("means:"), "{said}");
}

#[test]
fn arguments_beyond_a_cell_are_refused_before_they_are_sent() {
    let stand = Stand::start();
    let session = stand.connect("long");
    let small = session
        .negotiate(&FunctionRequest::new("echo").cell_bytes(128))
        .unwrap()
        .activate()
        .unwrap();
    assert!(matches!(small.call(&[0; 129]), Err(Error::ArgumentsTooLong { len: 129, max: 128 })));
    assert_eq!(small.call(&[1; 128]).unwrap(), [1; 128]);
    let none =
        session.negotiate(&FunctionRequest::new("echo").cell_bytes(0)).unwrap().activate().unwrap();
    assert!(matches!(none.call(&[0; 49]), Err(Error::ArgumentsTooLong { .. })));
    assert_eq!(none.call(&[1; 48]).unwrap(), [1; 48]);
}

/// A service of raw lines falls asleep, and is rung by nobody who sends one: a
/// measurement that was kept from its processor for 2 ms would wait for ever.
#[test]
fn raw_lines_that_sleep_are_woken() {
    let stand = Stand::start();
    let session = stand.connect("floor");
    let request = FunctionRequest::new("floor").kind(ChannelKind::Floor).depth(2).cell_bytes(0);
    let floor = session.negotiate(&request).unwrap().activate().unwrap();
    let memory = floor.floor().expect("raw lines");
    let answer = |line: usize| memory.theirs().load(line_off(line) / 8, Ordering::Acquire);
    for round in 1..=3 {
        // The first sleep of each wait ends by itself after a millisecond; the
        // second does not.
        stand.until("a sleep without end", |_| {
            let slept = || memory.theirs().load(in_header::SLEPT, Ordering::Acquire);
            let before = slept();
            std::thread::sleep(Duration::from_millis(50));
            before >= 2 * round
                && before == slept()
                && memory.theirs().load(in_header::SLEEPS, Ordering::Acquire) == 1
        });
        memory.mine().store(line_off(1) / 8, round, Ordering::Release);
        std::thread::sleep(Duration::from_millis(20));
        assert_ne!(answer(1), round, "it was to sleep");
        assert!(floor.wake_floor());
        stand.until("an answer", |_| answer(1) == round);
    }
    let echo = session.function("echo").unwrap();
    assert!(!echo.wake_floor(), "calls ring by themselves");
}
