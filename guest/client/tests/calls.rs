//! Calls through a window, against an honest host.

use crate::fake;

use fake::{Fake, Setup};
use std::time::{Duration, Instant};
use vfun::*;
use vfun_wire::kind::Calls;

/// Bells both ways, none, and a device that can be rung but rings nobody.
fn each(test: impl Fn(&Fake)) {
    for (doorbell, pci) in [(true, false), (false, true), (true, true)] {
        test(&Fake::new(Setup { doorbell, pci, ..Setup::default() }));
    }
}

#[test]
fn a_session_says_what_it_is() {
    each(|fake| {
        let s = fake.connect();
        let i = s.info();
        assert_eq!((i.client.as_str(), i.client_id, i.app_id, i.version), ("vm1", 3, 9, 2));
        assert_eq!((i.window_bytes, i.generation), (16 << 20, fake::GENERATION));
        let setup = &fake.host.setup;
        assert_eq!(i.doorbell, !setup.pci);
        let (kind, words) = match (setup.pci, setup.doorbell) {
            (false, _) => (TransportKind::Host, "woken by a doorbell"),
            (true, false) => (TransportKind::Ivshmem, "no doorbell"),
            (true, true) => (TransportKind::Ivshmem, "rings, is not rung"),
        };
        // Who cannot be rung does not say that he has a doorbell, and only the
        // kernel module says that it is there.
        let hello = Features(fake.host.hellos.lock().unwrap()[0].features.get());
        assert_eq!(hello.has(Features::DOORBELL), i.doorbell);
        assert!(!hello.has(Features::MODULE));
        assert_eq!(i.transport, kind);
        let line = s.describe();
        assert!(
            line.starts_with(kind.as_str()) && line.contains(words) && line.contains("client vm1"),
            "{line}"
        );
        assert!(!line.contains('\n'));
        s.close().unwrap();
        assert_eq!(fake.host.goodbyes.load(std::sync::atomic::Ordering::SeqCst), 1);
    });
}

#[test]
fn results_come_back_whatever_their_size() {
    each(|fake| {
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        let mut room = [0; 4096];
        for len in [0, 1, 7, 8, 9, 47, 48, 49, 64, 100, 4095, 4096] {
            let args: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            assert_eq!(f.call(&args).unwrap(), args);
            assert_eq!(f.call_into(&args, &mut room).unwrap(), len);
            assert_eq!(&room[..len], &args);
            let sum = f.call_with(&args, |r| {
                let mut copy = vec![0; r.len()];
                r.read(0, &mut copy).unwrap();
                assert!(matches!(r.read(len, &mut [0]), Err(Error::BufferTooSmall { .. })));
                assert_eq!(r.span().is_some(), len > 48);
                copy
            });
            assert_eq!(sum.unwrap(), args);
        }
    });
}

#[test]
fn arguments_beyond_the_cell_are_refused_with_the_way_out() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let e = f.call(&[0; 4097]).unwrap_err();
    assert!(matches!(e, Error::ArgumentsTooLong { len: 4097, max: 4096 }), "{e}");
    assert!(e.advice().contains("cell_bytes of at least 4097"));
    let f = s.negotiate(&FunctionRequest::new("echo").cell_bytes(0)).unwrap().activate().unwrap();
    assert_eq!(f.call(&[1; 48]).unwrap(), [1; 48]);
    assert!(matches!(f.call(&[0; 49]), Err(Error::ArgumentsTooLong { len: 49, max: 48 })));
    let e = f.call_into(&[1; 10], &mut [0; 9]).unwrap_err();
    assert!(matches!(e, Error::BufferTooSmall { len: 10, room: 9 }));
    assert_eq!(f.call(&[2; 48]).unwrap(), [2; 48], "the cell is free again");
}

#[test]
fn a_grant_says_what_was_granted_and_is_given_back() {
    let fake = Fake::honest();
    let releases = || fake.host.releases.load(std::sync::atomic::Ordering::SeqCst);
    let s = fake.connect();
    let ask =
        FunctionRequest::new("echo").depth(8).cell_bytes(100).deadline(Duration::from_millis(1500));
    let g = s.negotiate(&ask).unwrap();
    let i = g.info().clone();
    assert_eq!((i.depth, i.cell_bytes, i.deadline), (8, 128, Duration::from_millis(1500)));
    assert_eq!(
        (i.version, i.location, i.function.as_str()),
        (FunctionVersion::new(1, 2), Location::Software, "echo")
    );
    let f = g.activate().unwrap();
    assert_eq!(f.info(), &i);
    assert_eq!(f.stats().unwrap().calls, 42);
    assert_eq!(f.release().unwrap().age, Duration::from_millis(1500));
    assert_eq!(releases(), 1);
    drop(s.negotiate(&ask).unwrap());
    assert_eq!(releases(), 2, "a dropped grant goes back");
    drop(s.negotiate(&ask).unwrap().activate().unwrap());
    assert_eq!(releases(), 3, "a dropped function too");
}

#[test]
fn refusals_carry_the_managers_sentence() {
    let fake = Fake::honest();
    let s = fake.connect();
    let Err(Error::Refused(nack)) = s.function("nothing") else { panic!() };
    assert_eq!(nack.code, NackCode::UnknownFunction);
    assert!(nack.sentence.contains("'nothing'"));
    let e =
        s.negotiate(&FunctionRequest::new("echo").preference(Preference::Hardware)).err().unwrap();
    assert!(e.is_retryable() && e.advice().contains("software"), "{e}");
    assert!(matches!(s.function("a/b"), Err(Error::BadName { .. })));
}

#[test]
fn lists_of_any_length_arrive_whole() {
    let fake = Fake::new(Setup { more_functions: 100, ..Setup::default() });
    let all = fake.connect().list().unwrap();
    assert_eq!(all.len(), 102);
    assert_eq!((all[0].name.as_str(), all[101].name.as_str()), ("echo", "f99"));
    assert_eq!(
        all[0].locations,
        [Location::Software, Location::Fpga],
        "unknown bits are passed over"
    );
}

#[test]
fn what_the_driver_says_comes_through() {
    each(|fake| {
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        let Err(Error::Driver { code, sentence }) = f.call(b"!driver") else { panic!() };
        assert_eq!((code, sentence.as_str()), (7, "n is too large: at most 20"));
        let Err(Error::Driver { code, sentence }) = f.call(b"!driver-long") else { panic!() };
        assert_eq!((code, sentence.len()), (8, 100), "in the data space");
        assert!(matches!(f.call(b"!crash"), Err(Error::DriverCrashed)));
        assert!(matches!(f.call(b"!deadline"), Err(Error::Deadline)));
        let e = f.call(b"!lost").unwrap_err();
        assert!(matches!(e, Error::ServiceLost) && e.is_retryable());
        assert!(matches!(f.call(b"!released"), Err(Error::Released)));
        assert_eq!(f.call(b"fine").unwrap(), b"fine");
    });
}

#[test]
fn rst_clears_what_the_function_keeps() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    assert_eq!(f.call(b"!count").unwrap(), 1u64.to_le_bytes());
    assert_eq!(f.call(b"!count").unwrap(), 2u64.to_le_bytes());
    f.rst().unwrap();
    assert_eq!(f.call(b"!count").unwrap(), 1u64.to_le_bytes());
}

#[test]
fn pending_calls_complete_in_any_order() {
    each(|fake| {
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        let mut open = f.submit(b"!hold").unwrap();
        assert!(!open.poll());
        let mut all: Vec<_> = (0..40u8).map(|i| f.submit(&[i]).unwrap()).collect();
        while let Some(p) = all.pop() {
            let i = all.len() as u8;
            assert_eq!(p.wait().unwrap(), [i]);
        }
        assert!(!open.ready_within(Duration::from_millis(20)));
        assert_ne!(open.state(), CellState::Done);
        f.call(b"!let-go").unwrap();
        assert!(open.ready_within(Duration::from_secs(5)));
        assert_eq!(open.state(), CellState::Done);
        let mut room = [0; 5];
        assert_eq!(open.wait_into(&mut room).unwrap(), 5);
        assert_eq!(&room, b"event");
    });
}

#[test]
fn a_full_channel_says_so_and_calls_wait_for_room() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.negotiate(&FunctionRequest::new("echo").depth(2)).unwrap().activate().unwrap();
    let a = f.submit(b"!hold").unwrap();
    let b = f.submit(b"b").unwrap();
    assert!(matches!(f.submit(b"c"), Err(Error::Full { depth: 2 })));
    assert!(matches!(f.borrow(), Err(Error::Full { depth: 2 })));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| f.call(b"waited"));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        assert_eq!(b.wait().unwrap(), b"b");
        assert_eq!(waiting.join().unwrap().unwrap(), b"waited");
    });
    f.call(b"!let-go").unwrap();
    assert_eq!(a.wait().unwrap(), b"event");
}

#[test]
fn cells_held_by_the_caller_itself_end_in_full_not_in_a_hang() {
    let fake = Fake::honest();
    let s = fake.connect();
    let ask = FunctionRequest::new("echo").depth(1).deadline(Duration::from_millis(1));
    let f = s.negotiate(&ask).unwrap().activate().unwrap();
    let held = f.submit(b"mine").unwrap();
    let start = Instant::now();
    assert!(matches!(f.call(b"x"), Err(Error::Full { depth: 1 })));
    assert!(start.elapsed() >= Duration::from_secs(5));
    assert_eq!(held.wait().unwrap(), b"mine");
}

#[test]
fn abandoned_calls_give_their_cells_back() {
    each(|fake| {
        let s = fake.connect();
        let f = s.negotiate(&FunctionRequest::new("echo").depth(4)).unwrap().activate().unwrap();
        for round in 0..50u8 {
            drop(f.submit(&[round]).unwrap());
            assert_eq!(f.call(&[round, 1]).unwrap(), [round, 1]);
        }
        // Three that stay open, abandoned: one cell is left, and it works.
        for _ in 0..3 {
            drop(f.submit(b"!hold").unwrap());
        }
        for i in 0..200u8 {
            assert_eq!(f.call(&[i]).unwrap(), [i]);
        }
        f.call(b"!let-go").unwrap();
        // They are answered now: all four cells can be had at once again.
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let all: Vec<_> = (0..4u8).map(|i| f.submit(&[i])).collect();
            if all.iter().all(Result::is_ok) {
                break;
            }
            assert!(Instant::now() < deadline, "the cells never came back");
        }
    });
}

#[test]
fn a_time_limit_of_the_caller_leaves_the_call_in_flight() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.negotiate(&FunctionRequest::new("echo").depth(2)).unwrap().activate().unwrap();
    let e = f.submit(b"!hold").unwrap().wait_for(Duration::from_millis(30)).unwrap_err();
    assert!(matches!(e, Error::TimedOut(t) if t == Duration::from_millis(30)), "{e}");
    assert_eq!(f.call(b"other").unwrap(), b"other");
    f.call(b"!let-go").unwrap();
    let mut both = (f.submit(b"1").unwrap(), f.submit(b"2").unwrap());
    assert_eq!(both.0.wait_for(Duration::from_secs(5)).unwrap(), b"1");
    assert_eq!(both.1.wait().unwrap(), b"2");
}

#[test]
fn a_timed_out_wait_can_be_made_again_and_a_call_has_a_limit_in_all() {
    each(|fake| {
        let s = fake.connect();
        let f = s.negotiate(&FunctionRequest::new("echo").depth(2)).unwrap().activate().unwrap();
        let mut held = f.submit(b"!hold").unwrap();
        let short = Duration::from_millis(5);
        assert!(matches!(held.wait_for(short), Err(Error::TimedOut(t)) if t == short));
        assert!(matches!(held.wait_for(Duration::ZERO), Err(Error::TimedOut(_))));
        assert!(held.try_wait().is_none() && held.peek(|_| ()).is_none());
        // The limit holds for the answer, and for a free cell.
        assert!(matches!(f.call_for(b"!hold", short), Err(Error::TimedOut(t)) if t == short));
        assert!(matches!(f.call_for(b"x", short), Err(Error::TimedOut(t)) if t == short));
        assert!(matches!(f.submit(b"x"), Err(Error::Full { depth: 2 })));
        fake.host.let_go();
        assert_eq!(held.wait_for(Duration::from_secs(60)).unwrap(), b"event");
        assert!(held.wait_for(short).unwrap_err().to_string().contains("taken already"));
        assert_eq!(f.call_for(b"y", Duration::MAX).unwrap(), b"y");
    });
}

#[test]
fn results_are_looked_at_where_they_lie_before_they_are_taken() {
    each(|fake| {
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        for len in [0, 48, 49, 4000] {
            let args: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut call = f.submit(&args).unwrap();
            assert!(call.ready_within(Duration::from_secs(60)));
            for _ in 0..2 {
                let seen = call.peek(|r| {
                    let mut copy = vec![0; r.len()];
                    r.read(0, &mut copy).unwrap();
                    (copy, r.span().is_some())
                });
                assert_eq!(seen.unwrap().unwrap(), (args.clone(), len > 48));
            }
            assert_eq!(call.try_wait().unwrap().unwrap(), args);
            assert!(call.peek(|_| ()).unwrap().is_err(), "taken");
        }
        let mut wrong = f.submit(b"!bad-args").unwrap();
        assert!(wrong.ready_within(Duration::from_secs(60)));
        for _ in 0..2 {
            let e = wrong.peek(|_| ()).unwrap().unwrap_err();
            assert!(matches!(e, Error::Driver { code: -3, .. }), "{e}");
        }
        assert!(matches!(wrong.wait(), Err(Error::Driver { code: -3, .. })));
    });
}

/// Threads of the app that sleep at a function, as its service sees it.
fn sleepers(fake: &Fake, place: usize) -> u64 {
    let place = fake.host.places.lock().unwrap()[place].1;
    let at = Calls::of(&place).unwrap().dataout / 8;
    fake.host.window.load(at as usize, std::sync::atomic::Ordering::SeqCst)
}

fn readable(w: &Waiter, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(w, PollFlags::IN)], Some(&limit)).unwrap() == 1
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_descriptor_is_readable_once_any_of_several_calls_is_answered() {
    each(|fake| {
        let s = fake.connect();
        let (f, g) = (s.function("echo").unwrap(), s.function("echo").unwrap());
        let (held, mut slow) = (f.submit(b"!hold").unwrap(), g.submit(b"!sleep 30").unwrap());
        let mut w = Waiter::new().unwrap();
        assert!(!readable(&w, Duration::ZERO));
        assert_eq!((sleepers(fake, 0), sleepers(fake, 1)), (0, 0), "who never arms pays nothing");
        loop {
            let found = w.arm([&held, &slow]).unwrap();
            if found == [1] {
                break;
            }
            assert!(found.is_empty());
            let declared = u64::from(s.info().doorbell);
            assert_eq!((sleepers(fake, 0), sleepers(fake, 1)), (declared, declared));
            assert!(readable(&w, LONG));
        }
        // Not armed any more: nothing wakes, nobody rings.
        assert_eq!((sleepers(fake, 0), sleepers(fake, 1)), (0, 0));
        assert!(!readable(&w, Duration::from_millis(5)));
        assert_eq!(slow.try_wait().unwrap().unwrap(), b"!sleep 30");
        assert_eq!(w.wait([&held], Some(Duration::from_millis(3))).unwrap(), None);
        assert!(w.arm([&held]).unwrap().is_empty());
        w.disarm();
        assert!(!readable(&w, Duration::from_millis(5)));
        fake.host.let_go();
        assert_eq!(w.wait([&held], None).unwrap(), Some(0));
        assert_eq!(w.wait(std::iter::empty::<&Pending<'_>>(), None).unwrap(), None);
        // A function that is released while armed, and a waiter that goes first.
        fake.host.let_go.store(false, std::sync::atomic::Ordering::SeqCst);
        let again = f.submit(b"!hold").unwrap();
        assert!(w.arm([&again]).unwrap().is_empty());
        drop(w);
        assert_eq!(sleepers(fake, 0), 0);
    });
}

#[test]
fn many_threads_wait_by_descriptors_and_by_calls_at_once() {
    each(|fake| {
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        std::thread::scope(|scope| {
            for t in 0..3u8 {
                let f = &f;
                scope.spawn(move || {
                    let mut w = Waiter::new().unwrap();
                    for i in 0..60u8 {
                        let mut calls: Vec<_> =
                            (0..3).map(|n| f.submit(&[t, i, n]).unwrap()).collect();
                        while !calls.is_empty() {
                            let at = w.wait(&calls, Some(LONG)).unwrap().expect("answered");
                            let done = calls.swap_remove(at).wait().unwrap();
                            assert_eq!(done[..2], [t, i]);
                        }
                    }
                });
                scope
                    .spawn(move || (0..200u8).for_each(|i| assert_eq!(f.call(&[i]).unwrap(), [i])));
            }
        });
        assert_eq!(sleepers(fake, 0), 0);
    });
}

/// Whoever shares a bell can ring it without end. A program that waits by a
/// descriptor is woken some thousand times a second for it, and not more.
#[test]
fn rings_without_end_do_not_wake_without_end() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let held = f.submit(b"!hold").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fake.host.to_app[2].ring();
            }
        });
        let mut w = Waiter::new().unwrap();
        let (began, mut woken) = (Instant::now(), 0u128);
        while woken < 2_000 {
            if !w.arm([&held]).unwrap().is_empty() {
                break;
            }
            assert!(readable(&w, LONG));
            woken += 1;
        }
        let ms = began.elapsed().as_millis();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(woken <= 200 + 8 * ms, "{woken} wakes in {ms} ms");
        fake.host.let_go();
        assert_eq!(w.wait([&held], None).unwrap(), Some(0), "and what is true is found");
    });
}

#[test]
fn slots_are_written_in_place() {
    each(|fake| {
        let s = fake.connect();
        for cell_bytes in [0, 4096] {
            let f =
                s.negotiate(&FunctionRequest::new("echo").depth(2).cell_bytes(cell_bytes)).unwrap();
            let f = f.activate().unwrap();
            let room = if cell_bytes == 0 { 48 } else { 4096 };
            for len in [0, 5, 48, room] {
                let mut slot = f.borrow().unwrap();
                assert_eq!(slot.len(), room);
                slot.iter_mut().enumerate().for_each(|(i, b)| *b = (i + len) as u8);
                let want: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
                assert_eq!(slot.submit(len).unwrap().wait().unwrap(), want);
                let mut slot = f.borrow().unwrap();
                slot[..len].copy_from_slice(&want);
                let mut results = vec![0; room];
                assert_eq!(slot.call_into(len, &mut results).unwrap(), len);
                assert_eq!(&results[..len], &want);
            }
            let slot = f.borrow().unwrap();
            assert!(matches!(slot.submit(room + 1), Err(Error::ArgumentsTooLong { .. })));
            let (a, b) = (f.borrow().unwrap(), f.borrow().unwrap());
            assert!(matches!(f.borrow(), Err(Error::Full { .. })));
            drop((a, b));
            assert_eq!(f.call(b"both came back").unwrap(), b"both came back");
        }
    });
}

#[test]
fn long_calls_wake_sleepers() {
    each(|fake| {
        let policies = [WaitPolicy::hybrid(), WaitPolicy::sleep(), WaitPolicy::spin()];
        for policy in policies {
            let s = fake.options().wait(policy).connect().unwrap();
            let f = s.function("echo").unwrap();
            for ms in [0, 1, 5, 30, 60] {
                let args = format!("!sleep {ms}");
                let start = Instant::now();
                assert_eq!(f.call(args.as_bytes()).unwrap(), args.as_bytes());
                assert!(start.elapsed() >= Duration::from_millis(ms));
                assert!(start.elapsed() < Duration::from_secs(20), "as good as never");
            }
            // The service sleeps by now, and looks by itself each second: were it not
            // woken, a call would wait some 850 ms. One of ten is seen to be woken on a
            // machine with better things to do.
            let woken = (0..10).any(|_| {
                std::thread::sleep(Duration::from_millis(150));
                let start = Instant::now();
                f.call(b"awake?").unwrap();
                start.elapsed() < Duration::from_millis(500)
            });
            assert!(woken, "not once");
        }
    });
}

#[test]
fn many_more_threads_than_processors_share_a_function() {
    each(|fake| {
        let s = fake.connect();
        let f = s.negotiate(&FunctionRequest::new("echo").depth(8)).unwrap().activate().unwrap();
        std::thread::scope(|scope| {
            for n in 0..24u64 {
                let f = &f;
                scope.spawn(move || {
                    let mut room = [0; 200];
                    for i in 0..500u64 {
                        let len = if i % 3 == 0 { 200 } else { 16 };
                        let mut args = [0; 200];
                        args[..16].copy_from_slice(&[n.to_le_bytes(), i.to_le_bytes()].concat());
                        assert_eq!(f.call_into(&args[..len], &mut room).unwrap(), len);
                        assert_eq!(room[..len], args[..len]);
                    }
                });
            }
        });
    });
}

#[test]
fn raw_lines_answer_themselves() {
    use std::sync::atomic::Ordering;
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s
        .negotiate(&FunctionRequest::new("floor").kind(ChannelKind::Floor).depth(2))
        .unwrap()
        .activate()
        .unwrap();
    let memory = f.floor().unwrap();
    let at = vfun_wire::channel::line_off(1) / 8;
    memory.mine().store(at, 77, Ordering::Release);
    while memory.theirs().load(at, Ordering::Acquire) != 77 {
        std::thread::yield_now();
    }
    assert!(matches!(f.call(b"x"), Err(Error::Unsupported(_))));
    assert!(s.function("echo").unwrap().floor().is_none());
}

/// Nothing answers them but their service: who sends on is told by the channel
/// itself that it was let go of, whoever did it.
#[test]
fn raw_lines_say_that_nobody_answers_any_more() {
    use std::sync::atomic::Ordering;
    use vfun_wire::channel::in_header;
    let fake = Fake::honest();
    let open = |s: &vfun::Session| {
        let request = FunctionRequest::new("floor").kind(ChannelKind::Floor).depth(2);
        s.negotiate(&request).unwrap().activate().unwrap()
    };
    let word =
        |f: &vfun::Function| f.floor().unwrap().theirs().load(in_header::BROKEN, Ordering::Acquire);
    let released = u64::from(BreakReason::Released.to_wire());
    let s = fake.connect();
    let f = open(&s);
    f.check_floor().unwrap();
    assert_eq!(word(&f), 0);
    assert!(matches!(s.function("echo").unwrap().check_floor(), Err(Error::Unsupported(_))));
    s.close().unwrap();
    assert_eq!(word(&f), released);
    assert!(matches!(f.check_floor(), Err(Error::Released)));

    // The host says it: first that it broke, then that it gives the pages to others.
    let s = fake.connect();
    let f = open(&s);
    let place = Calls::of(&fake.host.places.lock().unwrap().last().unwrap().1).unwrap();
    let at = |off: u64, word: usize| off as usize / 8 + word;
    let says = |reason: BreakReason| {
        let to = at(place.datain, in_header::BROKEN);
        fake.host.window.store(to, reason.to_wire().into(), Ordering::Release);
    };
    says(BreakReason::CrashLoop);
    assert!(matches!(f.check_floor(), Err(Error::Broken(BreakReason::CrashLoop))));
    says(BreakReason::Released);
    assert!(matches!(f.check_floor(), Err(Error::Released)));
    says(BreakReason::CrashLoop);
    assert_eq!(word(&f), released, "it is this program's own memory now");
    let line = vfun_wire::channel::line_off(1) / 8;
    f.floor().unwrap().mine().store(line, 77, Ordering::Release);
    let theirs = fake.host.window.load(at(place.dataout, line), Ordering::Acquire);
    assert_eq!(theirs, 0, "and what is sent goes nowhere");
    drop(f);
    s.close().unwrap();
}

#[test]
fn functions_outlive_their_session() {
    let fake = Fake::honest();
    let f = fake.connect().function("echo").unwrap();
    assert_eq!(f.call(b"alone").unwrap(), b"alone");
    assert_eq!(fake.host.goodbyes.load(std::sync::atomic::Ordering::SeqCst), 0);
    drop(f);
    assert_eq!(fake.host.goodbyes.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn who_cannot_be_rung_rings_all_the_same_and_never_says_that_he_sleeps() {
    let fake = Fake::new(Setup { pci: true, ..Setup::default() });
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let rings = || fake.host.rings.load(std::sync::atomic::Ordering::Relaxed);
    let mut n = 0u64;
    while rings() < 5 {
        assert!(n < 400, "the host is never rung");
        // As a rule long enough for the service to fall asleep, and for the app.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(f.call(&n.to_le_bytes()).unwrap(), n.to_le_bytes());
        n += 1;
    }
    let place = Calls::of(&fake.host.places.lock().unwrap()[0].1).unwrap();
    let sleepers = place.dataout as usize / 8;
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| f.call(b"!sleep 100").unwrap());
        while !slow.is_finished() {
            assert_eq!(fake.host.window.load(sleepers, std::sync::atomic::Ordering::SeqCst), 0);
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    drop(f);
    s.close().unwrap();
}
