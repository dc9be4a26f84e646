//! Channels of queues against a host that lies: its answers, its head page, its queues.

use crate::fake::{Fake, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfun::queue::{Consumer, Entry, Producer, Shape};
use vfun::*;
use vfun_wire::PAGE;
use vfun_wire::channel::in_header;
use vfun_wire::message::{ActivateAck, NegotiateAck};
use vfun_wire::queues::{Queues as Place, QueuesShape, host_head, program_head};
use vfun_wire::range::Range;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

const NEGOTIATE: u16 = 2;
const ACTIVATE: u16 = 3;
/// Pages of each side.
const PAGES: u32 = 8;

fn request() -> FunctionRequest {
    FunctionRequest::new("echo").queues(PAGES, PAGES)
}

fn open(session: &Session) -> Queues {
    session.negotiate(&request()).unwrap().activate_queues().unwrap()
}

/// Where the newest channel lies.
fn place(fake: &Fake) -> Place {
    Place::of(&fake.host.places.lock().unwrap().last().unwrap().1).unwrap()
}

/// Stores a word of the host's side, as its service could.
fn store(fake: &Fake, at: &Place, word: usize, value: u64) {
    fake.host.window.store(at.host as usize / 8 + word, value, Ordering::Release);
}

/// What a channel of queues is refused with when answers to `kind` are spoiled.
fn nonsense(kind: u16, spoil: impl Fn(&mut Reply) + Send + Sync + 'static) -> String {
    let fake = Fake::spoiled(move |r| {
        if r.request == kind {
            spoil(r);
        }
    });
    match fake.connect().negotiate(&request()).and_then(Grant::activate_queues) {
        Err(Error::HostNonsense(what)) => what,
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn grants_and_places_that_make_no_sense_are_not_used() {
    let shaped = |program, host| {
        nonsense(NEGOTIATE, move |r| {
            let mut ack = NegotiateAck::read_from_bytes(&r.body).unwrap();
            ack.shape = QueuesShape::new(program, host).shape();
            r.body = ack.as_bytes().to_vec();
        })
    };
    for (program, host) in [(0, 8), (8, 1), (u32::MAX, 8), (8, 1 << 19)] {
        assert!(shaped(program, host).contains("beyond a limit"), "{program} {host}");
    }
    let placed = |f: fn(&mut ActivateAck, &mut [Range])| {
        nonsense(ACTIVATE, move |r| {
            let (mut head, rest) = ActivateAck::read_from_prefix(&r.body).unwrap();
            let mut ranges = <[Range]>::ref_from_bytes(rest).unwrap().to_vec();
            f(&mut head, &mut ranges);
            r.body = [head.as_bytes(), ranges.as_bytes()].concat();
        })
    };
    assert!(placed(|_, r| r[0].offset = U64::new(4096)).contains("outside the window's heap"));
    assert!(placed(|_, r| r[1].offset = U64::new(u64::MAX - 4095)).contains("outside"));
    assert!(placed(|_, r| r[1].offset = r[0].offset).contains("overlap"));
    assert!(placed(|_, r| r[0].bytes = U64::new(4096)).contains("size"));
    assert!(placed(|_, r| r.swap(0, 1)).contains("another side"));
    assert!(placed(|_, r| r[1].access = 3).contains("another side"));
    assert!(placed(|h, _| h.vector_out = U16::new(999)).contains("vector"));
    // Possible in itself, but not what was granted.
    let other = placed(|h, r| {
        h.shape = QueuesShape::new(4, 8).shape();
        r[0].bytes = U64::new(4 << 12);
    });
    assert!(other.contains("8 and 8 pages that were granted"), "{other}");
    assert!(placed(|h, _| h.kind = U16::new(1)).len() > 10);
}

#[test]
fn parts_that_a_service_names_are_checked() {
    let fake = Fake::honest();
    let queues = open(&fake.connect());
    let side = PAGES as usize * PAGE;
    assert!(queues.memory(0..side, 0..side).is_ok());
    assert!(queues.memory(side..side, 64..64).is_ok(), "nothing, at its end");
    let all = [side + 1, usize::MAX, usize::MAX - 63];
    let beyond = all.map(|end| 0..end).into_iter().chain(all.map(|end| 64..end));
    #[expect(clippy::reversed_empty_ranges, reason = "what a service may answer")]
    let turned = [4096..64, usize::MAX..0];
    // A word that lies across two lines cannot be read as one.
    let between = [1..64, 4..4096, 8..side, side - 32..side];
    for bad in beyond.chain(turned).chain(between) {
        let program = queues.memory(bad.clone(), 0..64).map(drop);
        assert!(matches!(program, Err(Error::Map(_))), "{bad:?}");
        let host = queues.memory(0..64, bad.clone()).map(drop);
        assert!(matches!(host, Err(Error::Map(_))), "{bad:?}");
    }
}

#[test]
fn each_reason_ends_a_wait_and_a_release_takes_the_memory_away() {
    let fake = Fake::honest();
    let session = fake.connect();
    for (word, reason) in [
        (1, BreakReason::BadSequence),
        (5, BreakReason::Shutdown),
        (7, BreakReason::ServiceLost),
        (99, BreakReason::NoService),
    ] {
        let queues = open(&session);
        queues.check().unwrap();
        store(&fake, &place(&fake), in_header::BROKEN, word);
        for seen in [queues.check(), queues.wait(None, || false).map(drop)] {
            assert!(matches!(seen, Err(Error::Broken(r)) if r == reason), "{word}: {seen:?}");
        }
    }
    let queues = open(&session);
    let (at, mine) = (place(&fake), queues.program().clone());
    store(&fake, &at, in_header::BROKEN, 4);
    assert!(matches!(queues.wait(None, || false), Err(Error::Released)));
    // The host says now that it is served, which changes nothing: the pages are others'.
    store(&fake, &at, in_header::BROKEN, 0);
    assert!(matches!(queues.check(), Err(Error::Released)));
    mine.store(program_head::FREE, 7, Ordering::Release);
    store(&fake, &at, host_head::FREE, 8);
    let there = at.program as usize / 8 + program_head::FREE;
    assert_eq!(fake.host.window.load(there, Ordering::Acquire), 0, "it reaches nobody");
    assert_eq!(queues.host().load(host_head::FREE, Ordering::Acquire), 0);
    queues.ring();
    assert!(!queues.ring_sleeper());
}

#[test]
fn a_service_without_a_manager_must_show_that_it_lives() {
    let mut fake = Fake::honest();
    let session = fake.options().wait(WaitPolicy::sleep()).connect().unwrap();
    let queues = open(&session);
    let at = place(&fake);
    fake.kill_manager();
    // It counts in each look, longer than one that stands still is believed.
    let mut life = 0;
    let lives = || {
        life += 1;
        store(&fake, &at, host_head::LIFE, life);
        false
    };
    let waited = queues.wait(Some(Duration::from_millis(4_500)), lives);
    assert!(matches!(waited, Ok(false)), "{waited:?}");
    let waited = queues.wait(None, || false);
    assert!(matches!(waited, Err(Error::HostGone(_))), "{waited:?}");
}

/// The ends of a queue there and one back, in a channel of which the host writes
/// anything anywhere.
fn use_it(queues: &Queues, rounds: usize) {
    let shape = Shape::new(64, 16).unwrap();
    let (entries, page) = (shape.producer_bytes() as usize, PAGE);
    let there = queues.memory(page..page + entries, page..2 * page).unwrap();
    let back =
        queues.memory(page + entries..2 * page + entries, 2 * page..2 * page + entries).unwrap();
    let mut there = Producer::<_, 64>::new(there, 16).unwrap();
    let mut back = Consumer::<_, 64>::new(back, 16).unwrap();
    let waiter = queues.waiter().unwrap();
    let soon = Some(Duration::from_millis(1));
    let (mut sent, mut taken) = (0, 0);
    for _ in 0..rounds {
        // Whatever comes of it: what was sent and taken is this side's own count.
        let mut got = [Entry::default(); 8];
        sent += there.produce(&[Entry::of(b"x"); 8]).unwrap_or(0) as u64;
        taken += back.consume(&mut got).unwrap_or(0) as u64;
        assert_eq!((there.produced(), back.consumed()), (sent, taken));
        let _ = (queues.wait_end(&mut there, soon), queues.wait_end(&mut back, soon));
        let _ = (queues.check(), queues.wait(soon, || false));
        queues.ring_sleeper();
        poll(&mut [PollFd::new(&waiter, PollFlags::IN)], Some(&Timespec::default())).unwrap();
        waiter.drain();
    }
}

#[test]
fn a_service_that_writes_anything_anywhere_harms_its_queues_alone() {
    let fake = Fake::honest();
    let session = fake.connect();
    let calls = session.function("echo").unwrap();
    for seed in 0..12u64 {
        let queues = open(&session);
        let at = place(&fake);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut value = seed + 1;
                // In half of the rounds the channel is never broken or released.
                let first = (seed % 2) as usize;
                while !over.load(Ordering::Relaxed) {
                    for word in first..(at.host_bytes / 8) as usize {
                        value = value.wrapping_mul(6364136223846793005).wrapping_add(seed | 1);
                        store(&fake, &at, word, value >> (word % 4 * 20));
                    }
                    fake.host.to_app[2].ring();
                }
            });
            use_it(&queues, 20);
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(calls.call(b"beside").unwrap(), b"beside");
        queues.release().unwrap();
    }
}
