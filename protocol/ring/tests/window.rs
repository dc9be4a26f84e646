//! Caller and server over a real window, in one process.
#![cfg(not(loom))]

use vfun_ring::sync::Ordering;
use vfun_ring::*;
use vfun_window::{Access, Mapping, memfd};
use vfun_wire::PAGE;
use vfun_wire::Status;
use vfun_wire::channel::{CellState, Command, side_bytes};
use vfun_wire::status::BreakReason;

fn pair(depth: u16, cell_bytes: u32) -> (Caller<WindowMemory>, Server<WindowMemory>, WindowMemory) {
    let side = side_bytes(depth, cell_bytes).unwrap() as usize;
    let fd = memfd("ring", 2 * side as u64).unwrap();
    let w = Mapping::new(&fd, 0, 2 * side, Access::ReadWrite).unwrap().write().unwrap();
    let (out, inn) = (w.part(0, side).unwrap(), w.part(side, side).unwrap());
    let app = WindowMemory::new(out.clone(), inn.reader()).unwrap();
    let service = WindowMemory::new(inn, out.reader()).unwrap();
    (Caller::new(app.clone(), depth, cell_bytes), Server::new(service, depth, cell_bytes), app)
}

fn next(s: &mut Server<WindowMemory>) -> Request {
    match s.next_anywhere() {
        Next::Call(r) => r,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_goes_there_and_back() {
    let (c, mut s, _) = pair(4, 128);
    let claim = c.claim().unwrap();
    let t = c.post_inline(claim, Command::Set, b"hello, cell");
    assert_eq!(c.look(&t), PollAnswer::NotYet);
    assert_eq!(c.state(&t), CellState::Wait);
    let r = next(&mut s);
    assert_eq!((r.command, &r.inline[..r.len as usize]), (Command::Set, &b"hello, cell"[..]));
    s.begin(r.cell, r.seq);
    assert_eq!(c.state(&t), CellState::Busy);
    s.answer_inline(r.cell, Status::Ok, &[7; 48]);
    s.idle();
    assert_eq!(c.state(&t), CellState::Done);
    match c.look(&t) {
        PollAnswer::Done(a) => assert_eq!((a.status, a.len, a.inline), (0, 48, [7; 48])),
        other => panic!("{other:?}"),
    }
    c.take(t);
    assert_eq!(s.next_anywhere(), Next::Nothing);
}

#[test]
fn all_cells_in_use_is_an_error_and_taking_frees() {
    let (c, mut s, _) = pair(2, 0);
    let a = c.post_inline(c.claim().unwrap(), Command::Set, &[]);
    let b = c.post_inline(c.claim().unwrap(), Command::Set, &[]);
    assert_eq!(c.claim().unwrap_err(), Full);
    for _ in 0..2 {
        let r = next(&mut s);
        s.answer_inline(r.cell, Status::Ok, &[]);
    }
    c.take(b);
    let again = c.claim().unwrap();
    assert_eq!(again.cell(), 1, "the cell that was taken");
    c.unclaim(again);
    let again = c.post_inline(c.claim().unwrap(), Command::Rst, &[]);
    assert_eq!(next(&mut s).command, Command::Rst);
    c.take(a);
    drop(again);
}

#[test]
fn an_open_call_does_not_stop_the_others() {
    let (c, mut s, _) = pair(4, 0);
    let open = c.post_inline(c.claim().unwrap(), Command::Set, b"open");
    let held = next(&mut s);
    for i in 0..100u32 {
        let t = c.post_inline(c.claim().unwrap(), Command::Set, &i.to_le_bytes());
        let r = loop {
            if let Next::Call(r) = s.next() {
                break r;
            }
        };
        assert_eq!(&r.inline[..4], &i.to_le_bytes());
        s.answer_inline(r.cell, Status::Ok, &r.inline[..4]);
        assert!(matches!(c.look(&t), PollAnswer::Done(_)));
        c.take(t);
    }
    assert_eq!(c.look(&open), PollAnswer::NotYet);
    s.answer_inline(held.cell, Status::Ok, b"event");
    assert!(matches!(c.look(&open), PollAnswer::Done(_)));
}

/// What a service holds open is known to its caller, and to the next service.
#[test]
fn a_held_call_says_whether_it_was_begun() {
    let (c, mut s, _) = pair(4, 0);
    let post = |args: &[u8]| c.post_inline(c.claim().unwrap(), Command::Set, args);
    let (begun, event, plain) = (post(b"begun"), post(b"event"), post(b"plain"));
    for _ in 0..3 {
        next(&mut s);
    }
    s.hold(begun.cell(), true);
    s.hold(event.cell(), false);
    assert_eq!([&begun, &event, &plain].map(|t| c.look(t)), [PollAnswer::NotYet; 3]);
    let (busy, wait) = (CellState::Busy, CellState::Wait);
    assert_eq!([&begun, &event, &plain].map(|t| c.state(t)), [busy, busy, wait]);
    assert_eq!([&begun, &event, &plain].map(|t| c.waits_for_event(t)), [false, true, false]);

    let memory = s.memory().clone();
    let mut s = Server::new(memory, 4, 0);
    assert!(s.any_was_held());
    let found = [(); 3].map(|()| next(&mut s));
    assert_eq!(found.map(|r| s.was_held(&r)), [Some(true), Some(false), None]);
    s.unhold(event.cell());
    assert_eq!((c.state(&event), s.was_held(&found[1])), (wait, None));
    for r in found {
        s.answer_inline(r.cell, Status::Ok, &[]);
    }
    assert!(!s.any_was_held());
    for ticket in [begun, event, plain] {
        assert!(matches!(c.look(&ticket), PollAnswer::Done(_)));
        c.take(ticket);
    }
    // Used once more: what its line says is of the call before.
    let again = post(b"again");
    assert!(!c.waits_for_event(&again) && c.state(&again) == wait);
}

/// Each wild field of a line ends in its own error; the channel lives on.
#[test]
fn wild_fields_are_refused_by_name() {
    use vfun_wire::channel::{Word0, Word1, line_off};
    let (_, mut s, app) = pair(8, 128);
    let cases: &[(Word0, Word1, Status)] = &[
        (Word0 { op: 9, ..W }, Word1 { len: 0, status: 0 }, Status::BadCommand),
        (Word0 { op: 0, ..W }, Word1 { len: 0, status: 0 }, Status::BadCommand),
        (Word0 { op: 2, ..W }, Word1 { len: 0, status: 0 }, Status::BadCommand),
        (W, Word1 { len: 49, status: 0 }, Status::BadLength),
        (W, Word1 { len: u32::MAX, status: 0 }, Status::BadLength),
        (Word0 { flags: 1, ..W }, Word1 { len: 129, status: 0 }, Status::BadLength),
        (Word0 { flags: 2, ..W }, Word1 { len: 0, status: 0 }, Status::BadFlags),
        (Word0 { reserved: 1, ..W }, Word1 { len: 0, status: 0 }, Status::BadFlags),
    ];
    const W: Word0 = Word0 { seq: 1, op: 1, flags: 0, reserved: 0 };
    for (cell, (w0, w1, status)) in cases.iter().enumerate() {
        let at = line_off(cell) / 8;
        app.store(at + 1, w1.pack(), sync::Ordering::Relaxed);
        app.store(at, w0.pack(), sync::Ordering::Release);
        assert_eq!(s.next_anywhere(), Next::Nothing, "answered on the way: {w0:?}");
        assert_eq!(
            Word1::unpack(app.load(at + 1, sync::Ordering::Relaxed)).status,
            status.to_wire()
        );
        assert_eq!(Word0::unpack(app.load(at, sync::Ordering::Relaxed)).seq, 1);
    }
    assert_eq!(s.broken(), None);
}

#[test]
fn a_wild_sequence_breaks_the_channel_and_says_so() {
    let (c, mut s, app) = pair(2, 0);
    let t = c.post_inline(c.claim().unwrap(), Command::Set, &[]);
    let at = vfun_wire::channel::line_off(1) / 8;
    app.store(at, 77, sync::Ordering::Release);
    let r = next(&mut s);
    s.answer_inline(r.cell, Status::Ok, &[]);
    let v = Violation { cell: 1, expected: 1, found: 77 };
    assert_eq!(s.next_anywhere(), Next::Broken(v));
    assert_eq!(s.next(), Next::Broken(v));
    assert!(matches!(c.look_hard(&t), PollAnswer::Done(_)), "what was answered counts");
    c.take(t);
    let t = c.post_inline(c.claim().unwrap(), Command::Set, &[]);
    assert_eq!(c.look_hard(&t), PollAnswer::Broken(BreakReason::BadSequence));
}

#[test]
fn a_server_taken_up_again_serves_what_was_posted_and_repeats_nothing() {
    let (c, mut s, _) = pair(4, 0);
    let a = c.post_inline(c.claim().unwrap(), Command::Set, b"a");
    let b = c.post_inline(c.claim().unwrap(), Command::Set, b"b");
    let r = next(&mut s);
    s.answer_inline(r.cell, Status::Ok, b"A");
    let mut s2 = Server::new(s.memory().clone(), 4, 0);
    let r = next(&mut s2);
    assert_eq!(&r.inline[..1], b"b");
    assert_eq!(s2.next_anywhere(), Next::Nothing);
    s2.answer_inline(r.cell, Status::Ok, b"B");
    assert!(matches!(c.look(&a), PollAnswer::Done(_)) && matches!(c.look(&b), PollAnswer::Done(_)));
}

#[test]
fn a_server_that_lets_go_says_where_it_was_and_that_another_comes() {
    let (c, mut s, _) = pair(4, 0);
    assert!(!c.is_handed());
    let a = c.post_inline(c.claim().unwrap(), Command::Set, b"a");
    let r = next(&mut s);
    s.answer_inline(r.cell, Status::Ok, b"A");
    let b = c.post_inline(c.claim().unwrap(), Command::Set, b"b");
    s.leave();
    assert!(c.is_handed());
    let mut s2 = Server::new(s.memory().clone(), 4, 0);
    assert!(c.is_handed(), "it has served nothing yet");
    let r = next(&mut s2);
    assert_eq!((r.cell, &r.inline[..1]), (1, &b"b"[..]), "in turn");
    s2.answer_inline(r.cell, Status::Ok, b"B");
    s2.settle();
    assert!(!c.is_handed());
    assert!(matches!(c.look(&a), PollAnswer::Done(_)) && matches!(c.look(&b), PollAnswer::Done(_)));
    // And if that one dies without another word, the next one begins in turn too.
    let mut s3 = Server::new(s2.memory().clone(), 4, 0);
    let _third = c.post_inline(c.claim().unwrap(), Command::Set, b"c");
    assert_eq!(next(&mut s3).cell, 2);
}

#[test]
fn nonsense_from_the_host_is_named() {
    use vfun_wire::channel::{Word0, Word1, line_off};
    let (c, s, _) = pair(2, 64);
    let t = c.post_inline(c.claim().unwrap(), Command::Set, &[]);
    let at = line_off(0) / 8;
    let host = s.memory();
    host.store(at + 1, Word1 { len: 65, status: 0 }.pack(), sync::Ordering::Relaxed);
    host.store(at, Word0 { seq: 1, op: 2, flags: 1, reserved: 0 }.pack(), sync::Ordering::Release);
    assert_eq!(c.look(&t), PollAnswer::Nonsense);
}

#[test]
fn many_threads_share_a_channel() {
    let (c, mut s, _) = pair(8, 0);
    const EACH: u32 = 20_000;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut idle = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                match s.next() {
                    Next::Call(r) => {
                        s.answer_inline(r.cell, Status::Ok, &r.inline[..r.len as usize])
                    }
                    Next::Nothing => {
                        idle += 1;
                        if idle % 100 == 0 {
                            std::thread::yield_now();
                        }
                    }
                    Next::Broken(v) => panic!("{v}"),
                }
            }
        });
        let callers: Vec<_> = (0..3u32)
            .map(|n| {
                let c = &c;
                scope.spawn(move || {
                    for i in 0..EACH {
                        let args = (n << 24 | i).to_le_bytes();
                        let t = loop {
                            match c.claim() {
                                Ok(claim) => break c.post_inline(claim, Command::Set, &args),
                                Err(Full) => std::thread::yield_now(),
                            }
                        };
                        let mut looks = 0;
                        loop {
                            match c.look(&t) {
                                PollAnswer::Done(a) => {
                                    assert_eq!(&a.inline[..4], &args);
                                    break;
                                }
                                PollAnswer::NotYet => looks += 1,
                                other => panic!("{other:?}"),
                            }
                            if looks % 50 == 0 {
                                std::thread::yield_now();
                            }
                        }
                        c.take(t);
                    }
                })
            })
            .collect();
        for t in callers {
            t.join().unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The same memory without its own ways to do whole lines: word by word, as the models do.
struct Words(WindowMemory);

impl Memory for Words {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self.0.load(index, order)
    }
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self.0.store(index, value, order);
    }
    fn load_own(&self, index: usize, order: Ordering) -> u64 {
        self.0.load_own(index, order)
    }
    fn add_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.0.add_own(index, value, order)
    }
    fn sub_own(&self, index: usize, value: u64, order: Ordering) -> u64 {
        self.0.sub_own(index, value, order)
    }
}

/// What is checked of the models' lines holds for a window's.
#[test]
fn whole_lines_are_what_they_are_word_by_word() {
    let (bytes, at, from) = (2 * PAGE, PAGE / 8 + 8, PAGE / 8 + 64);
    let text: Vec<u8> = (1..=48).collect();
    for len in 0..=48 {
        let of = |quick: bool| {
            let fd = memfd("lines", 2 * bytes as u64).unwrap();
            let side = |off: u64| Mapping::new(&fd, off, bytes, Access::ReadWrite).unwrap();
            let (a, b) = (side(0), side(bytes as u64));
            let one = WindowMemory::new(a.write().unwrap(), b.read()).unwrap();
            let other = WindowMemory::new(b.write().unwrap(), a.read()).unwrap();
            for i in 0..8 {
                one.store(from + i, 0x0102_0304_0506_0708 + i as u64, Ordering::Relaxed);
            }
            let mut got = vec![0xff; len];
            let (head, none, again) = if quick {
                one.publish(at, 7 << 32 | 5, 9, &text[..len]);
                other.fetch(at, &mut got);
                let again = other.fetch_again(at, &mut got);
                one.publish_own(at + 8, 3, len as u64, from, len);
                one.store_all(at + 16, [1, 2, 3, 4]);
                (other.head(at, |n| n == 5), other.head(at, |n| n != 5), again)
            } else {
                let (one, other) = (Words(one), Words(other));
                one.publish(at, 7 << 32 | 5, 9, &text[..len]);
                other.fetch(at, &mut got);
                let again = other.fetch_again(at, &mut got);
                one.publish_own(at + 8, 3, len as u64, from, len);
                one.store_all(at + 16, [1, 2, 3, 4]);
                (other.head(at, |n| n == 5), other.head(at, |n| n != 5), again)
            };
            assert_eq!(got, text[..len]);
            let mut all = vec![0; bytes];
            a.read().read(0, &mut all).unwrap();
            (all, head, none, again)
        };
        assert_eq!(of(true), of(false), "{len} bytes");
    }
}
