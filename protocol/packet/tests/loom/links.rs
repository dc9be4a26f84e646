//! A handover between threads: the sender's steps against those of the switch's driver and
//! of the receiver.

use crate::memory::loomed::{Loomed, Side, Weak, side};
use crate::model;
use crate::{frame, number};
use loom::sync::Mutex;
use loom::thread;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfun_packet::layout::{RING_OFF, header, line};
use vfun_packet::{Closer, Fence, LinkedReceiver, LinkedSender, Memory, Ring, Sender, Turn, Way};

const LINK: u64 = 5;
/// Looks while the others are at it.
const LOOKS: usize = 3;

/// Which party's published word is weaker than it must be.
#[derive(Clone, Copy, PartialEq)]
enum Weaker {
    Nothing,
    Port(Weak),
    Link(Weak),
    Line(Weak),
}

struct Parties {
    tx: LinkedSender<Loomed>,
    rx: LinkedReceiver<Loomed>,
    fence: Fence<Loomed, Loomed>,
    closer: Closer<Loomed>,
    out: Sender<Loomed>,
    /// As the manager has the host's side of A's port.
    manager: Loomed,
}

fn ring() -> Ring {
    Ring::new(vfun_packet::limits::RING_MIN).unwrap()
}

/// A side whose ring has eight records of a line, of which four words are used.
fn ring_side() -> Side {
    let records = (0..8).flat_map(|r| (0..4).map(move |w| RING_OFF / 8 + 8 * r + w));
    let words = [header::HEAD, header::TAIL, header::WAKE, header::TURN, header::ACK];
    side(records.chain(words), 0..RING_OFF / 8)
}

fn parties(weaker: Weaker) -> Parties {
    let s: Vec<Side> = (0..6).map(|_| ring_side()).collect();
    let half = || side(0..line::WORDS, []);
    let halves = [half(), half()];
    let view = |mine: usize, theirs: usize, weak| Loomed {
        mine: s[mine].clone(),
        theirs: s[theirs].clone(),
        weak,
        is_published: |index| index == header::HEAD,
    };
    let of_line = |mine: usize, weak| Loomed {
        mine: halves[mine].clone(),
        theirs: halves[1 - mine].clone(),
        weak,
        is_published: |index| index == line::LAST,
    };
    let [port, link, line] = match weaker {
        Weaker::Nothing => [Weak::Nothing; 3],
        Weaker::Port(weak) => [weak, Weak::Nothing, Weak::Nothing],
        Weaker::Link(weak) => [Weak::Nothing, weak, Weak::Nothing],
        Weaker::Line(weak) => [Weak::Nothing, Weak::Nothing, weak],
    };
    let manager = view(1, 0, Weak::Nothing);
    manager.store(header::LINK_OUT, LINK, Ordering::Relaxed);
    view(3, 2, Weak::Nothing).store(header::LINK_IN, LINK, Ordering::Relaxed);
    let mut tx = LinkedSender::new(view(0, 1, port), ring());
    assert!(tx.attach(LINK, view(4, 5, link), ring()).is_some());
    let mut rx = LinkedReceiver::new(view(2, 3, port), ring());
    rx.attach(LINK, view(5, 4, link), ring());
    let mut fence = Fence::new(view(1, 0, port), ring());
    fence.line(of_line(0, line), LINK, 1);
    let closer = Closer::new(of_line(1, line), LINK);
    let out = Sender::new(view(3, 2, port), ring());
    Parties { tx, rx, fence, closer, out, manager }
}

/// What the switch does with what it has: all of it is passed on at once.
fn pass_on(
    fence: &mut Fence<Loomed, Loomed>,
    closer: &mut Closer<Loomed>,
    out: &mut Sender<Loomed>,
) {
    let mut to = [0; 64];
    while let Some(bytes) = fence.next(&mut to) {
        if bytes != 0 {
            closer.put(out, &to[..bytes], fence.stamp()).unwrap();
        }
    }
    fence.take();
    closer.run(out);
    out.publish();
}

/// What is there for B.
fn receive(rx: &mut LinkedReceiver<Loomed>, got: &mut Vec<u8>) -> bool {
    let (mut to, mut any) = ([0; 64], false);
    while let Some(bytes) = rx.next(&mut to) {
        any = true;
        if bytes != 0 {
            got.push(number(&to[..bytes]));
        }
    }
    rx.take();
    any
}

fn turn(manager: &Loomed, to: Way) {
    manager.store(header::TURN, Turn::new(1, to).word(), Ordering::Release);
}

/// Frame 1, a turn, frame 2.
fn send(tx: &mut LinkedSender<Loomed>) {
    for n in 1..=2 {
        tx.put(&frame(n)).unwrap();
        tx.publish();
    }
}

/// Which of the three neighbours has a thread of its own.
#[derive(Clone, Copy, PartialEq)]
enum Alone {
    Sender,
    Receiver,
}

/// A handover to the link, or back from it; in which order the frames come.
fn hand_over(to: Way, alone: Alone, weaker: Weaker) -> Vec<u8> {
    let Parties { mut tx, mut rx, mut fence, mut closer, mut out, manager } = parties(weaker);
    let mut got = vec![];
    if to == Way::Switch {
        turn(&manager, Way::Link);
        tx.look();
        pass_on(&mut fence, &mut closer, &mut out);
        receive(&mut rx, &mut got);
        assert_eq!(tx.way(), Some(Way::Link));
    }
    turn(&manager, to);
    let mut here = None;
    let other = match alone {
        Alone::Sender => {
            here = Some((fence, closer, out));
            thread::spawn(move || send(&mut tx))
        }
        Alone::Receiver => thread::spawn(move || {
            send(&mut tx);
            pass_on(&mut fence, &mut closer, &mut out);
        }),
    };
    let mut look = |got: &mut Vec<u8>| {
        if let Some((fence, closer, out)) = &mut here {
            pass_on(fence, closer, out);
        }
        receive(&mut rx, got)
    };
    // What was damaged may never come: after some looks in vain, all that will be there is.
    for _ in 0..LOOKS {
        if !look(&mut got) {
            thread::yield_now();
        }
    }
    other.join().unwrap();
    while look(&mut got) {}
    got
}

/// The two halves of a driver in threads of their own: A's port is read in one, and what the
/// switch has comes out in the other one, which B shares.
fn halves(weaker: Weaker) -> Vec<u8> {
    let Parties { mut tx, mut rx, mut fence, mut closer, mut out, manager } = parties(weaker);
    turn(&manager, Way::Link);
    send(&mut tx);
    let queue = Arc::new(Mutex::new(VecDeque::new()));
    let into = queue.clone();
    let reader = thread::spawn(move || {
        let mut to = [0; 64];
        while let Some(bytes) = fence.next(&mut to) {
            if bytes != 0 {
                into.lock().unwrap().push_back((fence.stamp(), to[..bytes].to_vec()));
            }
        }
    });
    let mut got = vec![];
    while got.len() < 2 {
        closer.run(&mut out);
        let next = queue.lock().unwrap().pop_front();
        if let Some((stamp, bytes)) = next {
            closer.put(&mut out, &bytes, stamp).unwrap();
        }
        out.publish();
        if !receive(&mut rx, &mut got) {
            thread::yield_now();
        }
    }
    reader.join().unwrap();
    got
}

/// The end of an epoch and the next one: the sender goes back, and to the link again as soon
/// as it is told to. Frame 1 is in the link's ring when it begins.
fn two_epochs(waits: bool) -> Vec<u8> {
    let Parties { mut tx, mut rx, mut fence, mut closer, mut out, manager } =
        parties(Weaker::Nothing);
    let mut got = vec![];
    manager.store(header::TURN, Turn::new(1, Way::Link).word(), Ordering::Release);
    tx.look();
    pass_on(&mut fence, &mut closer, &mut out);
    receive(&mut rx, &mut got);
    tx.put(&frame(1)).unwrap();
    tx.publish();
    manager.store(header::TURN, Turn::new(1, Way::Switch).word(), Ordering::Release);
    let sender = thread::spawn(move || {
        for n in 2..=3 {
            tx.look();
            tx.put(&frame(n)).unwrap();
            tx.publish();
        }
        tx
    });
    let mut is_next = false;
    let mut step = |got: &mut Vec<u8>| {
        pass_on(&mut fence, &mut closer, &mut out);
        let back = Turn::new(1, Way::Switch).word();
        let is_back = |is_closed: bool| {
            let open = rx.port().memory().load_own(header::OPEN, Ordering::Relaxed);
            manager.load(header::ACK, Ordering::Acquire) == back && (is_closed || open == back)
        };
        if !is_next && is_back(!waits) {
            is_next = true;
            assert!(fence.allow(2));
            manager.store(header::TURN, Turn::new(2, Way::Link).word(), Ordering::Release);
            thread::yield_now();
        }
        receive(&mut rx, got)
    };
    for _ in 0..LOOKS {
        if !step(&mut got) {
            thread::yield_now();
        }
    }
    let mut tx = sender.join().unwrap();
    while step(&mut got) {}
    // A sender that was done before it was told goes now.
    tx.look();
    tx.put(&frame(4)).unwrap();
    tx.publish();
    assert_eq!(tx.way(), Some(Way::Link));
    while step(&mut got) {}
    got
}

#[test]
fn two_epochs_keep_the_order() {
    model(Some(3), || assert_eq!(two_epochs(true), [1, 2, 3, 4]));
}

#[test]
fn without_the_wait_for_the_receiver_two_epochs_are_mixed() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    model(Some(2), move || {
        if two_epochs(false) != [1, 2, 3, 4] {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(count.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_handover_keeps_the_order() {
    for to in [Way::Link, Way::Switch] {
        for alone in [Alone::Sender, Alone::Receiver] {
            model(Some(3), move || assert_eq!(hand_over(to, alone, Weaker::Nothing), [1, 2]));
        }
    }
    model(Some(3), || assert_eq!(halves(Weaker::Nothing), [1, 2]));
}

/// How many interleavings end with something else.
fn damaged(found: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    model(Some(2), move || {
        if found() != [1, 2] {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    count.load(Ordering::Relaxed)
}

#[test]
fn without_the_order_of_the_links_head_a_frame_is_seen_half() {
    for weak in [Weak::Publish, Weak::Look] {
        assert!(damaged(move || hand_over(Way::Link, Alone::Sender, Weaker::Link(weak))) > 0);
    }
}

#[test]
fn without_the_order_of_the_ports_head_a_handover_is_damaged() {
    for weak in [Weak::Publish, Weak::Look] {
        assert!(damaged(move || hand_over(Way::Switch, Alone::Receiver, Weaker::Port(weak))) > 0);
    }
}

#[test]
fn without_the_order_of_the_line_a_frame_is_overtaken() {
    for weak in [Weak::Publish, Weak::Look] {
        assert!(damaged(move || halves(Weaker::Line(weak))) > 0);
    }
}
