//! Nobody sleeps through a frame, and nobody is awake for none.

use crate::common::{Guest, device, frame, number, until};
use std::time::{Duration, Instant};
use vfun_packet::layout::DOWN;
use vfun_ports::Ports;
use vfun_wire::queues::host_head::RANG;

const RING: u64 = 64 << 10;
const ROUNDS: u64 = 10_000;

/// A while of any length around that for which the relay spins, and now and then one beyond
/// its first sleep, after which nothing but a ring or a readable device wakes it.
fn pause(round: u64) {
    if round.is_multiple_of(16) {
        return std::thread::sleep(Duration::from_micros(2500));
    }
    let until = Instant::now() + Duration::from_micros(round.wrapping_mul(7919) % 120);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn no_frame_is_slept_through_in_ten_thousand_rounds() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let _held = guest.serve(&ports, tap);
    for n in 0..ROUNDS {
        // Each of the two waits for a ring or a readable device, and for nothing else.
        pause(n);
        assert!(guest.send(&frame(n, 60)));
        assert_eq!(number(&outside.receive()), n);
        pause(n + 1);
        outside.send(&frame(n, 60));
        assert_eq!(number(&guest.receive()), n);
    }
    let rang = guest.host.load(RANG, std::sync::atomic::Ordering::Relaxed);
    let news =
        guest.host.load(vfun_wire::channel::in_header::NEWS, std::sync::atomic::Ordering::Relaxed);
    assert!(rang > 0 && rang == news, "{rang} rings, {news} news");
}

#[test]
fn a_guest_that_is_awake_is_not_rung() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let _held = guest.serve(&ports, tap);
    outside.send(&frame(0, 60));
    assert_eq!(number(&guest.receive()), 0);
    let rang = || guest.host.load(RANG, std::sync::atomic::Ordering::Relaxed);
    // It has not asked since it was rung, or asked and saw the frame by itself.
    until("its last wish is passed", || {
        outside.send(&frame(1, 60));
        std::thread::sleep(Duration::from_millis(5));
        true
    });
    let before = rang();
    for n in 2..20 {
        outside.send(&frame(n, 60));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(rang(), before, "nobody asked to be rung");
    for n in 1..20 {
        assert_eq!(number(&guest.receive()), n);
    }
}

#[test]
fn a_guest_without_a_doorbell_is_served_by_the_clock() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::with(5, RING, false);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    for n in 0..100 {
        if n % 10 == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(guest.send(&frame(n, 60)));
        assert_eq!(number(&outside.receive()), n);
        outside.send(&frame(n, 60));
        assert_eq!(number(&guest.receive()), n);
    }
    held.end();
    until("it is down", || guest.host_is(DOWN));
}
