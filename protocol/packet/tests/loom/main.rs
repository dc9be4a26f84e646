//! Every interleaving (and every stale value the memory model allows) of a small ring. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p vfun-packet --test loom --release
//! ```
//!
//! The tests named `without_…` leave a step out on purpose and must find what goes wrong:
//! they prove that the others could fail. A lost wakeup shows as a deadlock.
#![cfg(loom)]

mod links;
mod memory;

use loom::thread;
use memory::{Bell, Ends, Weak, ends};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn model(preemptions: Option<usize>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check(f);
}

/// A frame of two words and a rest, all of which say its number.
fn frame(n: u8) -> [u8; 20] {
    [n; 20]
}

/// The number of a frame; 0 if its bytes are not of one frame.
fn number(frame: &[u8]) -> u8 {
    if frame.len() == 20 && frame.iter().all(|b| *b == frame[0]) { frame[0] } else { 0 }
}

/// Sends the frames 1 to 3, published in bursts of `burst`, to a receiver that polls.
fn transfer((mut tx, mut rx): Ends, burst: u8) -> Vec<u8> {
    let sender = thread::spawn(move || {
        for n in 1..=3 {
            tx.put(&frame(n)).unwrap();
            if n % burst == 0 || n == 3 {
                tx.publish();
            }
        }
    });
    let mut got = vec![];
    while got.len() < 3 {
        let mut to = [0; 64];
        match rx.next(&mut to) {
            Some(bytes) => got.push(number(&to[..bytes])),
            None if rx.counts().bad > 0 => break,
            None => thread::yield_now(),
        }
        rx.take();
    }
    sender.join().unwrap();
    got
}

#[test]
fn frames_arrive_whole_and_in_order() {
    for burst in [1, 2, 3] {
        model(Some(3), move || assert_eq!(transfer(ends(Weak::Nothing), burst), [1, 2, 3]));
    }
}

/// How many interleavings end with something else.
fn damaged(weak: Weak) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    model(Some(3), move || {
        if transfer(ends(weak), 2) != [1, 2, 3] {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    count.load(Ordering::Relaxed)
}

#[test]
fn without_the_release_of_the_head_a_frame_is_seen_half() {
    assert!(damaged(Weak::Publish) > 0);
}

#[test]
fn without_the_acquire_of_the_head_a_frame_is_seen_half() {
    assert!(damaged(Weak::Look) > 0);
}

/// A receiver that declares sleep, looks once more and sleeps: each frame wakes it.
#[test]
fn a_receiver_that_sleeps_is_woken() {
    model(Some(3), || {
        let (mut tx, mut rx) = ends(Weak::Nothing);
        let bell = Bell::new();
        let ringer = bell.clone();
        let sender = thread::spawn(move || {
            for n in 1..=2 {
                tx.put(&frame(n)).unwrap();
                tx.publish();
                if tx.must_ring() {
                    ringer.ring();
                }
            }
        });
        let mut got = 0;
        let mut to = [0; 64];
        while got < 2 {
            while rx.next(&mut to).is_some() {
                got += 1;
            }
            rx.take();
            rx.declare_sleep();
            if got < 2 && !rx.is_there() {
                bell.wait();
            }
        }
        sender.join().unwrap();
    });
}
