//! An app that writes whatever it likes into its window, beside one that
//! works: the host refuses it by name or ignores it, and the other never notices.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::{NackCode, WindowMemory};
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, number};
use vfun_wire::LINE;
use vfun_wire::control::{self, Posted, WORD_CLAIM};
use vfun_wire::header::HEAP_OFF;
use vfun_wire::limits::*;
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;

#[test]
fn wild_control_requests_are_refused_by_name_and_the_next_one_is_served() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let session = raw.hello();
    let next = |raw: &Raw| raw.seq.wrapping_add(1);

    let seq = next(&raw);
    let n = raw.post(Posted { seq, kind: 999, len: 0 }, session, &[]).unwrap_err();
    assert_eq!(n.code, NackCode::Unsupported, "{n}");
    let seq = next(&raw);
    let n = raw
        .post(Posted { seq, kind: Kind::Negotiate.to_wire(), len: u16::MAX }, session, &[])
        .unwrap_err();
    assert_eq!(n.code, NackCode::Malformed, "{n}");
    let seq = next(&raw);
    let n = raw
        .post(Posted { seq, kind: Kind::Negotiate.to_wire(), len: 5 }, session, &[1; 5])
        .unwrap_err();
    assert_eq!(n.code, NackCode::Malformed, "{n}");
    let n = raw
        .post(Posted { seq: 77_777, kind: Kind::KeepAlive.to_wire(), len: 8 }, session, &[0; 8])
        .unwrap_err();
    assert!(n.sentence.contains("sequence number"), "{n}");
    let n = raw.ask(Kind::Negotiate, 0xdead_beef, negotiate("echo").as_bytes()).unwrap_err();
    assert_eq!(n.code, NackCode::BadHandle, "{n}");
    let mut half = negotiate("echo");
    half.function[2] = 0xff;
    let n = raw.ask(Kind::Negotiate, session, half.as_bytes()).unwrap_err();
    assert_eq!(n.code, NackCode::Malformed, "{n}");
    raw.ask(Kind::Negotiate, session, negotiate("echo").as_bytes())
        .expect("and a right one is granted");
}

/// A cell that was claimed, written to in part and never posted keeps only itself.
#[test]
fn half_written_control_cells_stop_nobody() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    for cell in 1..CONTROL_CELLS {
        let at = control::request_off(cell) / 8;
        raw.window.store(at + WORD_CLAIM, 0xbad, Ordering::Relaxed);
        raw.window.write(control::request_off(cell) + LINE, b"half of a request").unwrap();
    }
    raw.ring();
    let session = raw.hello();
    raw.ask(Kind::KeepAlive, session, &[0; 8]).unwrap();
}

#[test]
fn another_apps_handles_are_refused() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    let victim = stand.connect("victim");
    let echo = victim.function("echo").unwrap();
    let session = raw.hello();
    let theirs = stand.grants().iter().find(|g| g.app == "victim").unwrap().grant.clone();
    let (index, generation) = theirs.split_once('.').unwrap();
    let handle = vfun_wire::Handle::new(index.parse().unwrap(), generation.parse().unwrap());
    for kind in [Kind::Activate, Kind::Release, Kind::Stats] {
        let n = raw.ask(kind, session, handle.0.to_le_bytes().as_slice()).unwrap_err();
        assert_eq!(n.code, NackCode::BadHandle, "{n}");
    }
    assert_eq!(echo.call(b"untouched").unwrap(), b"untouched");
}

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Random words everywhere, header and host's pages too, while a channel of
/// the same window is active and a witness works in another.
#[test]
fn scribbling_over_the_whole_window_hurts_only_the_scribbler() {
    let stand = Stand::start();
    let witness = stand.connect("witness");
    let echo = witness.function("echo").unwrap();
    let mut random = Random(0x5eed_1234_5678_9abc);
    for round in 0..20u64 {
        let mut raw = Raw::attach(&stand);
        let session = raw.hello();
        let grant = raw.ask(Kind::Negotiate, session, negotiate("misbehave").as_bytes()).unwrap();
        raw.ask(Kind::Activate, session, &grant[..8]).unwrap();
        let words = (HEAP_OFF as u64 + (1 << 20)) / 8;
        for i in 0..20_000u64 {
            let at = match i % 3 {
                0 => random.next() % (HEAP_OFF as u64 / 8),
                1 => HEAP_OFF as u64 / 8 + random.next() % 4096,
                _ => random.next() % words,
            };
            // Small numbers are the likelier lies.
            let value = if i % 2 == 0 {
                (random.next() % 8) | ((random.next() % 4) << 32)
            } else {
                random.next()
            };
            raw.window.store(at as usize, value, Ordering::Relaxed);
            if i % 64 == 0 {
                raw.ring();
            }
        }
        for i in 0..200u64 {
            assert_eq!(
                number(&echo.call(&(round << 32 | i).to_le_bytes()).unwrap()),
                round << 32 | i
            );
        }
        drop(raw);
    }
    stand.until("only the witness is left", |s| s.totals().2 == 1);
    assert_eq!(stand.totals().0, 1);
    witness.function("sha256").unwrap().call(b"and the manager still grants").unwrap();
}

/// The host's bells can be waited on by an app, and nothing else: one that could
/// be filled and made to block would stop whoever rings it.
#[test]
fn the_hosts_bells_cannot_be_rung_or_blocked_by_an_app() {
    let stand = Stand::start();
    let mut raw = Raw::attach(&stand);
    assert_eq!(raw.ears.len(), usize::from(VECTORS));
    for ear in &raw.ears {
        let _ = rustix::fs::fcntl_setfl(ear, rustix::fs::OFlags::empty());
        assert!(rustix::io::write(ear, &(u64::MAX - 1).to_ne_bytes()).is_err());
    }
    let session = raw.hello();
    for _ in 0..10 {
        raw.ask(Kind::KeepAlive, session, &[0; 8]).unwrap();
    }
    assert_eq!(stand.connect("other").function("echo").unwrap().call(b"x").unwrap(), b"x");
}

/// Bytes that change between the host's check and its use: a thread flips a
/// posted line's length and flags as fast as it can.
#[test]
fn racing_bytes_are_read_once() {
    let stand = Stand::start();
    let session = stand.connect("racer");
    let f = session.function("echo").unwrap();
    let floor = session
        .negotiate(&vfun::FunctionRequest::new("floor").kind(vfun::ChannelKind::Floor))
        .unwrap();
    let floor = floor.activate().unwrap();
    let memory: &WindowMemory = floor.floor().expect("a raw channel shows its memory");
    assert!(memory.mine().len() > 4096);
    drop(floor);

    let mut raw = Raw::attach(&stand);
    let s = raw.hello();
    let grant = raw.ask(Kind::Negotiate, s, negotiate("echo").as_bytes()).unwrap();
    let ack = raw.ask(Kind::Activate, s, &grant[..8]).unwrap();
    let (_, place) = vfun_wire::place::ChannelPlace::read(&ack).unwrap();
    let place = vfun_wire::kind::Calls::of(&place).unwrap();
    let out = place.dataout as usize / 8;
    let until = Instant::now() + Duration::from_secs(1);
    let depth = usize::from(place.depth);
    let mut seq = vec![0u64; depth];
    let mut random = Random(7);
    while Instant::now() < until {
        for (cell, seq) in seq.iter_mut().enumerate() {
            let line = out + vfun_wire::channel::line_off(cell) / 8;
            *seq += 1;
            raw.window.store(line, *seq | 1 << 32 | (random.next() & 1) << 40, Ordering::Release);
            for _ in 0..8 {
                raw.window.store(line + 1, random.next() & 0xffff_ffff, Ordering::Relaxed);
            }
        }
        assert_eq!(f.call(b"witness").unwrap(), b"witness");
    }
    let row = stand.grants().into_iter().find(|g| g.app == "raw").unwrap();
    assert_eq!(row.restarts, 0, "the service did not fall: {row:?}");
}
