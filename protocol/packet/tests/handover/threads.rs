//! Real threads on real memory: numbered frames, a software switch with a queue in the
//! middle, and thousands of handovers under them.

use crate::common::plain::{Plain, Side, zeroed};
use crate::handover::memory::{RING, ring};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn, yield_now};
use std::time::{Duration, Instant};
use vfun_packet::layout::line;
use vfun_packet::{Closer, Director, Fence, LinkedReceiver, LinkedSender, Sender, Stage, Todo};

const LINK: u64 = 3;
const FLIPS: u64 = 10_000;
/// Frames that the switch keeps at most.
const QUEUE: usize = 32;
/// So many frames go over a link before it is taken back.
const OVER_LINK: u64 = 8;
/// Only so that a test that fails ends.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Clone)]
struct Sides {
    all: Vec<Side>,
    /// How many frames A has sent, when it has stopped; before that the largest number.
    sent: Arc<AtomicU64>,
    /// The manager has done all its flips.
    is_over: Arc<AtomicU64>,
}

impl Sides {
    fn view(&self, mine: usize, theirs: usize) -> Plain {
        Plain { mine: self.all[mine].clone(), theirs: self.all[theirs].clone() }
    }
}

/// Sends numbers from 1 on, until all flips are done. Where there is no room it tries the
/// same number again.
fn sender(sides: &Sides) {
    let mut tx = LinkedSender::new(sides.view(0, 1), ring());
    assert!(tx.attach(LINK, sides.view(4, 5), ring()).is_some());
    let mut number = 0u64;
    while sides.is_over.load(Ordering::Relaxed) == 0 {
        for _ in 0..1 + number % 7 {
            if tx.put(&(number + 1).to_le_bytes()).is_err() {
                yield_now();
                break;
            }
            number += 1;
        }
        tx.publish();
    }
    sides.sent.store(number, Ordering::Release);
}

/// What B has got of A: how many; they must come in order.
fn receiver(sides: &Sides, lost: &AtomicU64) -> u64 {
    let mut rx = LinkedReceiver::new(sides.view(2, 3), ring());
    rx.attach(LINK, sides.view(5, 4), ring());
    let (mut got, mut last) = (0, 0);
    let mut to = [0; 64];
    loop {
        let sent = sides.sent.load(Ordering::Acquire);
        let mut any = false;
        for _ in 0..16 {
            let Some(bytes) = rx.next(&mut to) else { break };
            any = true;
            // C's frames are longer.
            if bytes == 8 {
                let number = u64::from_le_bytes(to[..8].try_into().unwrap());
                assert!(number > last, "{number} came after {last}");
                (got, last) = (got + 1, number);
            }
        }
        rx.take();
        if got + lost.load(Ordering::Acquire) == sent {
            assert_eq!(rx.port().counts().bad, 0);
            return got;
        }
        if !any {
            yield_now();
        }
    }
}

struct Switch {
    fence: Fence<Plain, Plain>,
    closer: Closer<Plain>,
    tx: Sender<Plain>,
    queue: VecDeque<(u64, Vec<u8>)>,
}

impl Switch {
    /// One turn: some frames in, some out; A's that had no room at B.
    fn turn(&mut self, n: u64) -> u64 {
        let (mut dropped, mut to) = (0, [0; 64]);
        while self.queue.len() < QUEUE {
            let Some(bytes) = self.fence.next(&mut to) else { break };
            if bytes != 0 {
                self.queue.push_back((self.fence.stamp(), to[..bytes].to_vec()));
            }
        }
        self.fence.take();
        self.closer.run(&mut self.tx);
        // It keeps some of them now and then.
        for _ in 0..self.queue.len().saturating_sub((n % 5) as usize) {
            let (stamp, frame) = self.queue.pop_front().expect("there");
            let is_in = self.closer.put(&mut self.tx, &frame, stamp).is_ok();
            dropped += u64::from(!is_in);
        }
        self.closer.run(&mut self.tx);
        if n.is_multiple_of(3) {
            // Of C, which has no link.
            let _ = self.tx.put(&[3; 40]);
        }
        self.tx.publish();
        dropped
    }
}

/// The switch, and the manager with it, as the two speak with each other alone.
fn switch(sides: &Sides, lost: &AtomicU64, receiver: &JoinHandle<u64>) -> u64 {
    let fence = Fence::new(sides.view(1, 0), ring());
    let closer = Closer::new(sides.view(7, 6), LINK);
    let tx = Sender::new(sides.view(3, 2), ring());
    let mut switch = Switch { fence, closer, tx, queue: VecDeque::new() };
    switch.fence.line(sides.view(6, 7), LINK, 0);
    let mut director = Director::new(sides.view(1, 0), sides.view(3, 2), LINK, 0, 0);
    let taken = &sides.all[5][vfun_packet::layout::header::TAKEN];
    let (mut since, mut n) = (0, 0);
    let began = Instant::now();
    while !receiver.is_finished() {
        assert!(began.elapsed() < LONGEST, "a turn does not come: {:?}", director.stage());
        n += 1;
        lost.fetch_add(switch.turn(n), Ordering::Release);
        if let Todo::Allow(epoch) = director.look(0, true)
            && switch.fence.allow(epoch)
        {
            director.allowed(epoch, 0);
            since = taken.load(Ordering::Relaxed);
        }
        match director.stage() {
            Stage::Switch { epoch: FLIPS } => sides.is_over.store(1, Ordering::Relaxed),
            Stage::Switch { .. } => drop(director.go(0)),
            Stage::Direct { .. } if taken.load(Ordering::Relaxed) - since >= OVER_LINK => {
                director.back(0);
            }
            stage => assert!(!matches!(stage, Stage::Over | Stage::Forcing { .. }), "{stage:?}"),
        }
        if switch.queue.is_empty() {
            yield_now();
        }
    }
    taken.load(Ordering::Relaxed)
}

#[test]
fn thousands_of_handovers_between_threads() {
    let mut all: Vec<Side> = (0..6).map(|_| zeroed(4096 + RING)).collect();
    all.extend((0..2).map(|_| zeroed(line::WORDS as u64 * 8)));
    let sides = Sides { all, sent: Arc::new(u64::MAX.into()), is_over: Arc::default() };
    let lost = Arc::new(AtomicU64::new(0));
    let a = spawn({
        let sides = sides.clone();
        move || sender(&sides)
    });
    let b = spawn({
        let (sides, lost) = (sides.clone(), lost.clone());
        move || receiver(&sides, &lost)
    });
    let over_link = switch(&sides, &lost, &b);
    sides.is_over.store(1, Ordering::Relaxed);
    a.join().unwrap();
    let got = b.join().unwrap();
    let (sent, dropped) = (sides.sent.load(Ordering::Relaxed), lost.load(Ordering::Relaxed));
    println!(
        "{FLIPS} flips: {sent} sent, {got} came, {over_link} of them over the link, {dropped} dropped by the switch"
    );
    assert_eq!(got + dropped, sent);
    assert!(over_link >= FLIPS * OVER_LINK && over_link < got);
}
