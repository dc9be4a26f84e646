//! What a guest may write: its own frames are lost by it, and nobody else's.

use crate::common::{Guest, LONGEST, device, frame, until};
use std::sync::atomic::{AtomicBool, Ordering};
use vfun_packet::Memory;
use vfun_packet::layout::header::{BAD, HEAD};
use vfun_packet::layout::{DOWN, UP};
use vfun_ports::{Ports, facts};

const RING: u64 = 64 << 10;

#[test]
fn a_guest_that_writes_anything_anywhere_stops_no_other_port() {
    let ports = Ports::new().unwrap();
    let (bad, mut good) = (Guest::new(5, RING), Guest::new(6, RING));
    let ((tap, bad_outside), (tap2, outside)) = (device(), device());
    let bad_held = bad.serve(&ports, tap);
    let held = good.serve(&ports, tap2);
    let (stop, rounds) = (AtomicBool::new(false), 2000u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (words, mut value) = (bad.program.len() / 8, 1u64);
            while !stop.load(Ordering::Relaxed) {
                for word in 0..words {
                    value =
                        value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // All of it, half of it, a few bits of it, and what a record's head may be.
                    let made = [value, value >> 32, value >> 58, 1 << 32 | value >> 52];
                    bad.program.store(word, made[(value >> 40) as usize % 4], Ordering::Relaxed);
                }
                bad.ring();
            }
        });
        // What comes to it and from it goes somewhere or nowhere.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                bad_outside.send(&frame(1, 1500));
                while !bad_outside.is_empty() {
                    assert!(bad_outside.receive().len() <= LONGEST);
                }
            }
        });
        for n in 0..rounds {
            let one = frame(n, 14 + (n as usize * 37) % (LONGEST - 13));
            outside.send(&one);
            assert!(good.receive() == one);
            assert!(good.send(&one));
            assert!(outside.receive() == one);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let counts = held.counts().unwrap();
    assert_eq!((counts.failed, counts.facts[facts::BAD]), (0, 0));
    assert!(bad_held.counts().unwrap().facts[facts::BAD] > 0, "it made sense");
    assert!(bad.host_is(UP), "its port stays");
    bad_held.end();
    until("it is down", || bad.host_is(DOWN));
}

#[test]
fn a_guest_comes_back_after_it_wrote_what_makes_no_sense() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    assert!(guest.send(&frame(1, 1500)));
    assert_eq!(outside.receive(), frame(1, 1500));
    let bad = || held.counts().unwrap().facts[facts::BAD];
    // Beyond the ring, and no multiple of 64.
    guest.sender.memory().store(HEAD, RING + 4096 * 64 + 7, Ordering::SeqCst);
    guest.ring();
    until("it is told", || guest.receiver.memory().load(BAD, Ordering::Relaxed) > 0);
    until("people are told", || bad() > 0);
    // Its own position is shown again with the next burst: the relay finds its way, and what
    // it passed over is lost.
    until("frames pass again", || {
        assert!(guest.send(&frame(2, 60)));
        guest.ring();
        std::thread::sleep(std::time::Duration::from_millis(1));
        !outside.is_empty()
    });
    assert_eq!(outside.receive(), frame(2, 60));
}
