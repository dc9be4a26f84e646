//! What a host believes of the counts of a link.

use crate::common::plain::{Plain, poke};
use crate::handover::memory::{Process, RING, Shared, View, ring};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_packet::layout::header;
use vfun_packet::limits::LINK_STARTS;
use vfun_packet::{Breach, Claims, Ledger, LinkedReceiver, LinkedSender, Memory, Reading};

/// Records of the ring.
const MOST: u64 = RING / 64;

fn claims(sent: u64, taken: u64) -> Claims {
    let bytes = |frames| 60 * frames;
    Claims { sent, sent_bytes: bytes(sent), taken, taken_bytes: bytes(taken), ..Claims::default() }
}

/// As it is read while nobody does anything.
fn still(claims: Claims, starts: u64) -> Reading {
    let Claims { sent, taken, refused, .. } = claims;
    Reading { claims, sent_later: sent, taken_later: taken, refused_later: refused, starts }
}

fn ledger() -> Ledger {
    Ledger::new(ring(), Claims::default())
}

#[test]
fn a_second_look_is_believed_no_more_than_the_first() {
    let honest = still(claims(10, 10), 2);
    let sent_bytes = Claims { sent_bytes: u64::MAX, ..honest.claims };
    let taken_bytes = Claims { taken_bytes: u64::MAX, ..honest.claims };
    for lie in [
        Reading { claims: sent_bytes, sent_later: u64::MAX, ..honest },
        Reading { claims: taken_bytes, taken_later: u64::MAX, ..honest },
        Reading { refused_later: u64::MAX, ..honest },
        Reading { taken_later: 9, ..honest },
    ] {
        let mut ledger = ledger();
        assert_eq!(ledger.look(lie), Err(Breach::Growth), "{lie:?}");
        assert_eq!(ledger.look(honest), Ok(honest.claims));
    }
}

/// A link that is in use, and its two ends.
struct Link {
    s: Shared,
    tx: LinkedSender<View>,
    rx: LinkedReceiver<View>,
}

impl Link {
    fn new() -> Self {
        let (s, p) = (Shared::new(), Process::new());
        for (side, word, value) in [
            (&s.a_host, header::LINK_OUT, 9),
            (&s.b_host, header::LINK_IN, 9),
            // Both were on the link when they were last there.
            (&s.a, header::OUT, 9),
            (&s.a, header::ACK, 2),
            (&s.b, header::IN, 9),
            (&s.b, header::OPEN, 2),
            (&s.a_host, header::TURN, 2),
        ] {
            poke(side, word, value);
        }
        let (tx, rx) = (Link::sender(&s, &p), Link::receiver(&s, &p));
        Link { s, tx, rx }
    }

    fn sender(s: &Shared, p: &Process) -> LinkedSender<View> {
        let mut tx = LinkedSender::new(p.view(&s.a, &s.a_host), ring());
        assert!(tx.attach(9, p.view(&s.link_a, &s.link_b), ring()).is_some());
        tx
    }

    fn receiver(s: &Shared, p: &Process) -> LinkedReceiver<View> {
        let mut rx = LinkedReceiver::new(p.view(&s.b, &s.b_host), ring());
        rx.attach(9, p.view(&s.link_b, &s.link_a), ring());
        rx
    }

    fn send(&mut self, frames: u64, bytes: usize) {
        for _ in 0..frames {
            let _ = self.tx.put(&[1; 2041][..bytes]);
        }
        self.tx.publish();
    }

    fn receive(&mut self, room: usize) {
        let mut to = [0; 2040];
        while self.rx.next(&mut to[..room]).is_some() {}
        self.rx.take();
    }

    /// How the host sees the two sides.
    fn views(&self) -> [Plain; 2] {
        let view =
            |mine: &_, theirs: &_| Plain { mine: Clone::clone(mine), theirs: Clone::clone(theirs) };
        [view(&self.s.link_b, &self.s.link_a), view(&self.s.link_a, &self.s.link_b)]
    }

    fn read(&self) -> Reading {
        let [of_sender, of_receiver] = self.views();
        Reading::of(&of_sender, &of_receiver)
    }
}

/// What honest ends say is believed to the frame, whenever it is looked at.
#[test]
fn counts_of_honest_ends_are_believed() {
    let (mut link, mut ledger) = (Link::new(), ledger());
    for n in 1..=500u64 {
        link.send(1, 60);
        if n % 7 == 0 {
            // For one of them there is no place.
            let mut to = [0; 8];
            while link.rx.next(&mut to) != Some(0) {}
            link.receive(2040);
        }
        let found = ledger.look(link.read()).unwrap();
        assert_eq!((found.sent, found.under_way()), (n, n % 7));
    }
    assert_eq!(ledger.believed().refused, 500 / 7);
    // What had no room, or was too long, is counted as well.
    link.send(MOST + 5, 10);
    link.send(2, 2041);
    let found = ledger.look(link.read()).unwrap();
    assert_eq!((found.full, found.too_long), (5 + 2 * (500 % 7), 2));
}

/// Both ends are at it between any two loads of the host.
struct Busy {
    plain: Plain,
    link: Rc<RefCell<(Link, u64)>>,
}

impl Memory for Busy {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        let (link, n) = &mut *self.link.borrow_mut();
        *n += 1;
        for k in 0..(*n * 7) % 20 {
            link.send(1 + (*n + k) % MOST, 1 + ((*n + k) % 3 * 28) as usize);
            if (*n + k) % 5 != 0 {
                link.receive(2040);
            }
        }
        self.plain.load(index, order)
    }
    fn store(&self, _: usize, _: u64, _: Ordering) {
        unreachable!("the host only looks")
    }
    fn load_own(&self, _: usize, _: Ordering) -> u64 {
        unreachable!("the host only looks")
    }
    fn add_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("the host only looks")
    }
    fn sub_own(&self, _: usize, _: u64, _: Ordering) -> u64 {
        unreachable!("the host only looks")
    }
}

/// However long the host takes from one word to the next, what honest ends say is believed.
#[test]
fn counts_that_grow_while_they_are_read_are_believed() {
    let link = Link::new();
    let views = link.views();
    let link = Rc::new(RefCell::new((link, 0)));
    let [of_sender, of_receiver] = views.map(|plain| Busy { plain, link: link.clone() });
    let mut ledger = ledger();
    for n in 0..2000 {
        let reading = Reading::of(&of_sender, &of_receiver);
        assert!(ledger.look(reading).is_ok(), "{n}: {reading:?} after {:?}", ledger.believed());
    }
    assert!(ledger.believed().taken > 100_000);
}

/// An end that dies in the middle of its counts leaves them wrong, by less than a ring; those
/// of the end after it begin there. They are believed.
#[test]
fn counts_of_ends_that_died_are_believed() {
    for stores in 0..12 {
        let (mut link, mut ledger) = (Link::new(), ledger());
        for n in 0..LINK_STARTS / 2 {
            let dying = Process::new();
            if n % 2 == 0 {
                link.tx = Link::sender(&link.s, &dying);
                // Three of each frame come first.
                dying.dies_after(stores + MOST * 3);
            } else {
                link.rx = Link::receiver(&link.s, &dying);
                dying.dies_after(stores);
            }
            for _ in 0..4 {
                link.send(MOST, 9);
                link.receive(2040);
            }
            let alive = Process::new();
            link.tx = Link::sender(&link.s, &alive);
            link.rx = Link::receiver(&link.s, &alive);
            for k in 0..40 {
                link.send(k % 9, 9);
                link.receive(2040);
                let reading = link.read();
                assert!(ledger.look(reading).is_ok(), "{stores}: {reading:?}");
            }
        }
    }
}

/// What cannot be is not believed, and the last claims stay.
#[test]
fn counts_that_cannot_be_are_not_believed() {
    let mut ledger = ledger();
    ledger.look(still(claims(1000, 990), 2)).unwrap();
    let bytes = 1001 * 60;
    for (wrong, why) in [
        (claims(1000, 1001), Breach::UnderWay),
        (claims(1100, 1000), Breach::UnderWay),
        (claims(999, 990), Breach::Growth),
        (claims(1000, 989), Breach::Growth),
        (Claims { sent_bytes: 0, ..claims(1001, 1000) }, Breach::Growth),
        (Claims { taken_bytes: u64::MAX, ..claims(1001, 1000) }, Breach::Growth),
        (
            Claims { sent_bytes: bytes + 70_000 * (1001 + MOST), ..claims(1001, 1000) },
            Breach::Growth,
        ),
        (Claims { refused: 20, ..claims(1000, 990) }, Breach::UnderWay),
        (Claims { full: 1 << 50, ..claims(1000, 990) }, Breach::Growth),
        (Claims { too_long: u64::MAX, ..claims(1000, 990) }, Breach::Growth),
        (Claims { sent: 1 << 60, taken: 1 << 60, ..claims(1000, 990) }, Breach::Growth),
    ] {
        assert_eq!(ledger.look(still(wrong, 2)), Err(why), "{wrong:?}");
        assert_eq!(ledger.believed(), claims(1000, 990));
    }
    // Who says that it was started again and again gains some rings, once.
    let most = MOST * (LINK_STARTS + 1);
    assert!(ledger.look(still(claims(1001 + most, 1000), u64::MAX)).is_err());
    assert!(ledger.look(still(claims(1000 + most, 1000), u64::MAX)).is_ok());
    assert!(ledger.look(still(claims(1001 + most, 1000), u64::MAX)).is_err());
}
