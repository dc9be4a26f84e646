//! Control cells: dead managers, dead neighbours, and several apps at once.

use crate::fake::{Fake, Setup};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::*;
use vfun_wire::control::*;
use vfun_wire::header::*;
use vfun_wire::limits::*;

fn word(cell: usize, word: usize) -> usize {
    request_off(cell) / 8 + word
}

#[test]
fn without_a_manager_calls_go_on_and_requests_say_so() {
    let mut fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    fake.kill_manager();
    let start = Instant::now();
    let e = s.ping().unwrap_err();
    assert!(matches!(e, Error::ManagerGone(_)) && e.is_retryable(), "{e}");
    assert!(e.to_string().contains("the manager is not running"));
    assert!(start.elapsed() < Duration::from_secs(8), "not by the request's end");
    for i in 0..100u8 {
        assert_eq!(f.call(&[i]).unwrap(), [i]);
    }
    assert!(matches!(f.release(), Err(Error::ManagerGone(_))));
}

#[test]
fn a_manager_that_dies_during_a_request_is_noticed() {
    let mut fake = Fake::honest();
    let s = fake.connect();
    fake.host.hung.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let t = scope.spawn(|| s.ping());
        std::thread::sleep(Duration::from_millis(150));
        assert!(!t.is_finished());
        let start = Instant::now();
        fake.kill_manager();
        assert!(matches!(t.join().unwrap(), Err(Error::ManagerGone(_))));
        assert!(start.elapsed() < Duration::from_secs(8), "not by the request's end");
    });
}

#[test]
fn without_a_doorbell_the_hosts_beat_says_that_it_lives() {
    let mut fake = Fake::new(Setup { doorbell: false, ..Setup::default() });
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    fake.kill_manager();
    let start = Instant::now();
    assert!(matches!(s.ping(), Err(Error::ManagerGone(why)) if why.contains("beat")));
    assert!((2..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(f.call(b"still").unwrap(), b"still");
}

#[test]
fn a_manager_that_ended_orderly_is_not_asked() {
    let fake = Fake::honest();
    let s = fake.connect();
    fake.host.window.store(HOST_STATE_OFF / 8, host_state::ENDED.into(), Ordering::Release);
    assert!(matches!(s.ping(), Err(Error::ManagerGone(why)) if why.contains("orderly")));
}

#[test]
fn an_unanswered_request_times_out_and_its_cell_is_passed_over() {
    let mut fake = Fake::honest();
    let s = fake.connect();
    fake.host.hung.store(true, Ordering::SeqCst);
    let start = Instant::now();
    let e = s.ping().unwrap_err();
    assert!(matches!(e, Error::ControlTimeout { request: "keep-alive", .. }), "{e}");
    assert!(start.elapsed() >= Duration::from_millis(CONTROL_TIMEOUT_MS));
    let load = |at| fake.host.window.load(at, Ordering::Acquire);
    let left: Vec<_> = (0..CONTROL_CELLS)
        .filter(|&c| {
            Posted::unpack(load(word(c, WORD_POSTED))).seq
                != Posted::unpack(load(answer_off(c) / 8)).seq
        })
        .collect();
    assert_eq!(left.len(), 1, "the request still stands");
    assert_eq!(load(word(left[0], WORD_CLAIM)), 0, "its cell is nobody's");
    fake.host.hung.store(false, Ordering::SeqCst);
    for _ in 0..50 {
        s.ping().unwrap();
    }
    drop(s);
    fake.kill_manager();
}

#[test]
fn two_apps_and_many_threads_share_the_cells() {
    for doorbell in [true, false] {
        let fake = Fake::new(Setup { doorbell, ..Setup::default() });
        let apps = [fake.connect(), fake.connect()];
        std::thread::scope(|scope| {
            for s in &apps {
                for _ in 0..12 {
                    scope.spawn(move || {
                        for _ in 0..20 {
                            assert_eq!(s.list().unwrap().len(), 2);
                            let g = s
                                .negotiate(&FunctionRequest::new("echo").depth(1).cell_bytes(0))
                                .unwrap();
                            assert_eq!(g.release().unwrap().calls, 42);
                        }
                    });
                }
            }
        });
        let claims = (0..CONTROL_CELLS)
            .map(|c| fake.host.window.load(word(c, WORD_CLAIM), Ordering::Acquire));
        assert!(claims.into_iter().all(|c| c == 0), "every cell was given back");
    }
}

#[test]
fn claims_of_the_dead_are_taken_over_and_those_of_the_living_are_not() {
    let fake = Fake::honest();
    let s = fake.connect();
    for cell in 0..CONTROL_CELLS {
        fake.host.window.store(word(cell, WORD_CLAIM), 1000 + cell as u64, Ordering::Release);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // All but cell 5 live.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for cell in (0..CONTROL_CELLS).filter(|c| *c != 5) {
                    fake.host.window.fetch_add(word(cell, WORD_BEAT), 1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let start = Instant::now();
        s.ping().unwrap();
        // And before the request's own end.
        assert!(start.elapsed() >= Duration::from_millis(CLAIM_STALE_MS));
        stop.store(true, Ordering::Relaxed);
    });
    for cell in 0..CONTROL_CELLS {
        let claim = fake.host.window.load(word(cell, WORD_CLAIM), Ordering::Acquire);
        assert_eq!(claim, if cell == 5 { 0 } else { 1000 + cell as u64 });
    }
}

#[test]
fn heartbeats_move_while_the_session_lives() {
    let fake = Fake::new(Setup { doorbell: false, heartbeat_ms: 20, ..Setup::default() });
    let s = fake.connect();
    let line = SESSIONS_OFF / 8;
    let beat = || fake.host.window.load(line, Ordering::Relaxed);
    let (before, limit) = (beat(), Instant::now() + Duration::from_secs(20));
    while beat() < before + 5 {
        assert!(Instant::now() < limit, "it stands still");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(s);
    let after = beat();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(beat(), after);
    assert_eq!(fake.host.goodbyes.load(Ordering::SeqCst), 1);
}

#[test]
fn a_closed_session_asks_nothing() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    s.close().unwrap();
    assert!(f.stats().is_err());
    drop(f);
    assert_eq!(fake.host.goodbyes.load(Ordering::SeqCst), 1);
    assert_eq!(fake.host.releases.load(Ordering::SeqCst), 0);
}
