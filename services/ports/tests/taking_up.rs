//! A port goes on with another service, and stays when its device goes.

use crate::common::{Guest, device, frame, number, until};
use std::sync::atomic::Ordering;
use vfun_packet::layout::{DOWN, UP};
use vfun_ports::{Ports, facts};

const RING: u64 = 64 << 10;

#[test]
fn another_service_goes_on_with_positions_and_counts() {
    let mut guest = Guest::new(5, RING);
    let mut sent = 0;
    for life in 1..=5u64 {
        let ports = Ports::new().unwrap();
        let (tap, outside) = device();
        let held = guest.serve(&ports, tap);
        // What the guest sent while nobody relayed, and no ring was heard.
        if life > 1 {
            assert_eq!(number(&outside.receive()), 1000 + life - 1);
        }
        for _ in 0..100 {
            let one = frame(sent, 14 + sent as usize * 11 % 9000);
            assert!(guest.send(&one));
            assert!(outside.receive() == one);
            outside.send(&one);
            assert!(guest.receive() == one);
            sent += 1;
        }
        // One that is refused, and one that the guest is not ready for, in each life.
        guest.say(DOWN);
        outside.send(&frame(0, 60));
        let fact = |at: usize| held.counts().unwrap().facts[at];
        until("it is missed", || fact(facts::AWAY) == life);
        guest.say(UP);
        until("all is counted", || {
            fact(facts::FRAMES_IN) == sent && fact(facts::FRAMES_OUT) == sent + life - 1
        });
        held.end();
        guest.until("it is down", || guest.host_is(DOWN));
        guest.send(&frame(1000 + life, 60));
    }
}

#[test]
fn a_port_whose_device_goes_is_down_and_stays() {
    let ports = Ports::new().unwrap();
    let (mut guest, mut beside) = (Guest::new(5, RING), Guest::new(6, RING));
    let ((tap, outside), (tap2, outside2)) = (device(), device());
    let held = guest.serve(&ports, tap);
    let _held2 = beside.serve(&ports, tap2);
    drop(outside);
    guest.until("it is down", || guest.host_is(DOWN));
    let fact = |at: usize| held.counts().unwrap().facts[at];
    // Its frames are taken and dropped, so that its ring does not fill.
    for n in 0..1000 {
        until("there is room", || guest.send(&frame(n, 1500)));
    }
    until("all are dropped", || fact(facts::REFUSED) == 1000);
    assert_eq!(fact(facts::FRAMES_OUT), 0);
    assert!(beside.send(&frame(1, 60)));
    assert_eq!(number(&outside2.receive()), 1, "another port is served");
    held.end();
    // Nothing of the channel is left: its handle may come again, with another device.
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    assert!(guest.send(&frame(2, 60)));
    assert_eq!(number(&outside.receive()), 2);
    assert_eq!(held.counts().unwrap().facts[facts::REFUSED], 1000);
    assert!(guest.host.load(vfun_wire::queues::host_head::RANG, Ordering::Relaxed) >= 3);
}
