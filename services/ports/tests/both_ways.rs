//! Frames both ways, and what becomes of those for which there is no place.

use crate::common::{Guest, LONGEST, MTU, device, frame, number, until};
use vfun_packet::layout::{DOWN, UP};
use vfun_ports::{Ports, facts};

/// A ring over whose end a few of the longest frames go.
const RING: u64 = 64 << 10;

#[test]
fn frames_of_every_length_go_both_ways_in_their_order() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    // Each length of a small frame, and many of the long ones up to the longest.
    let lengths: Vec<usize> =
        (14..200).chain((200..LONGEST).step_by(13)).chain([LONGEST]).collect();
    let (mut count, mut bytes) = (0u64, 0u64);
    for (n, length) in lengths.iter().enumerate() {
        let one = frame(n as u64, *length);
        outside.send(&one);
        assert!(guest.receive() == one, "frame {n} of {length} bytes to the VM");
        assert!(guest.send(&one));
        assert!(outside.receive() == one, "frame {n} of {length} bytes from the VM");
        (count, bytes) = (count + 1, bytes + *length as u64);
    }
    assert!(bytes > 4 * RING, "the rings' ends were passed");
    let mut counts = held.counts().unwrap();
    until("all is counted", || {
        counts = held.counts().unwrap();
        counts.done == 2 * count
    });
    assert_eq!((counts.failed, counts.bytes), (0, 2 * bytes));
    assert_eq!(counts.facts, [count, bytes, count, bytes, 0, 0, 0, 0]);
    assert!(!guest.has_frame() && outside.is_empty());
    held.end();
    guest.until("it is down", || guest.host_is(DOWN));
}

#[test]
fn bursts_go_over_the_ends_of_rings() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    let (mut sent, mut lengths) = (0u64, (14usize..LONGEST).step_by(61).cycle());
    for _ in 0..200 {
        // As many as there is room for, published at once; up to several turns of the relay.
        let from = sent;
        for _ in 0..150 {
            let one = frame(sent, lengths.next().unwrap());
            if guest.sender.put(&one).is_err() {
                break;
            }
            sent += 1;
        }
        assert!(sent > from, "there is room for none");
        guest.publish();
        for n in from..sent {
            let got = outside.receive();
            assert_eq!(number(&got), n);
            assert!(got == frame(n, got.len()));
            // And back: the guest takes them while more come.
            outside.send(&got);
            assert!(guest.receive() == got, "frame {n} came back");
        }
    }
    assert!(held.counts().unwrap().facts[facts::FULL] == 0);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    // The guest takes none of them.
    let all = 300;
    (0..all).for_each(|n| outside.send(&frame(n, 1500)));
    let fact = |at: usize| held.counts().unwrap().facts[at];
    until("all were read", || fact(facts::FRAMES_IN) + fact(facts::FULL) == all);
    let fit = RING / 1536;
    assert!((fit - 1..=fit).contains(&fact(facts::FRAMES_IN)), "{}", fact(facts::FRAMES_IN));
    let counts = held.counts().unwrap();
    assert_eq!((counts.done, counts.failed), (fact(facts::FRAMES_IN), fact(facts::FULL)));
    // It gets those that were first, and what comes now.
    for n in 0..counts.done {
        assert_eq!(number(&guest.receive()), n);
    }
    outside.send(&frame(1000, 60));
    assert_eq!(number(&guest.receive()), 1000);
    assert!(!guest.has_frame());
}

#[test]
fn a_guest_that_is_not_ready_gets_nothing_and_nothing_waits_for_it() {
    let ports = Ports::new().unwrap();
    let mut guest = Guest::new(5, RING);
    guest.say(DOWN);
    let (tap, outside) = device();
    let held = guest.serve(&ports, tap);
    let fact = |at: usize| held.counts().unwrap().facts[at];
    (0..100).for_each(|n| outside.send(&frame(n, 1500)));
    until("they were dropped", || fact(facts::AWAY) == 100);
    assert_eq!((fact(facts::FRAMES_IN), held.counts().unwrap().failed), (0, 100));
    assert!(!guest.has_frame());
    guest.say(UP);
    outside.send(&frame(7, 1500));
    assert_eq!(number(&guest.receive()), 7);
    // What is too long is dropped, each way, and what follows is not.
    outside.send(&frame(8, LONGEST + 1));
    outside.send(&frame(9, LONGEST));
    assert_eq!(guest.receive(), frame(9, LONGEST));
    until("it is counted", || fact(facts::AWAY) == 101);
    assert!(guest.send(&frame(10, LONGEST + 1)) && guest.send(&frame(11, LONGEST)));
    assert_eq!(outside.receive(), frame(11, LONGEST));
    until("it is counted", || fact(facts::REFUSED) == 1);
    // A guest whose frames are shorter than the port's gets none that are longer.
    use std::sync::atomic::Ordering;
    use vfun_packet::{Memory, layout::header::FRAME};
    guest.sender.memory().store(FRAME, 1518, Ordering::SeqCst);
    outside.send(&frame(12, 1519));
    outside.send(&frame(13, 1518));
    assert_eq!(guest.receive(), frame(13, 1518));
    until("it is counted", || fact(facts::AWAY) == 102);
}

#[test]
fn a_device_without_room_loses_frames_and_no_time() {
    let ports = Ports::new().unwrap();
    let (mut guest, mut beside) = (Guest::new(5, RING), Guest::new(6, RING));
    let ((tap, outside), (tap2, outside2)) = (device(), device());
    let held = guest.serve(&ports, tap);
    let _held2 = beside.serve(&ports, tap2);
    // Nobody reads at the other end.
    let fact = |at: usize| held.counts().unwrap().facts[at];
    let (mut sent, one) = (0, frame(1, LONGEST));
    while fact(facts::REFUSED) < 100 {
        sent += u64::from(guest.send(&one));
        assert!(sent < 1_000_000, "nothing was refused");
    }
    until("all were taken", || fact(facts::FRAMES_OUT) + fact(facts::REFUSED) == sent);
    assert!(beside.send(&one));
    assert!(outside2.receive() == one, "another port is served");
    let out = fact(facts::FRAMES_OUT);
    assert_eq!(fact(facts::BYTES_OUT), out * LONGEST as u64);
    for _ in 0..out {
        assert!(outside.receive() == one);
    }
    assert!(guest.send(&frame(2, 60)));
    assert_eq!(number(&outside.receive()), 2);
}

#[test]
fn a_port_whose_frames_do_not_fit_its_ring_is_refused_with_a_sentence() {
    let ports = Ports::new().unwrap();
    let guest = Guest::new(5, 16 << 10);
    let (tap, _outside) = device();
    let refused = guest.try_serve(&ports, tap).err().expect("refused").to_string();
    assert!(
        refused.contains("port p5: a ring of 16384 bytes has no room for frames of 9018 bytes"),
        "{refused}"
    );
    assert_eq!(usize::from(MTU) + 18, LONGEST);
    assert!(guest.host_is(DOWN));
}
