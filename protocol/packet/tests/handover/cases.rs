//! Cases that a seed seldom finds.

use crate::common::plain::{Plain, Side, peek, poke};
use crate::handover::memory::{Process, RING, Shared, View, ring};
use crate::raced::Raced;
use std::cell::Cell;
use std::rc::Rc;
use vfun_packet::layout::{NO_MORE, header, line};
use vfun_packet::{
    Closer, Director, Fence, LinkedReceiver, LinkedSender, Receiver, Rings, Sender, Turn, Way,
};

const LINK: u64 = 9;

/// A frame of either ring.
fn frame(n: u8) -> [u8; 20] {
    [n; 20]
}

/// Everybody of one link, of which the drivers know the first epoch.
struct Rig {
    s: Shared,
    p: Process,
    tx: LinkedSender<View>,
    rx: LinkedReceiver<View>,
    fence: Fence<View, View>,
    closer: Closer<View>,
    out: Sender<View>,
}

impl Rig {
    fn new() -> Self {
        let (s, p) = (Shared::new(), Process::new());
        poke(&s.a_host, header::LINK_OUT, LINK);
        poke(&s.b_host, header::LINK_IN, LINK);
        let mut tx = LinkedSender::new(p.view(&s.a, &s.a_host), ring());
        let mut rx = LinkedReceiver::new(p.view(&s.b, &s.b_host), ring());
        let mut fence = Fence::new(p.view(&s.a_host, &s.a), ring());
        fence.line(p.view(&s.fence, &s.closer), LINK, 1);
        let closer = Closer::new(p.view(&s.closer, &s.fence), LINK);
        let out = Sender::new(p.view(&s.b_host, &s.b), ring());
        assert!(tx.attach(LINK, p.view(&s.link_a, &s.link_b), ring()).is_some());
        rx.attach(LINK, p.view(&s.link_b, &s.link_a), ring());
        Rig { s, p, tx, rx, fence, closer, out }
    }

    /// A is told to turn, and sends a frame after it.
    fn turn(&mut self, turn: Turn, number: u8) {
        poke(&self.s.a_host, header::TURN, turn.word());
        self.tx.look();
        self.send(number);
    }

    fn send(&mut self, number: u8) {
        self.tx.put(&frame(number)).unwrap();
        self.tx.publish();
    }

    /// What the switch takes from A, with its numbers.
    fn read(&mut self) -> Vec<(u64, Vec<u8>)> {
        let (mut read, mut to) = (vec![], [0; 64]);
        while let Some(bytes) = self.fence.next(&mut to) {
            if bytes != 0 {
                read.push((self.fence.stamp(), to[..bytes].to_vec()));
            }
        }
        self.fence.take();
        read
    }

    /// It comes out at B's port.
    fn write(&mut self, read: Vec<(u64, Vec<u8>)>) {
        self.closer.run(&mut self.out);
        for (stamp, frame) in read {
            self.closer.put(&mut self.out, &frame, stamp).unwrap();
        }
        self.closer.run(&mut self.out);
        self.out.publish();
    }

    fn pass(&mut self) {
        let read = self.read();
        self.write(read);
    }

    /// What B gets.
    fn receive(&mut self) -> Vec<u8> {
        let (mut got, mut to) = (vec![], [0; 64]);
        while let Some(bytes) = self.rx.next(&mut to) {
            if bytes != 0 {
                got.push(to[0]);
            }
        }
        self.rx.take();
        got
    }
}

const fn there(epoch: u64) -> Turn {
    Turn::new(epoch, Way::Link)
}

const fn back(epoch: u64) -> Turn {
    Turn::new(epoch, Way::Switch)
}

/// The driver's half at A's port is made anew while the one at B's goes on: A's frames are
/// numbered on, so that END does not come before those that are still in the switch.
#[test]
fn a_fence_that_is_made_anew_numbers_on() {
    let mut r = Rig::new();
    for n in 1..=5 {
        r.send(n);
    }
    // Two of the first five are still in the switch.
    let mut first = r.read();
    let rest = first.split_off(3);
    r.write(first);
    r.fence = Fence::new(r.p.view(&r.s.a_host, &r.s.a), ring());
    r.fence.line(r.p.view(&r.s.fence, &r.s.closer), LINK, 1);
    r.send(6);
    r.turn(there(1), 7);
    let behind = r.read();
    r.write(vec![]);
    assert_eq!(r.receive(), [1, 2, 3]);
    r.write(rest);
    assert_eq!(r.receive(), [4, 5]);
    r.write(behind);
    assert_eq!(r.receive(), [6, 7]);
    assert_eq!(r.closer.late(), 0);
}

/// A's VM is started anew while frames of the old one are in the switch, on both sides of a
/// turn: the turn stays between them.
#[test]
fn a_sender_that_is_started_anew_moves_no_turn() {
    let mut r = Rig::new();
    r.turn(there(1), 1);
    r.send(2);
    r.send(3);
    r.pass();
    r.turn(back(1), 4);
    r.send(5);
    let behind = r.read();
    r.fence.renew(r.p.view(&Shared::new().a_host, &Shared::new().a), ring());
    r.write(behind);
    assert_eq!(r.receive(), [1, 2, 3, 4, 5]);
}

/// B's VM is started anew and knows of no link: no record comes into its ring any more, and
/// the frames do. The manager hears all the same that the epoch is over.
#[test]
fn a_receiver_that_is_started_anew_finds_no_record() {
    for is_due in [false, true] {
        let mut r = Rig::new();
        r.turn(there(1), 1);
        let behind = r.read();
        if !is_due {
            r.write(behind);
        }
        let (host, guest) = (Shared::new().b_host, Shared::new().b);
        r.out = Sender::new(r.p.view(&host, &guest), ring());
        r.closer.renew();
        r.turn(back(1), 2);
        r.pass();
        r.send(3);
        r.pass();
        assert!(!r.closer.is_due());
        assert!(r.fence.is_over(1));
        // A closer that is made anew knows it as well.
        r.closer = Closer::new(r.p.view(&r.s.closer, &r.s.fence), LINK);
        assert!(r.fence.allow(2));
        r.turn(there(2), 4);
        r.turn(back(2), 5);
        r.pass();
        r.closer.expire(&mut r.out);
        r.out.publish();
        let mut plain = Receiver::new(r.p.view(&guest, &host), ring());
        let (mut got, mut to) = (vec![], [0; 64]);
        while let Some(bytes) = plain.next(&mut to) {
            got.extend_from_slice(&to[..bytes.min(1)]);
        }
        assert_eq!((got, plain.counts().bad), (vec![2, 3, 5], 0));
    }
}

/// An end that knows no links comes after one that did: nothing is begun with it.
#[test]
fn a_plain_end_says_that_it_knows_no_links() {
    for is_sender in [true, false] {
        let r = Rig::new();
        let of_a = r.p.view(&r.s.a_host, &r.s.a);
        let mut director = Director::new(of_a, r.p.view(&r.s.b_host, &r.s.b), LINK, 0, 0);
        assert!(director.is_ready());
        if is_sender {
            Sender::new(r.p.view(&r.s.a, &r.s.a_host), ring());
        } else {
            Receiver::new(r.p.view(&r.s.b, &r.s.b_host), ring());
        }
        assert!(!director.is_ready() && !director.go(0));
        let words = match is_sender {
            true => [header::KNOWS, header::HAS_OUT].map(|word| peek(&r.s.a, word)),
            false => [header::KNOWS, header::HAS_IN].map(|word| peek(&r.s.b, word)),
        };
        assert_eq!(words, [0, 0]);
    }
}

/// The manager says that the link is over: not one frame more is taken from it, and those
/// that were are counted.
#[test]
fn no_frame_is_taken_from_a_link_that_is_over() {
    for is_rest in [false, true] {
        let mut r = Rig::new();
        r.turn(there(1), 1);
        (2..=6).for_each(|n| r.send(n));
        r.pass();
        if is_rest {
            r.turn(back(1), 7);
            r.pass();
        }
        let (mut got, mut to) = (vec![], [0; 64]);
        while got.len() < 2 {
            if r.rx.next(&mut to).expect("more is there") != 0 {
                got.push(to[0]);
            }
        }
        poke(&r.s.b_host, header::LINK_IN, 0);
        got.extend(r.receive());
        assert_eq!(got, if is_rest { vec![1, 2, 7] } else { vec![1, 2] });
        assert_eq!(peek(&r.s.link_b, header::TAKEN), 2);
        assert_eq!(peek(&r.s.b, header::OPEN), NO_MORE);
    }
}

/// Who sleeps at a ring is rung for what a change of the link's memory put into it.
#[test]
fn a_change_of_memory_says_whom_to_ring() {
    let mut r = Rig::new();
    r.turn(there(1), 1);
    r.pass();
    r.receive();
    // From here on they sleep: the driver at A's port, and B at both rings.
    Receiver::new(r.p.view(&r.s.a_host, &r.s.a), ring()).declare_sleep();
    r.rx.declare_sleep();
    r.tx.must_ring();
    r.tx.put(&frame(2)).unwrap();
    assert_eq!(r.tx.detach(), Rings { port: true, link: true });
    assert_eq!(r.tx.detach(), Rings::default());
    // The next sender's first look concerns all that waits.
    r.tx = LinkedSender::new(r.p.view(&r.s.a, &r.s.a_host), ring());
    let link = r.p.view(&r.s.link_a, &r.s.link_b);
    assert_eq!(r.tx.attach(LINK, link, ring()), Some(Rings { port: true, link: true }));
    assert_eq!(r.tx.must_ring(), Rings::default());
}

/// A turn that was said of the link before is not made of this one.
#[test]
fn a_turn_is_of_the_link_that_was_named_with_it() {
    let s = Shared::new();
    let raced = |mine: &Side, theirs: &Side, next| Raced {
        plain: Plain { mine: mine.clone(), theirs: theirs.clone() },
        next: Rc::new(Cell::new(next)),
    };
    poke(&s.a_host, header::LINK_OUT, LINK - 1);
    poke(&s.a_host, header::TURN, there(5).word());
    let mut tx = LinkedSender::new(raced(&s.a, &s.a_host, Some(LINK)), ring());
    assert!(tx.attach(LINK, raced(&s.link_a, &s.link_b, None), ring()).is_some());
    assert_eq!((tx.way(), peek(&s.a, header::MAKING)), (Some(Way::Switch), 0));
    poke(&s.a_host, header::TURN, there(1).word());
    tx.look();
    assert_eq!((tx.way(), peek(&s.a, header::MAKING)), (Some(Way::Link), there(1).word()));
}

/// B reads what is there at BEGIN, and its port after that, whatever A puts in meanwhile.
#[test]
fn a_sender_cannot_keep_the_receiver_at_the_rest() {
    let Rig { s, p, mut tx, mut rx, mut fence, mut closer, mut out } = Rig::new();
    let mut to = [0; 64];
    for way in [Way::Link, Way::Switch] {
        poke(&s.a_host, header::TURN, Turn::new(1, way).word());
        tx.look();
        tx.put(&frame(1)).unwrap();
        tx.publish();
    }
    while let Some(bytes) = fence.next(&mut to) {
        assert!(bytes == 0 || closer.put(&mut out, &to[..bytes], fence.stamp()).is_ok());
    }
    closer.run(&mut out);
    out.put(&frame(2)).unwrap();
    out.publish();
    // From here on A fills the ring that it has left.
    let mut wild = Sender::new(p.view(&s.link_a, &s.link_b), ring());
    let mut got = vec![];
    for _ in 0..RING {
        while wild.put(&frame(3)).is_ok() {}
        wild.publish();
        if rx.next(&mut to).is_some_and(|bytes| bytes != 0) {
            got.push(to[0]);
        }
        rx.take();
    }
    assert!(got.contains(&2), "the port is not read");
    let wild = got.iter().filter(|n| **n == 3).count() as u64;
    assert!(wild <= RING / 64, "{wild} frames were read past the end");
}

/// A sender that has lost the link's memory dies after any of its stores. The next one, which
/// has the memory, is on the link only if nobody was told of the way back.
#[test]
fn a_turn_that_was_begun_is_made_again() {
    let mut ways = [0; 2];
    for stores in 0..40 {
        let (s, p) = (Shared::new(), Process::new());
        poke(&s.a_host, header::LINK_OUT, LINK);
        let mut fence = Fence::new(p.view(&s.a_host, &s.a), ring());
        fence.line(p.view(&s.fence, &s.closer), LINK, 1);
        let attach = |p: &Process| {
            let mut tx = LinkedSender::new(p.view(&s.a, &s.a_host), ring());
            assert!(tx.attach(LINK, p.view(&s.link_a, &s.link_b), ring()).is_some());
            tx
        };
        let mut tx = attach(&p);
        poke(&s.a_host, header::TURN, Turn::new(1, Way::Link).word());
        tx.look();
        assert_eq!(tx.way(), Some(Way::Link));
        let dying = Process::new();
        dying.dies_after(stores);
        let mut tx = LinkedSender::new(dying.view(&s.a, &s.a_host), ring());
        let _ = tx.put(&frame(1));
        tx.publish();
        let tx = attach(&Process::new());
        let mut to = [0; 64];
        while fence.next(&mut to).is_some() {}
        let is_told = peek(&s.fence, line::LAST) == Turn::new(1, Way::Switch).word();
        let way = tx.way().expect("there is room");
        assert_eq!(way == Way::Switch, is_told, "after {stores} stores");
        ways[usize::from(is_told)] += 1;
    }
    assert!(ways[0] > 1 && ways[1] > 1, "{ways:?}");
}

/// A switch lets frames of a burst out in another order: nothing is awaited that has come out,
/// and the turn comes behind all of them.
#[test]
fn frames_that_overtake_each_other_are_not_late() {
    for order in [[0, 2, 1, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let mut r = Rig::new();
        (1..=4).for_each(|n| r.send(n));
        poke(&r.s.a_host, header::TURN, there(1).word());
        r.tx.look();
        r.send(5);
        let read = r.read();
        assert_eq!(read.len(), 4, "the fifth goes over the link");
        for at in order {
            let (stamp, frame) = &read[at];
            r.closer.put(&mut r.out, frame, *stamp).unwrap();
        }
        assert!(r.closer.run(&mut r.out), "{order:?}");
        assert!(!r.closer.is_due(), "{order:?}");
        r.out.publish();
        let wanted: Vec<u8> = order.into_iter().map(|at| at as u8 + 1).chain([5]).collect();
        assert_eq!((r.receive(), r.closer.late(), r.closer.behind()), (wanted, 0, 0));
    }
}

/// Frames that were given up for dropped and come out after all are counted, and no others.
#[test]
fn frames_that_come_after_their_time_are_counted() {
    let mut r = Rig::new();
    (1..=4).for_each(|n| r.send(n));
    r.turn(there(1), 5);
    let mut read = r.read();
    let rest = read.split_off(2);
    r.write(read);
    assert!(r.closer.expire(&mut r.out));
    assert_eq!((r.closer.late(), r.closer.behind()), (1, 0));
    r.write(rest);
    assert_eq!((r.closer.late(), r.closer.behind()), (1, 2));
    r.turn(back(1), 6);
    r.pass();
    assert_eq!((r.closer.late(), r.closer.behind()), (1, 2));
}

/// Frames that the switch drops are not awaited once many later ones came out.
#[test]
fn a_closer_waits_for_nothing_that_was_dropped_long_ago() {
    let mut r = Rig::new();
    let mut stamps = 0..;
    // Of rings as small as this one, a few at a time.
    for _ in 0..30 {
        for n in 1..=5 {
            r.send(n);
        }
        let read = r.read().into_iter().filter(|_| stamps.next().is_some_and(|n| n != 1)).collect();
        r.write(read);
        r.receive();
    }
    (1..=2).for_each(|n| r.send(n));
    r.turn(there(1), 3);
    let read = r.read();
    for (stamp, frame) in read.iter().rev() {
        r.closer.put(&mut r.out, frame, *stamp).unwrap();
    }
    assert!(r.closer.run(&mut r.out), "all came out");
    assert_eq!(r.closer.late(), 0);
}

/// A frame that finds a turn due makes it: who sleeps at the port's ring hears of it also if the
/// frame itself has no room.
#[test]
fn a_frame_that_makes_a_turn_says_whom_to_ring() {
    let mut r = Rig::new();
    r.turn(there(1), 1);
    r.pass();
    r.receive();
    // The port's ring is full, so that the way back is due.
    let mut plain = Sender::new(r.p.view(&r.s.a, &r.s.a_host), ring());
    while plain.put(&frame(2)).is_ok() {}
    plain.publish();
    r.tx = LinkedSender::new(r.p.view(&r.s.a, &r.s.a_host), ring());
    assert_eq!(r.tx.way(), None);
    r.tx.must_ring();
    assert!(r.tx.put(&frame(3)).is_err() && !r.tx.publish());
    // There is room for the record, and for nothing else.
    let mut driver = Receiver::new(r.p.view(&r.s.a_host, &r.s.a), ring());
    let mut to = [0; 64];
    driver.next(&mut to);
    driver.take();
    while driver.next(&mut to).is_some() {}
    driver.declare_sleep();
    assert!(r.tx.put(&frame(3)).is_err());
    assert_eq!(r.tx.way(), Some(Way::Switch));
    assert!(r.tx.publish(), "somebody may have to be rung");
    assert!(r.tx.must_ring().port);
    assert!(!r.tx.publish());
}

/// An epoch that was closed before its sender went is not begun any more, whatever that says.
#[test]
fn a_closed_epoch_is_not_begun() {
    let mut r = Rig::new();
    r.turn(back(1), 1);
    r.pass();
    assert_eq!(r.receive(), [1]);
    for word in [header::ACK, header::MAKING] {
        poke(&r.s.a, word, 0);
    }
    poke(&r.s.a_host, header::TURN, 0);
    r.tx = LinkedSender::new(r.p.view(&r.s.a, &r.s.a_host), ring());
    assert!(r.tx.attach(LINK, r.p.view(&r.s.link_a, &r.s.link_b), ring()).is_some());
    r.turn(there(1), 2);
    assert_eq!(r.tx.way(), Some(Way::Link));
    r.pass();
    assert_eq!(r.fence.port().counts().bad, 1);
    assert!(r.receive().is_empty());
    assert_eq!(peek(&r.s.b, header::OPEN), back(1).word());
}

/// What is known of frames that came out moves on with those that are given up.
#[test]
fn a_frame_that_is_awaited_is_not_taken_for_another_one() {
    let mut r = Rig::new();
    let mut read = vec![];
    for n in 1..=66 {
        r.send(n);
        read.extend(r.read());
    }
    r.turn(there(1), 67);
    assert!(r.read().is_empty(), "the last one goes over the link");
    let first = [60, 66];
    let rest = (2..=65).rev().filter(|n| ![60, 62].contains(n));
    let mut got = vec![];
    for n in first.into_iter().chain(rest) {
        let (stamp, frame) = &read[n - 1];
        assert_eq!(*stamp, n as u64);
        r.closer.put(&mut r.out, frame, *stamp).unwrap();
        r.out.publish();
        got.extend(r.receive());
    }
    // One is dropped, and one is still in the switch.
    assert!(!r.closer.run(&mut r.out) && r.closer.is_due());
    r.closer.put(&mut r.out, &read[61].1, 62).unwrap();
    assert!(r.closer.run(&mut r.out), "all but the one that many have overtaken are out");
    r.out.publish();
    got.extend(r.receive());
    assert_eq!(got[63..], [2, 62, 67]);
    assert_eq!((r.closer.late(), r.closer.behind()), (0, 0));
}
