//! Hosts that answer nonsense: each ends in an error that names it, never in
//! a crash, a hang or a wrong result. One test for each malformed answer.

use crate::fake;

use fake::{Fake, Reply, Setup};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::*;
use vfun_wire::channel::{Word0, Word1, in_header, line_off, side_bytes};
use vfun_wire::kind::{Calls, CallsShape};
use vfun_wire::message::*;
use vfun_wire::range::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

const HELLO: u16 = 1;
const NEGOTIATE: u16 = 2;
const ACTIVATE: u16 = 3;
const LIST: u16 = 5;
const STATS: u16 = 6;

/// What connecting, listing and opening `echo` ends with when answers to
/// `kind` are spoiled.
fn spoiled(kind: u16, spoil: impl Fn(&mut Reply) + Send + Sync + 'static) -> Error {
    let fake = Fake::spoiled(move |r| {
        if r.request == kind {
            spoil(r)
        }
    });
    let all = || {
        let s = fake.options().connect()?;
        s.list()?;
        let f = s.function("echo")?;
        f.stats()?;
        f.call(b"x")
    };
    all().expect_err("nonsense was believed")
}

fn nonsense(kind: u16, spoil: impl Fn(&mut Reply) + Send + Sync + 'static) -> String {
    match spoiled(kind, spoil) {
        Error::HostNonsense(what) => what,
        other => panic!("{other}"),
    }
}

/// Changes the struct that an answer bears.
fn change<T: FromBytes + IntoBytes + zerocopy::Immutable>(
    f: impl Fn(&mut T) + Send + Sync + 'static,
) -> impl Fn(&mut Reply) + Send + Sync + 'static {
    move |r| {
        let mut t = T::read_from_bytes(&r.body).unwrap();
        f(&mut t);
        r.body = t.as_bytes().to_vec();
    }
}

#[test]
fn bodies_of_any_other_length() {
    for (kind, said) in [
        (HELLO, "bytes where"),
        (NEGOTIATE, "bytes where"),
        (ACTIVATE, "the length of its ranges"),
        (STATS, "bytes where"),
    ] {
        let cuts: [fn(&mut Vec<u8>); 3] = [Vec::clear, |b| b.truncate(b.len() - 1), |b| b.push(0)];
        for f in cuts {
            let what = nonsense(kind, move |r| f(&mut r.body));
            assert!(what.contains(said), "{what}");
        }
    }
}

#[test]
fn lengths_beyond_the_cell() {
    assert!(nonsense(HELLO, |r| r.len = Some(u16::MAX)).contains("claims 65535 bytes"));
    assert!(nonsense(HELLO, |r| r.len = Some(4033)).contains("claims 4033 bytes"));
}

#[test]
fn wrong_sequence_numbers() {
    assert!(nonsense(HELLO, |r| r.seq = 77).contains("number 77 where 1 was due"));
    assert!(nonsense(HELLO, |r| r.seq = 2).contains("number 2"));
}

#[test]
fn unknown_kinds_of_answer() {
    assert!(nonsense(NEGOTIATE, |r| r.kind = 9).contains("unknown kind 9"));
}

#[test]
fn unreadable_refusals() {
    for body in [vec![], vec![1; 8], vec![0xff; 520]] {
        assert!(matches!(
            spoiled(NEGOTIATE, move |r| (r.kind, r.body) = (1, body.clone())),
            Error::Refused(_)
        ));
    }
}

#[test]
fn answers_of_another_generation() {
    let e = spoiled(NEGOTIATE, |r| r.generation = 6);
    assert!(matches!(e, Error::StaleGeneration { ours: 7, found: 6 }), "{e}");
}

#[test]
fn hellos_that_make_no_sense() {
    let hello = |f: fn(&mut HelloAck)| nonsense(HELLO, change(f));
    assert!(hello(|a| a.version = U16::new(9)).contains("version 9"));
    assert!(hello(|a| a.session_line = U16::new(60)).contains("session line 60"));
    assert!(hello(|a| a.session = U64::ZERO).contains("no session handle"));
    assert!(hello(|a| a.client = [b'/'; 64]).contains("client's name"));
    assert!(hello(|a| a.client = [0; 64]).contains("client's name"));
}

#[test]
fn features_that_were_not_offered_are_not_in_force() {
    let fake = Fake::spoiled(|r| {
        if r.request == HELLO {
            change::<HelloAck>(|a| a.features = U64::new(u64::MAX))(r);
        }
    });
    // These are of a guest's kernel module.
    let without =
        Features::MODULE.0 | Features::WINDOWS.0 | Features::PAGES.0 | Features::PACKETS.0;
    assert_eq!(fake.connect().info().features, Features(Features::OFFERED.0 & !without));
}

#[test]
fn grants_that_make_no_sense() {
    let grant = |f: fn(&mut NegotiateAck)| nonsense(NEGOTIATE, change(f));
    assert!(grant(|a| a.location = 99).contains("location 99"));
    assert!(grant(|a| a.grant = U64::ZERO).contains("no grant handle"));
    let shapes = [(0, 64), (3, 64), (2048, 64), (u16::MAX, 64), (64, 63), (64, u32::MAX)];
    for (depth, cell_bytes) in shapes {
        let shape = CallsShape::new(depth, cell_bytes).shape();
        let what = nonsense(NEGOTIATE, change::<NegotiateAck>(move |a| a.shape = shape));
        assert!(what.contains("impossible"), "{what}");
    }
    assert!(grant(|a| a.shape[15] = 1).contains("reserved bytes of the shape"));
    assert!(grant(|a| a.kind = U16::new(2)).contains("of kind 2, not of calls"));
}

#[test]
fn channels_that_lie_elsewhere() {
    let place = |f: fn(&mut ActivateAck, &mut [Range])| {
        nonsense(ACTIVATE, move |r| {
            let (mut head, mut ranges) = read_ack(&r.body);
            f(&mut head, &mut ranges);
            r.body = [head.as_bytes(), ranges.as_bytes()].concat();
        })
    };
    assert!(place(|_, r| r[0].offset = U64::new(0)).contains("outside the window's heap"));
    assert!(place(|_, r| r[0].offset = U64::new(u64::MAX - 4095)).contains("outside"));
    assert!(place(|_, r| r[1].offset = U64::new(16 << 20)).contains("outside"));
    assert!(place(|_, r| r[1].offset = U64::new(r[0].offset.get() + 4096)).contains("overlap"));
    assert!(place(|_, r| r[1].offset = U64::new(r[1].offset.get() + 1)).contains("whole pages"));
    assert!(place(|_, r| r[0].bytes = U64::new(4096)).contains("size"));
    assert!(place(|_, r| r[0].access = 3).contains("another side"));
    assert!(place(|_, r| r[0].window = U16::new(1)).contains("window that is not here"));
    assert!(place(|_, r| r.swap(0, 1)).contains("another side"));
    assert!(place(|h, _| h.vector_in = U16::new(8)).contains("vector"));
    assert!(place(|h, _| h.kind = U16::new(9)).contains("kind"));
    assert!(place(|h, _| h.count = U16::new(1)).contains("length of its ranges"));
    assert!(place(|h, _| h.count = U16::new(9)).contains("too many ranges"));
    // Possible in itself, but not what was granted.
    let what = place(|h, r| {
        h.shape = CallsShape::new(32, 4096).shape();
        r.iter_mut().for_each(|r| r.bytes = U64::new(side_bytes(32, 4096).unwrap()));
    });
    assert!(what.contains("another kind or shape") && what.contains("64 cells"), "{what}");
    assert!(place(|h, _| h.kind = U16::new(2)).contains("another kind or shape"));
}

fn read_ack(body: &[u8]) -> (ActivateAck, Vec<Range>) {
    let (head, rest) = ActivateAck::read_from_prefix(body).unwrap();
    (head, <[Range]>::ref_from_bytes(rest).unwrap().to_vec())
}

#[test]
fn lists_that_make_no_sense() {
    assert!(nonsense(LIST, |r| r.body.clear()).contains("impossible length"));
    assert!(nonsense(LIST, |r| r.body.truncate(50)).contains("impossible length"));
    assert!(nonsense(LIST, |r| r.body[0] = 200).contains("impossible length"));
    assert!(nonsense(LIST, |r| r.body[4..8].fill(0xff)).contains("impossible length"));
    assert!(nonsense(LIST, |r| r.body[8..72].fill(b'/')).contains("name in the list"));
}

#[test]
fn a_list_that_promises_more_than_it_gives_ends() {
    let fake = Fake::spoiled(|r| {
        if r.request == LIST {
            r.body[4] = 200;
        }
    });
    let s = fake.connect();
    assert_eq!(s.list().unwrap().len(), 2);
}

#[test]
fn windows_that_are_none() {
    let with = |f: &dyn Fn(&Fake)| {
        let fake = Fake::honest();
        f(&fake);
        fake.options().connect().unwrap_err()
    };
    let e = with(&|f| f.host.window.store(0, 5, Ordering::Relaxed));
    assert!(matches!(&e, Error::NotAWindow { why: HeaderError::Magic(5), .. }), "{e}");
    let e = with(&|f| f.host.window.write(8, &[9]).unwrap());
    assert!(matches!(&e, Error::NotAWindow { why: HeaderError::Layout(9), .. }), "{e}");
    assert!(e.to_string().contains("of a newer host"), "{e}");
    // As a host of the layout before this one laid windows out.
    let e = with(&|f| f.host.window.write(8, &[1, 0, 1, 0, 1, 0, 0, 0]).unwrap());
    assert!(matches!(&e, Error::NotAWindow { why: HeaderError::Layout(1), .. }), "{e}");
    assert!(e.to_string().contains("update VirtFun on the host"), "{e}");
    let e = with(&|f| f.host.window.write(14, &[2, 0]).unwrap());
    assert!(e.to_string().contains("role is link, not control"), "{e}");
    let e = with(&|f| f.host.window.write(10, &[9, 0, 9, 0]).unwrap());
    assert!(matches!(&e, Error::NotAWindow { why: HeaderError::Version { .. }, .. }), "{e}");
    let e = with(&|f| f.host.window.store(2, 32 << 20, Ordering::Relaxed));
    assert!(matches!(&e, Error::NotAWindow { why: HeaderError::SizeMismatch { .. }, .. }), "{e}");
}

#[test]
fn attach_answers_that_make_no_sense() {
    let with = |f: fn(&mut vfun_wire::attach::AttachAck, &mut usize)| {
        let fake = Fake::new(Setup { spoil_attach: Some(Arc::new(f)), ..Setup::default() });
        fake.options().connect().unwrap_err()
    };
    assert!(with(|a, _| a.magic = U64::ZERO).to_string().contains("not one"));
    assert!(with(|_, n| *n = 16).to_string().contains("16 descriptors where 17"));
    assert!(with(|_, n| *n = 0).to_string().contains("0 descriptors"));
    assert!(with(|a, n| (a.vectors, *n) = (U16::new(2), 5)).to_string().contains("2 bells"));
    assert!(with(|a, _| a.vectors = U16::new(u16::MAX)).to_string().contains("65535 bells"));
    assert!(with(|_, n| *n = usize::MAX).to_string().contains("hung up"));
    let e = with(|a, _| a.window_bytes = U64::new(1 << 30));
    assert!(matches!(e, Error::Map(_) | Error::NotAWindow { .. }), "{e}");
    assert!(matches!(with(|a, _| a.window_bytes = U64::new(12345)), Error::NotAWindow { .. }));
    let refused = with(|a, _| {
        a.code = U32::new(6);
        a.sentence_len = U16::new(4);
        a.sentence[..4].copy_from_slice(b"Nope");
    });
    assert!(
        matches!(&refused, Error::Refused(n) if n.code == NackCode::Denied && n.sentence == "Nope"),
        "{refused}"
    );
    let long = with(|a, _| (a.code, a.sentence_len) = (U32::new(999), U16::new(u16::MAX)));
    assert!(matches!(long, Error::Refused(_)), "{long}");
}

/// A channel whose service stands still, with a call posted in cell 0.
fn with_posted(test: impl Fn(&Fake, &Session, &Function, Pending<'_>, &Calls)) {
    let fake = Fake::honest();
    let s = fake.connect();
    fake.host.idle_services.store(true, Ordering::SeqCst);
    let f = s.function("echo").unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let g = Calls::of(&fake.host.places.lock().unwrap()[0].1).unwrap();
    let p = f.submit(b"call").unwrap();
    test(&fake, &s, &f, p, &g);
}

fn answer(fake: &Fake, g: &Calls, w0: Word0, w1: Word1) {
    let at = (g.datain as usize + line_off(0)) / 8;
    fake.host.window.store(at + 1, w1.pack(), Ordering::Relaxed);
    fake.host.window.store(at, w0.pack(), Ordering::Release);
}

#[test]
fn wild_answers_to_calls() {
    let cases = [
        (Word0 { seq: 1, op: 2, ..W0 }, Word1 { len: 49, status: 0 }),
        (Word0 { seq: 1, op: 2, ..W0 }, Word1 { len: u32::MAX, status: 0 }),
        (Word0 { seq: 1, op: 2, flags: 1, ..W0 }, Word1 { len: 4097, status: 0 }),
        (Word0 { seq: 1, op: 0, ..W0 }, Word1 { len: 0, status: 0 }),
        (Word0 { seq: 1, op: 77, ..W0 }, Word1 { len: 0, status: 0 }),
        (Word0 { seq: 1, op: 2, ..W0 }, Word1 { len: 0, status: 12345 }),
    ];
    const W0: Word0 = Word0 { seq: 0, op: 0, flags: 0, reserved: 0 };
    for (w0, w1) in cases {
        with_posted(|fake, _, _, p, g| {
            answer(fake, g, w0, w1);
            let e = p.wait().unwrap_err();
            assert!(matches!(e, Error::HostNonsense(_)), "{w0:?} {w1:?}: {e}");
        });
    }
}

#[test]
fn answers_with_any_other_number_are_not_believed() {
    for seq in [0, 2, u32::MAX] {
        with_posted(|fake, _, _, mut p, g| {
            answer(fake, g, Word0 { seq, op: 2, flags: 0, reserved: 0 }, Word1::default());
            assert!(!p.poll());
            assert!(matches!(p.wait_for(Duration::from_millis(20)), Err(Error::TimedOut(_))));
        });
    }
}

#[test]
fn a_broken_channel_says_why() {
    let reasons = [
        (1, BreakReason::BadSequence),
        (2, BreakReason::CrashLoop),
        (3, BreakReason::NoService),
        (5, BreakReason::Shutdown),
        (99, BreakReason::NoService),
    ];
    for (word, reason) in reasons {
        with_posted(|fake, _, f, mut p, g| {
            let at = g.datain as usize / 8 + in_header::BROKEN;
            fake.host.window.store(at, word, Ordering::Release);
            assert!(p.poll());
            assert!(matches!(p.wait(), Err(Error::Broken(r)) if r == reason));
            assert!(matches!(f.call(b"again"), Err(Error::Broken(r)) if r == reason));
        });
    }
    with_posted(|fake, _, f, p, g| {
        let at = g.datain as usize / 8 + in_header::BROKEN;
        fake.host.window.store(at, 4, Ordering::Release);
        assert!(matches!(p.wait(), Err(Error::Released)));
        assert!(matches!(f.call(b"again"), Err(Error::Released)));
    });
}

#[test]
fn a_sleeper_learns_that_its_channel_broke() {
    with_posted(|fake, _, _, p, g| {
        std::thread::scope(|scope| {
            let t = scope.spawn(|| p.wait());
            std::thread::sleep(Duration::from_millis(100));
            let at = g.datain as usize / 8 + in_header::BROKEN;
            // No ring: found at the next look.
            fake.host.window.store(at, 3, Ordering::Release);
            let start = Instant::now();
            assert!(matches!(t.join().unwrap(), Err(Error::Broken(BreakReason::NoService))));
            assert!(start.elapsed() < Duration::from_secs(20));
        });
    });
}

#[test]
fn a_window_laid_out_anew_ends_everything_of_before() {
    for wait_first in [false, true] {
        with_posted(|fake, s, f, p, _| {
            std::thread::scope(|scope| {
                let t = scope.spawn(move || p.wait());
                if wait_first {
                    std::thread::sleep(Duration::from_millis(60));
                }
                fake.host.hung.store(true, Ordering::SeqCst);
                fake::lay_out(&fake.host.window, &fake.host.setup, 8);
                let e = t.join().unwrap().unwrap_err();
                assert!(matches!(e, Error::StaleGeneration { ours: 7, found: 0 | 8 }), "{e}");
                assert!(e.ends_session() && e.advice().contains("Connect again"));
            });
            assert!(matches!(f.call(b"x"), Err(Error::StaleGeneration { .. })));
            assert!(matches!(s.ping(), Err(Error::StaleGeneration { .. })));
        });
    }
}

#[test]
fn nobody_answers_after_the_deadline() {
    let fake = Fake::honest();
    let s = fake.connect();
    fake.host.idle_services.store(true, Ordering::SeqCst);
    let ask = FunctionRequest::new("echo").deadline(Duration::from_millis(200));
    let f = s.negotiate(&ask).unwrap().activate().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let start = Instant::now();
    let e = f.call(b"x").unwrap_err();
    assert!(matches!(e, Error::Unanswered(_)), "{e}");
    assert!((5..20).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}
