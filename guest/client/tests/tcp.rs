//! Calls over a gateway.

use crate::fake::{Gateway, SpoilFrame};
use std::sync::Arc;
use std::time::Duration;
use vfun::*;
use vfun_wire::frame::{CALL, FrameHead};
use zerocopy::little_endian::{U16, U32, U64};

#[test]
fn calls_of_any_size_come_back() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    assert_eq!(
        (s.info().transport, s.info().window_bytes, s.info().doorbell),
        (TransportKind::Tcp, 0, false)
    );
    assert!(s.describe().starts_with("tcp (127.0.0.1:"), "{}", s.describe());
    assert_eq!(s.list().unwrap().len(), 2);
    let f =
        s.negotiate(&FunctionRequest::new("echo").cell_bytes(1 << 20)).unwrap().activate().unwrap();
    let mut room = vec![0; 1 << 20];
    for len in [0, 1, 48, 49, 4096, 65520, 65536, 65537, 300_000, 1 << 20] {
        let args: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
        assert_eq!(f.call(&args).unwrap(), args);
        assert_eq!(f.call_into(&args, &mut room).unwrap(), len);
        assert_eq!(room[..len], args);
    }
    assert!(matches!(f.call(&vec![0; (1 << 20) + 1]), Err(Error::ArgumentsTooLong { .. })));
    assert!(matches!(
        f.call_into(&[0; 10], &mut [0; 9]),
        Err(Error::BufferTooSmall { len: 10, room: 9 })
    ));
    let mut slot = f.borrow().unwrap();
    slot[..3].copy_from_slice(b"abc");
    assert_eq!(slot.submit(3).unwrap().wait().unwrap(), b"abc");
    assert_eq!(f.stats().unwrap().calls, 42);
    f.release().unwrap();
    s.close().unwrap();
}

#[test]
fn errors_come_through() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    assert!(
        matches!(s.function("nothing"), Err(Error::Refused(n)) if n.code == NackCode::UnknownFunction)
    );
    let raw = FunctionRequest::new("floor").kind(ChannelKind::Floor);
    assert!(matches!(s.negotiate(&raw).unwrap().activate(), Err(Error::Unsupported(_))));
    let f = s.function("echo").unwrap();
    assert!(matches!(f.call(b"!driver"), Err(Error::Driver { code: 7, .. })));
    assert!(matches!(f.call(b"!broken"), Err(Error::Broken(BreakReason::CrashLoop))));
    assert_eq!(f.call(b"fine").unwrap(), b"fine");
    assert!(matches!(f.call(b"!hang-up"), Err(Error::ConnectionLost(_))));
    assert!(matches!(f.call(b"x"), Err(Error::ConnectionLost(_))));
    assert!(matches!(s.ping(), Err(Error::ConnectionLost(_))));
}

#[test]
fn many_are_under_way_at_once_and_come_in_any_order() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    let f = s.negotiate(&FunctionRequest::new("echo").depth(8)).unwrap().activate().unwrap();
    let mut held: Vec<_> = (0..7).map(|_| f.submit(b"!hold").unwrap()).collect();
    let mut last = f.submit(b"last").unwrap();
    assert!(matches!(f.submit(b"more"), Err(Error::Full { depth: 8 })));
    assert!(last.ready_within(Duration::from_secs(5)));
    assert!(!held[0].poll());
    assert_eq!(held[0].state(), CellState::Wait);
    let e = held.pop().unwrap().wait_for(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(e, Error::TimedOut(_)));
    drop(held.pop());
    assert_eq!(last.wait().unwrap(), b"last");
    f.call(b"!let-go").unwrap();
    for mut p in held {
        assert!(p.ready_within(Duration::from_secs(5)) && p.poll());
        assert_eq!(p.wait().unwrap(), b"event");
    }
    let all: Vec<_> = (0..8u8).map(|i| f.submit(&[i]).unwrap()).collect();
    assert_eq!(all.len(), 8, "abandoned calls no longer count");
}

#[test]
fn large_calls_in_flight_do_not_block_each_other() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    let f = s
        .negotiate(&FunctionRequest::new("echo").depth(16).cell_bytes(2 << 20))
        .unwrap()
        .activate()
        .unwrap();
    let args = vec![5; 2 << 20];
    // The gateway answers while arguments are still being sent: 32 MiB each way.
    let all: Vec<_> = (0..16).map(|_| f.submit(&args).unwrap()).collect();
    for p in all {
        assert_eq!(p.wait().unwrap(), args);
    }
}

#[test]
fn many_threads_share_a_connection() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    let f = s.negotiate(&FunctionRequest::new("echo").depth(4)).unwrap().activate().unwrap();
    std::thread::scope(|scope| {
        for n in 0..12u64 {
            let f = &f;
            scope.spawn(move || {
                for i in 0..200u64 {
                    let args = [n.to_le_bytes(), i.to_le_bytes()].concat();
                    assert_eq!(f.call(&args).unwrap(), args);
                }
            });
        }
    });
}

#[test]
fn frames_that_make_no_sense_end_the_connection() {
    type Spoil = fn(&mut FrameHead, &mut Vec<u8>);
    let cases: &[(&str, Spoil)] = &[
        ("was not asked", |h, _| h.id = U64::new(999)),
        ("reserved bytes", |h, _| h.reserved = U16::new(1)),
        ("limit", |h, _| h.body_bytes = U32::new(u32::MAX)),
        ("unknown kind", |h, _| h.kind = U16::new(77)),
        ("only 3 bytes", |h, b| {
            b.truncate(3);
            h.body_bytes = U32::new(3);
        }),
        ("status 77", |_, b| b[0] = 77),
    ];
    for (words, spoil) in cases {
        let spoil: SpoilFrame = Arc::new(move |h, b| {
            if h.kind.get() == CALL {
                spoil(h, b);
            }
        });
        let g = Gateway::new(Some(spoil));
        let s = g.options().connect().unwrap();
        let f = s.function("echo").unwrap();
        let e = f.call(b"x").unwrap_err();
        assert!(
            matches!(e, Error::ConnectionLost(_) | Error::HostNonsense(_))
                && e.to_string().contains(words),
            "{e}"
        );
    }
}

/// One thread sleeps on a descriptor while others read the connection empty for it.
#[test]
fn a_descriptor_tells_of_answers_that_another_thread_has_read() {
    let g = Gateway::new(None);
    let s = g.options().connect().unwrap();
    let f = s.negotiate(&FunctionRequest::new("echo").depth(8)).unwrap().activate().unwrap();
    let long = Some(Duration::from_secs(60));
    let mut w = Waiter::new().unwrap();
    for round in 0..20u8 {
        let held = f.submit(b"!hold").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Whoever waits here reads what comes for everybody.
                (0..20).for_each(|i| assert_eq!(f.call(&[round, i]).unwrap(), [round, i]));
                f.call(b"!let-go").unwrap();
            });
            assert_eq!(w.wait([&held], long).unwrap(), Some(0));
        });
        assert_eq!(held.peek(|r| r.len()).unwrap().unwrap(), 5);
        assert_eq!(held.wait().unwrap(), b"event");
        let mut pair = [f.submit(&[1; 60]).unwrap(), f.submit(&[2; 60]).unwrap()];
        let at = w.wait(&pair, long).unwrap().unwrap();
        assert_eq!(pair[at].try_wait().unwrap().unwrap(), vec![at as u8 + 1; 60]);
    }
    let lost = f.submit(b"!hold").unwrap();
    drop(f.submit(b"!hang-up"));
    assert_eq!(w.wait([&lost], long).unwrap(), Some(0), "an end is an answer");
    assert!(matches!(lost.wait(), Err(Error::ConnectionLost(_))));
}
